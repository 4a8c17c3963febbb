//! Integration tests.

mod bad_input;

mod bench_smoke;

mod cli;

mod e2e;

mod tidy;

mod tools;
