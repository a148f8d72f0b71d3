//! A handler of any form.

use super::{
    LeasedHandler, LeasedMessageHandler, TransactionalHandler, TransactionalMessageHandler,
};
use std::fmt;
use std::sync::Arc;

/// What a consumer promises about the delivery to its handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At least once, outside any transaction.
    Leased,
    /// Exactly once with the database.
    Transactional,
}

impl Mode {
    /// The name of the mode in the database and in the macro.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Transactional => "transactional",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A handler of one of the four forms.
#[derive(Clone)]
pub(crate) enum AnyHandler {
    LeasedEach(Arc<dyn LeasedMessageHandler>),
    LeasedBatch(Arc<dyn LeasedHandler>),
    TransactionalEach(Arc<dyn TransactionalMessageHandler>),
    TransactionalBatch(Arc<dyn TransactionalHandler>),
}
