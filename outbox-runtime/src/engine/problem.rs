//! The problems that keep an outbox from starting.

use super::builder::ConsumerSpec;
use crate::database::registration::{ModeConflict, QueueConflict};
use crate::queue::Queue;
use outbox_migrations::SchemaError;
use sea_orm::DbErr;
use std::fmt;

/// The reasons why an outbox did not start: every problem there is.
#[derive(Debug)]
pub struct StartError {
    problems: Vec<ConfigError>,
}

/// One problem of a [`StartError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Something in the description is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The queue is registered with another number of partitions.
    #[error(
        "queue `{queue}` has {found} partitions in the database and {expected} in this program: \
         the number cannot change while messages are on their way"
    )]
    PartitionCountMismatch {
        /// The queue.
        queue: String,
        /// What the program says.
        expected: u32,
        /// What the database says.
        found: u32,
    },
    /// Two names have the same id.
    #[error("queue `{queue}` has the same id as queue `{other}`: rename one of them")]
    QueueIdCollision {
        /// The queue.
        queue: String,
        /// The queue that was there first.
        other: String,
    },
    /// The consumer is registered with another mode.
    #[error(
        "consumer `{consumer}` of queue `{queue}` is {found} in the database and {expected} in this \
         program: give it another name; remove the old one with `remove_consumer` when it has \
         nothing left, since what waits for it is then never delivered to it"
    )]
    ModeMismatch {
        /// The queue.
        queue: String,
        /// The consumer.
        consumer: String,
        /// What the program says.
        expected: String,
        /// What the database says.
        found: String,
    },
    /// The tables are missing or old.
    #[error(transparent)]
    Schema(SchemaError),
    /// The database could not be asked.
    #[error("the database could not be asked: {0}")]
    Database(DbErr),
}

impl ConfigError {
    pub(super) fn from_conflict(conflict: QueueConflict, queue: &Queue) -> Self {
        let name = queue.name().to_owned();
        match conflict {
            QueueConflict::Partitions { found } => Self::PartitionCountMismatch {
                queue: name,
                expected: queue.partitions().count(),
                found,
            },
            QueueConflict::Collision { other } => Self::QueueIdCollision { queue: name, other },
        }
    }

    pub(super) fn from_consumer_conflict(mode: ModeConflict, spec: &ConsumerSpec) -> Self {
        Self::ModeMismatch {
            queue: spec.queue.name().to_owned(),
            consumer: spec.name.clone(),
            expected: spec.mode.to_string(),
            found: mode.found,
        }
    }
}

impl StartError {
    pub(super) fn new(problems: Vec<ConfigError>) -> Self {
        Self { problems }
    }

    pub(super) fn unless_empty(problems: Vec<ConfigError>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }

    /// The problems, never none.
    #[must_use]
    pub fn problems(&self) -> &[ConfigError] {
        &self.problems
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outbox cannot start")?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {}
