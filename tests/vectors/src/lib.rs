//! Cases for the Edit command language, computed with sam, run against apex's engine.

pub mod case;
pub mod editor;
pub mod shell;
