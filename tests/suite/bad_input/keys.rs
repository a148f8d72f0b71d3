//! Keys, at random: what is different stays different, and every key has a partition.

use outbox::{EventKey, Partitions, Queue};
use proptest::prelude::*;

/// The parts that a tuple's bytes were made of.
fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        let last = parts.last_mut().expect("never none");
        match byte {
            b'\\' => last.extend(bytes.next()),
            b'/' => parts.push(Vec::new()),
            other => last.push(*other),
        }
    }
    parts
}

proptest! {
    #[test]
    fn the_parts_of_a_tuple_can_be_told_apart(a: Vec<u8>, b: String, c: i64) {
        let bytes = (&a, &b, c).to_key_bytes();
        prop_assert_eq!(parts(&bytes), [a, b.into_bytes(), c.to_string().into_bytes()]);
    }

    #[test]
    fn a_tuple_in_a_tuple_is_one_part(a: Vec<u8>, b: Vec<u8>, c: Vec<u8>) {
        let inner = (&a, &b).to_key_bytes();
        let bytes = ((&a, &b), &c).to_key_bytes();
        prop_assert_eq!(parts(&bytes), [inner, c]);
    }

    #[test]
    fn integers_of_any_width_are_the_same_key(n: i32) {
        let bytes = n.to_key_bytes();
        prop_assert_eq!(&bytes, &i64::from(n).to_key_bytes());
        prop_assert_eq!(&bytes, &i128::from(n).to_key_bytes());
        prop_assert_eq!(&bytes, &n.to_string().to_key_bytes());
    }

    #[test]
    fn every_key_has_a_partition_and_keeps_it(key: Vec<u8>, power in 0_u32..=6) {
        let queue = Queue::of("keys", Partitions::try_of(1 << power).unwrap());
        let partition = queue.partition_of_key(&key);
        prop_assert!(partition < 1 << power);
        prop_assert_eq!(partition, queue.partition_of_key(&key));
        // A queue of fewer partitions has the low bits of it.
        let half = Queue::of("keys", Partitions::try_of(1 << power.saturating_sub(1)).unwrap());
        prop_assert_eq!(half.partition_of_key(&key), partition & (half.partitions().count() - 1));
    }
}
