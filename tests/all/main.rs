//! Integration tests.

mod bench_smoke;

mod cli;

mod tidy;
