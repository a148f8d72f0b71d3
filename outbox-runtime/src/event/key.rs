//! Which values can be keys, and the bytes that they have in the database.
//!
//! The bytes decide the partition and the order, so the bytes of a value must never change. They
//! are readable where possible: in a table an operator finds `acme/42`, not the eight bytes of an
//! integer.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

/// The longest key, in bytes.
pub const MAX_KEY_LEN: usize = 1024;

/// A value by which messages are ordered. Messages with equal keys reach a consumer in the order in
/// which their transactions committed.
///
/// | value | bytes |
/// |---|---|
/// | an integer | its decimal digits: `-7` is `-7`, whatever the integer's width |
/// | a string | its UTF-8 bytes |
/// | `[u8]`, `Vec<u8>`, `[u8; N]` | themselves |
/// | [`Uuid`] | its hyphenated lower-case form |
/// | a tuple | its parts with `/` between them; a `/` or `\` in a part gets a `\` before it |
/// | a reference, `Box`, `Rc`, `Arc`, `Cow` | as what it points to |
///
/// Values with the same bytes are the same key: `7`, `7u64` and `"7"` are one key.
///
/// Implement it for a type of your own with the help of one of these:
///
/// ```
/// use outbox_runtime::EventKey;
///
/// struct CustomerId(i64);
///
/// impl EventKey for CustomerId {
///     fn write_key(&self, out: &mut Vec<u8>) {
///         self.0.write_key(out);
///     }
/// }
/// assert_eq!(("acme", CustomerId(42)).to_key_bytes(), b"acme/42");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of an event",
    label = "not a key",
    note = "a key is an integer, a string, bytes, a `Uuid`, a tuple of those, or a reference to one",
    note = "for a type of your own, implement `outbox::EventKey`"
)]
pub trait EventKey {
    /// Appends the bytes of this key to `out`.
    fn write_key(&self, out: &mut Vec<u8>);

    /// The bytes of this key.
    fn to_key_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_key(&mut bytes);
        bytes
    }
}

macro_rules! keys {
    ($($ty:ty),*; $self:ident, $out:ident => $write:expr) => {$(
        impl EventKey for $ty {
            fn write_key(&$self, $out: &mut Vec<u8>) {
                $write;
            }
        }
    )*};
}

keys!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize
    ; self, out => out.extend_from_slice(self.to_string().as_bytes()));
keys!(str, String; self, out => out.extend_from_slice(self.as_bytes()));
keys!([u8], Vec<u8>; self, out => out.extend_from_slice(self));
keys!(Uuid; self, out => {
    let mut text = Uuid::encode_buffer();
    out.extend_from_slice(self.hyphenated().encode_lower(&mut text).as_bytes());
});

impl<const N: usize> EventKey for [u8; N] {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

macro_rules! pointers {
    ($($ty:ty),*) => {$(
        impl<T: EventKey + ?Sized> EventKey for $ty {
            fn write_key(&self, out: &mut Vec<u8>) {
                (**self).write_key(out);
            }
        }
    )*};
}

pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: EventKey + ToOwned + ?Sized> EventKey for Cow<'_, T> {
    fn write_key(&self, out: &mut Vec<u8>) {
        (**self).write_key(out);
    }
}

macro_rules! tuples {
    ($(($first:ident $(, $rest:ident)+))*) => {$(
        impl<$first: EventKey, $($rest: EventKey),+> EventKey for ($first, $($rest),+) {
            #[allow(non_snake_case, reason = "a variable per type parameter")]
            fn write_key(&self, out: &mut Vec<u8>) {
                let ($first, $($rest),+) = self;
                write_part($first, out);
                $(
                    out.push(b'/');
                    write_part($rest, out);
                )+
            }
        }
    )*};
}

tuples!((A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E)(A, B, C, D, E, F));

/// Escapes the part, so that different tuples of one shape never have the same bytes.
fn write_part<K: EventKey>(part: &K, out: &mut Vec<u8>) {
    for byte in part.to_key_bytes() {
        if matches!(byte, b'/' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These bytes are in users' databases. If this test fails, put the code back.
    #[test]
    fn the_bytes_of_a_key_never_change() {
        assert_eq!((-7_i64).to_key_bytes(), b"-7");
        assert_eq!(u128::MAX.to_key_bytes(), u128::MAX.to_string().as_bytes());
        assert_eq!("größe".to_key_bytes(), "größe".as_bytes());
        assert_eq!([0xff_u8, 0].to_key_bytes(), [0xff, 0]);
        assert_eq!(
            Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8).to_key_bytes(),
            b"67e55044-10b1-426f-9247-bb680e5fe0c8"
        );
        assert_eq!(("acme", 42).to_key_bytes(), b"acme/42");
        assert_eq!(("a/b", r"c\d", b"").to_key_bytes(), br"a\/b/c\\d/");
        assert_eq!((("a", "b"), "c").to_key_bytes(), br"a\/b/c");
    }

    #[test]
    fn tuples_of_one_shape_differ_if_their_parts_do() {
        let parts = ["", "a", "/", "\\", "a/", "/a", "\\/", "/\\"];
        let mut seen = std::collections::HashMap::new();
        for a in parts {
            for b in parts {
                if let Some(other) = seen.insert((a, b).to_key_bytes(), (a, b)) {
                    panic!("{:?} and {other:?} are the same key", (a, b));
                }
            }
        }
    }

    #[test]
    fn a_pointer_is_the_key_it_points_to() {
        let plain = "k".to_key_bytes();
        assert_eq!(Arc::<str>::from("k").to_key_bytes(), plain);
        assert_eq!(Cow::Borrowed("k").to_key_bytes(), plain);
        assert_eq!((&&String::from("k")).to_key_bytes(), plain);
        assert_eq!(Box::new("k").to_key_bytes(), plain);
    }
}
