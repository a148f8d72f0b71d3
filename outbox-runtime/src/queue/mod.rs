//! A queue: its name, its partitions, and the ids that follow from the name.

mod id;
pub(crate) mod name;
mod partition_set;
mod partitions;
mod sha256;
pub(crate) mod signal;
mod slot;

pub use id::{DeadLetterId, queue_id};
pub(crate) use id::{PartitionId, QueueId};
pub(crate) use partition_set::PartitionSet;
pub use partitions::{InvalidPartitions, Partitions};
pub use slot::Slot;

use crate::queue::name::{InvalidName, check_name, is_valid_name};
use std::borrow::Cow;

/// A queue as producers and consumers name it.
///
/// ```
/// use outbox_runtime::{Partitions, Queue};
///
/// const ORDERS: Queue = Queue::of("orders", Partitions::of(4));
/// assert_eq!(ORDERS.name(), "orders");
/// assert!(ORDERS.partition_of_key(b"customer-7") < 4);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Queue {
    name: Cow<'static, str>,
    id: QueueId,
    partitions: Partitions,
}

impl Queue {
    /// A queue for constants. A bad name is a compile error there.
    ///
    /// # Panics
    /// If `name` is not a valid name. For a name that is only known at run time use
    /// [`try_of`](Self::try_of).
    #[must_use]
    #[track_caller]
    pub const fn of(name: &'static str, partitions: Partitions) -> Self {
        assert!(
            is_valid_name(name),
            "a queue's name is 1 to 128 letters, digits, `.`, `_` or `-` (ASCII)"
        );
        Self {
            name: Cow::Borrowed(name),
            id: QueueId::of(name),
            partitions,
        }
    }

    /// A queue whose name is known at run time.
    ///
    /// # Errors
    /// If `name` is not 1 to 128 ASCII letters, digits, `.`, `_` or `-`.
    pub fn try_of(
        name: impl Into<Cow<'static, str>>,
        partitions: Partitions,
    ) -> Result<Self, InvalidName> {
        let name = name.into();
        check_name("a queue", &name)?;
        Ok(Self {
            id: QueueId::of(&name),
            name,
            partitions,
        })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of partitions.
    #[must_use]
    pub const fn partitions(&self) -> Partitions {
        self.partitions
    }

    /// The id of this queue in the database.
    #[must_use]
    pub const fn id(&self) -> i64 {
        self.id.get()
    }

    /// The id as a type of its own.
    pub(crate) const fn queue_id(&self) -> QueueId {
        self.id
    }

    /// The id of a partition in the database, `None` beyond the last one.
    #[must_use]
    pub fn partition_id(&self, partition: u32) -> Option<i64> {
        (partition < self.partitions.count()).then(|| self.id.partition(partition).get())
    }

    /// The partition of a key: that of its [`Slot`]. The key is given as the bytes that its
    /// [`EventKey`](crate::EventKey) writes.
    #[must_use]
    pub fn partition_of_key(&self, key: &[u8]) -> u32 {
        Slot::of_key(key).partition(self.partitions)
    }
}

/// A queue that is declared once, as a type, so that its events cannot disagree on its partitions.
/// `outbox::queue!` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a queue",
    label = "not a queue",
    note = "declare it with `outbox::queue!(pub {Self} = \"name\", partitions = 4);`, or write the queue's name as a string"
)]
pub trait QueueType {
    /// The queue.
    const QUEUE: Queue;
}
