//! Teams under change.
