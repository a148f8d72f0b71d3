//! The unique id of a message.

use crate::event::headers::Headers;
use std::fmt;
use std::time::SystemTime;

/// The header of a requeued message that carries the unique id of the first one. A user cannot set
/// it.
pub(crate) const UNIQUE_ID: &str = "outbox-unique-id";

/// The id that tells a message from every other message, for ever.
///
/// It is the same in every attempt, in dead letters, and when a dead letter is requeued unchanged.
/// Use it for idempotency keys.
///
/// An [`OutboxMessageId`](crate::OutboxMessageId) is a number that the database counts. After a
/// failover that lost commits, or from a restored backup, the database may give that number to
/// another message. A unique id is that number together with 64 bits that are drawn at random when
/// the message is enqueued. So no other message has it, whatever the database lost.
///
/// As text it is the number, a minus sign and 16 hexadecimal digits: `4711-9f3ac2d10b7e4a55`. A
/// requeued message has the number of the first one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueId {
    id: i64,
    nonce: i64,
}

impl UniqueId {
    /// The unique id of a message with these columns and headers.
    pub(crate) fn of(id: i64, nonce: i64, headers: &Headers) -> Self {
        let inherited = headers.get(UNIQUE_ID).and_then(Self::parse);
        inherited.unwrap_or(Self { id, nonce })
    }

    fn parse(text: &str) -> Option<Self> {
        let (id, nonce) = text.rsplit_once('-')?;
        let nonce = u64::from_str_radix(nonce, 16).ok()?;
        Some(Self {
            id: id.parse().ok()?,
            nonce: nonce.cast_signed(),
        })
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.id, self.nonce)
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({self})")
    }
}

/// Random bits for a new message. The current time is mixed in: if a machine's memory and its
/// database are rolled back together, it draws the same random numbers again, but at another time.
pub(crate) fn nonce() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| u64::from(now.subsec_nanos()) ^ now.as_secs() << 30);
    (fastrand::u64(..) ^ nanos).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_it_and_is_found_again_in_a_header() {
        for (id, nonce) in [(4711, 0x0b7e), (1, -1), (i64::MAX, i64::MIN), (-3, 0)] {
            let unique = UniqueId { id, nonce };
            let headers = Headers::from_iter([(UNIQUE_ID, unique.to_string())]);
            assert_eq!(UniqueId::of(8, 9, &headers), unique);
        }
        let text = UniqueId {
            id: 4711,
            nonce: -1,
        }
        .to_string();
        assert_eq!(text, "4711-ffffffffffffffff");
    }

    #[test]
    fn a_header_that_is_none_is_not_believed() {
        for text in ["", "-", "7", "7-", "-ff", "7-xyz", "7-00112233445566778899"] {
            let headers = Headers::from_iter([(UNIQUE_ID, text)]);
            assert_eq!(
                UniqueId::of(8, 9, &headers),
                UniqueId { id: 8, nonce: 9 },
                "{text}"
            );
        }
    }
}
