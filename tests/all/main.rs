//! Integration tests.

mod cli;

mod tidy;
