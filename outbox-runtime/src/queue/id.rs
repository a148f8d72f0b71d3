//! The ids of queues and partitions. They are computed, never looked up, so that a producer needs
//! no round trip to find its queue. They are in users' databases: they may not change.

use super::sha256::sha256_start;

/// A partition's number is in the low twelve bits of its id: more than a queue can have today.
const NUMBER_BITS: u32 = 12;
const NUMBER: i64 = (1 << NUMBER_BITS) - 1;

/// The id of the queue of that name: the first 51 bits of the SHA-256 of the name, above the
/// twelve bits of the partition's number. Positive, so that it reads well in SQL.
#[must_use]
pub const fn queue_id(name: &str) -> i64 {
    let hash = sha256_start(name.as_bytes());
    ((hash >> (NUMBER_BITS + 1)) << NUMBER_BITS).cast_signed()
}

/// The id of a partition.
pub(crate) const fn partition_id(queue_id: i64, number: u32) -> i64 {
    queue_id | number as i64
}

/// The highest id that a partition of the queue can have.
pub(crate) const fn last_partition_id(queue_id: i64) -> i64 {
    queue_id | NUMBER
}

/// The queue of a partition.
pub(crate) const fn queue_of(partition_id: i64) -> i64 {
    partition_id & !NUMBER
}

/// The number of a partition in its queue.
#[expect(clippy::cast_sign_loss, reason = "twelve bits")]
pub(crate) const fn number_of(partition_id: i64) -> u32 {
    (partition_id & NUMBER) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_leave_room_for_the_partition_and_stay_positive() {
        for name in ["orders", "x", "0"] {
            let queue = queue_id(name);
            assert!(queue >= 0);
            for number in [0, 1, 63, 4_095] {
                let partition = partition_id(queue, number);
                assert!((queue..=last_partition_id(queue)).contains(&partition));
                assert_eq!(queue_of(partition), queue);
                assert_eq!(number_of(partition), number);
            }
        }
    }
}
