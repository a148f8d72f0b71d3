//! The tables, one module per concern: binds values, runs the statements of
//! the dialect, maps rows. No decisions are made here.

pub(crate) mod incoming;
