//! The slot of a key.

use super::Partitions;
use sha2::{Digest, Sha256};

/// One of 16,384 slots, to which a key belongs for ever: the low 14 bits of the SHA-256 of its
/// bytes, `(b0 | b1 << 8) & 0x3fff`. Every database and every language can compute it.
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
    /// The slot of a key, given as the bytes its [`EventKey`](crate::EventKey) writes.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        let hash = Sha256::digest(key);
        Self(u16::from_le_bytes([hash[0], hash[1]]) & 0x3fff)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The partition of a queue that has so many: the lowest bits, so that a queue which grows to
    /// twice as many splits each partition in two.
    #[must_use]
    pub const fn partition(self, partitions: Partitions) -> u32 {
        self.0 as u32 & (partitions.count() - 1)
    }
}
