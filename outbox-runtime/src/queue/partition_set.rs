//! A set of a queue's partitions.

use super::Partitions;

/// A set of partition numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PartitionSet(u64);

const _: () = assert!(Partitions::MAX == u64::BITS, "a bit for each partition");

impl PartitionSet {
    /// Every partition that a queue can have.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Adds a partition.
    pub(crate) fn insert(&mut self, number: u32) {
        self.0 |= 1 << number;
    }

    /// Whether a partition is in it.
    pub(crate) fn contains(self, number: u32) -> bool {
        self.0 & (1 << number) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_nothing_else() {
        let mut set = PartitionSet::default();
        for number in [0, 5, 63] {
            set.insert(number);
        }
        let found: Vec<u32> = (0..64).filter(|number| set.contains(*number)).collect();
        assert_eq!(found, [0, 5, 63]);
        assert!((0..64).all(|number| PartitionSet::ALL.contains(number)));
    }
}
