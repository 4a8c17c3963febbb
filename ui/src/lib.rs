//! apex-ui.
