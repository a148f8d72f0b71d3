//! The ids of queues, partitions and dead letters. Ids of queues and partitions are computed, never
//! looked up, so that a producer needs no round trip to find its queue. They are in users'
//! databases, so they must never change.

use super::sha256::sha256_start;
use sea_orm::{ColIdx, QueryResult, TryGetError, TryGetable, Value};
use std::fmt;

/// The number of a partition is in the low twelve bits of its id. That is more than a queue can
/// have today.
const NUMBER_BITS: u32 = 12;
const NUMBER: i64 = (1 << NUMBER_BITS) - 1;

/// The id of the queue with that name: the first 51 bits of the SHA-256 of the name, above the
/// twelve bits for the partition's number. It is positive, so that it reads well in SQL.
#[must_use]
pub const fn queue_id(name: &str) -> i64 {
    let hash = sha256_start(name.as_bytes());
    ((hash >> (NUMBER_BITS + 1)) << NUMBER_BITS).cast_signed()
}

/// The id of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct QueueId(i64);

/// The id of a partition: the id of its queue, with the partition's number in the low bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PartitionId(i64);

impl QueueId {
    /// The id of the queue with that name.
    pub(crate) const fn of(name: &str) -> Self {
        Self(queue_id(name))
    }

    /// As the database has it.
    pub(crate) const fn get(self) -> i64 {
        self.0
    }

    /// One of its partitions.
    pub(crate) const fn partition(self, number: u32) -> PartitionId {
        PartitionId(self.0 | number as i64)
    }

    /// The highest id that a partition of the queue can have.
    pub(crate) const fn last_partition(self) -> PartitionId {
        PartitionId(self.0 | NUMBER)
    }
}

impl PartitionId {
    /// As the database has it.
    pub(crate) const fn get(self) -> i64 {
        self.0
    }

    /// Its queue.
    pub(crate) const fn queue(self) -> QueueId {
        QueueId(self.0 & !NUMBER)
    }

    /// The number of the partition in its queue.
    #[expect(clippy::cast_sign_loss, reason = "twelve bits")]
    pub(crate) const fn number(self) -> u32 {
        (self.0 & NUMBER) as u32
    }
}

/// The id of a dead letter. It is not the id of its message: a message can become a dead letter of
/// several consumers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeadLetterId(i64);

impl DeadLetterId {
    /// The id as it is in the database.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for DeadLetterId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Lets statements bind ids and rows return them.
macro_rules! stored_as_number {
    ($($id:ident),*) => {$(
        impl From<i64> for $id {
            fn from(id: i64) -> Self {
                Self(id)
            }
        }

        impl From<$id> for i64 {
            fn from(id: $id) -> Self {
                id.0
            }
        }

        impl From<$id> for Value {
            fn from(id: $id) -> Self {
                id.0.into()
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl TryGetable for $id {
            fn try_get_by<I: ColIdx>(row: &QueryResult, column: I) -> Result<Self, TryGetError> {
                i64::try_get_by(row, column).map(Self)
            }
        }
    )*};
}

stored_as_number!(QueueId, PartitionId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_leave_room_for_the_partition_and_stay_positive() {
        for name in ["orders", "x", "0"] {
            let queue = QueueId::of(name);
            assert!(queue.get() >= 0);
            for number in [0, 1, 63, 4_095] {
                let partition = queue.partition(number);
                assert!((queue.partition(0)..=queue.last_partition()).contains(&partition));
                assert_eq!(partition.queue(), queue);
                assert_eq!(partition.number(), number);
            }
        }
    }
}
