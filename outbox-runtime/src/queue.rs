//! A queue: its name, its partitions, and the ids that follow from the name.
//!
//! Ids are computed, never looked up, so that a producer needs no round trip
//! to find its queue. They are written in users' databases: they may not change.

use crate::name::{InvalidName, check_name, is_valid_name};
use crate::partitions::Partitions;
use std::borrow::Cow;
use xxhash_rust::const_xxh3::xxh3_64_with_seed as const_xxh3;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed of every hash of ours; for ever.
const SEED: u64 = 0;
/// A partition's number is in the low six bits of its id.
const NUMBER_BITS: u32 = 6;

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
    partitions: Partitions,
}

impl Queue {
    /// A queue, for constants: a bad name is a compile error there.
    ///
    /// # Panics
    /// If `name` is not a name. For a name that is only known at run time use
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
        Ok(Self { name, partitions })
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
    pub fn id(&self) -> i64 {
        queue_id(&self.name)
    }

    /// The id of a partition in the database, `None` beyond the last one.
    #[must_use]
    pub fn partition_id(&self, partition: u32) -> Option<i64> {
        (partition < self.partitions.count()).then(|| self.id() | i64::from(partition))
    }

    /// The partition of a key, given as the bytes its
    /// [`EventKey`](crate::EventKey) writes: xxh3-64 of them, masked.
    #[must_use]
    pub fn partition_of_key(&self, key: &[u8]) -> u32 {
        let mask = u64::from(self.partitions.count() - 1);
        #[expect(clippy::cast_possible_truncation, reason = "masked to below 64")]
        let partition = (xxh3_64_with_seed(key, SEED) & mask) as u32;
        partition
    }
}

/// The id of the queue of that name: 57 bits of its xxh3-64, above the six bits
/// of the partition's number. Positive, so that it reads well in SQL.
#[must_use]
pub const fn queue_id(name: &str) -> i64 {
    let hash = const_xxh3(name.as_bytes(), SEED);
    ((hash >> (NUMBER_BITS + 1)) << NUMBER_BITS).cast_signed()
}

/// A queue declared once as a type, so that its events cannot disagree on its
/// partitions. Implemented by `outbox::queue!`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a queue",
    label = "not a queue",
    note = "declare it with `outbox::queue!(pub {Self} = \"name\", partitions = 4);`, or write the queue's name as a string"
)]
pub trait QueueType {
    /// The queue.
    const QUEUE: Queue;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These ids are in users' databases. If this test fails, put the code back.
    #[test]
    fn queue_and_partition_ids_never_change() {
        let golden = [
            ("orders", 6_072_654_281_241_311_808),
            ("payments", 5_683_900_323_982_989_824),
            ("a", 8_314_517_215_945_369_344),
            ("Order.Created_v2-x", 4_985_186_834_241_247_296),
        ];
        for (name, id) in golden {
            assert_eq!(queue_id(name), id, "{name}");
        }
        let orders = Queue::of("orders", Partitions::of(4));
        assert_eq!(orders.partition_id(3), Some(queue_id("orders") + 3));
        assert_eq!(orders.partition_id(4), None);
    }

    /// So are the partitions of keys: a change would break the order per key.
    #[test]
    fn the_partition_of_a_key_never_changes() {
        let golden: [(&[u8], [u32; 3]); 5] = [
            (b"", [2, 2, 2]),
            (b"7", [2, 10, 58]),
            (b"customer-7", [0, 8, 40]),
            (&[0xff, 0x00, 0xfe], [0, 4, 36]),
            (&[b'x'; 300], [0, 4, 20]),
        ];
        for (key, expected) in golden {
            let found = [4, 16, 64]
                .map(|count| Queue::of("any", Partitions::of(count)).partition_of_key(key));
            assert_eq!(found, expected, "{key:?}");
        }
    }

    #[test]
    fn ids_leave_room_for_the_partition_and_stay_positive() {
        for name in ["orders", "x", "0"] {
            assert!(queue_id(name) >= 0);
            assert_eq!(queue_id(name) & 0x3f, 0);
        }
    }
}
