//! The slot of a message.

use super::Partitions;
use sha2::{Digest, Sha256};

/// Slots from here on stand for partitions that were chosen by hand. The low bits of this number
/// are zero, so the mask of [`Slot::partition`] works for both kinds of slot.
const BY_HAND: u16 = 1 << 14;

/// The place of a message in its queue, as the producer writes it. The sequencer turns the slot
/// into a partition. So a producer need not know how many partitions its queue has.
///
/// A key belongs to one of 16,384 slots for ever: the low 14 bits of the SHA-256 of its bytes, `(b0
/// | b1 << 8) & 0x3fff`. Every database and every language can compute it. If a partition was
/// chosen by hand, the slot is 16,384 plus the number of that partition.
///
/// ```
/// use outbox_runtime::{Partitions, Slot};
///
/// let slot = Slot::of_key(b"customer-7");
/// assert_eq!(slot.partition(Partitions::of(4)), u32::from(slot.get()) % 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a key. The key is given as the bytes that its [`EventKey`](crate::EventKey)
    /// writes.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        let hash = Sha256::digest(key);
        Self(u16::from_le_bytes([hash[0], hash[1]]) & (BY_HAND - 1))
    }

    /// The slot of a message whose partition was chosen by hand.
    #[expect(clippy::cast_possible_truncation, reason = "a queue has at most 64")]
    pub(crate) const fn of_partition(number: u32) -> Self {
        Self(BY_HAND + number as u16)
    }

    /// As the database has it. Only a foreign producer writes a negative number. Its bits are kept,
    /// so its partition is the one that SQL computes from it.
    pub(crate) const fn from_stored(slot: i16) -> Self {
        Self(slot.cast_unsigned())
    }

    /// As the database has it.
    pub(crate) const fn stored(self) -> i16 {
        self.0.cast_signed()
    }

    /// The number of the slot.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The partition in a queue with so many partitions: the lowest bits of the slot. So if a queue
    /// grows to twice as many partitions, each partition is split in two.
    #[must_use]
    pub const fn partition(self, partitions: Partitions) -> u32 {
        self.partition_of(partitions.count())
    }

    /// The same for a count, which is a power of two, from the database.
    pub(crate) const fn partition_of(self, count: u32) -> u32 {
        self.0 as u32 & (count - 1)
    }

    /// The partition that was chosen by hand, if one was.
    #[must_use]
    pub const fn chosen_partition(self) -> Option<u32> {
        // Higher numbers are negative in the database. No choice of a partition makes those.
        if self.0 >= BY_HAND && self.0 < 2 * BY_HAND {
            Some((self.0 - BY_HAND) as u32)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_chosen_by_hand_is_found_again_by_the_same_mask() {
        for count in [1, 4, 64] {
            for number in 0..count {
                let slot = Slot::of_partition(number);
                assert_eq!(slot.partition(Partitions::of(count)), number);
                assert_eq!(slot.chosen_partition(), Some(number));
                assert_eq!(Slot::from_stored(slot.stored()), slot);
            }
        }
        assert_eq!(Slot::of_key(b"customer-7").chosen_partition(), None);
    }

    #[test]
    fn every_number_that_the_database_can_have_stays_and_has_the_partition_that_sql_computes() {
        for stored in i16::MIN..=i16::MAX {
            let slot = Slot::from_stored(stored);
            assert_eq!(slot.stored(), stored);
            for count in [1, 4, 64] {
                let sql = i64::from(stored) & (i64::from(count) - 1);
                assert_eq!(
                    i64::from(slot.partition_of(count)),
                    sql,
                    "{stored} of {count}"
                );
            }
            assert_eq!(slot.chosen_partition().is_some(), stored >= 1 << 14);
        }
    }
}
