//! How many partitions a queue has.

use std::fmt;

/// The number of partitions of a queue: 1, 2, 4, 8, 16, 32 or 64.
///
/// Messages of one key always go to one partition. Several partitions are worked on at the same
/// time.
///
/// ```
/// use outbox_runtime::Partitions;
///
/// const FOUR: Partitions = Partitions::of(4);
/// assert_eq!(FOUR.count(), 4);
/// assert!(Partitions::try_of(3).is_err());
/// ```
///
/// A bad constant does not compile:
///
/// ```compile_fail
/// # use outbox_runtime::Partitions;
/// const THREE: Partitions = Partitions::of(3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Partitions(u8);

impl Partitions {
    /// The largest number of partitions a queue can have.
    pub const MAX: u32 = 64;

    /// `count` partitions, for constants. A bad count is a compile error there.
    ///
    /// # Panics
    /// If `count` is not a power of two from 1 to 64. For a count that is only
    /// known at run time use [`try_of`](Self::try_of).
    #[must_use]
    #[track_caller]
    pub const fn of(count: u32) -> Self {
        match Self::try_of(count) {
            Ok(partitions) => partitions,
            Err(_) => panic!("the number of partitions must be 1, 2, 4, 8, 16, 32 or 64"),
        }
    }

    /// `count` partitions.
    ///
    /// # Errors
    /// If `count` is not a power of two from 1 to 64.
    pub const fn try_of(count: u32) -> Result<Self, InvalidPartitions> {
        if count.is_power_of_two() && count <= Self::MAX {
            #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
            Ok(Self(count as u8))
        } else {
            Err(InvalidPartitions { count })
        }
    }

    /// The number of partitions.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of partitions that no queue can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a queue cannot have {count} partitions: use 1, 2, 4, 8, 16, 32 or 64")]
pub struct InvalidPartitions {
    /// The number given.
    pub count: u32,
}
