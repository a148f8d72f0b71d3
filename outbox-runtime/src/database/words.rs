//! What every engine can do and writes in its own way, and what is written once for all.
//!
//! | word | meaning |
//! |---|---|
//! | `{now}`, `{now_us}` | the database's clock, also in microseconds since 1970 |
//! | `{after $us}` | so many microseconds from now |
//! | `{us a.column}` | a time in microseconds since 1970 |
//! | `{earlier column \| $us}` | a time, so many microseconds earlier |
//! | `{key}`, `{partition}` | the columns of these names |
//! | `{or_ignore column}` | after an INSERT that may meet an existing row, which then stays |
//! | `{or_update key}` | before what is set in such a row instead; its primary key |
//! | `{for_update}`, `{skip_locked}` | at the end of a SELECT that locks its rows |
//! | `{returning_id}` | at the end of an INSERT whose id is asked for |
//! | `{lease_is_free}` | the lease of the cursor is over, or it is that of `$owner` |
//! | `{one_more column}` | a counter of `outbox_attempt` plus one, if there is room for it |
//! | `{body b}` | the columns of a body that a message is made of |
//! | `{unsequenced}` | queue `q` has committed messages without a sequence number |
//! | `{below_low_watermark}` | it has some where the sequencer no longer looks |

use super::{Engine, mysql, postgres, sqlite};

/// The words of an engine. `@1` and `@2` stand for arguments.
pub(in crate::database) struct Words {
    pub(in crate::database) now: &'static str,
    pub(in crate::database) after: &'static str,
    pub(in crate::database) us: &'static str,
    pub(in crate::database) earlier: &'static str,
    pub(in crate::database) key: &'static str,
    pub(in crate::database) partition: &'static str,
    pub(in crate::database) or_ignore: &'static str,
    pub(in crate::database) or_update: &'static str,
    pub(in crate::database) for_update: &'static str,
    pub(in crate::database) skip_locked: &'static str,
    /// Empty where the id comes with the answer to an INSERT.
    pub(in crate::database) returning_id: &'static str,
    pub(in crate::database) unsequenced: &'static str,
    pub(in crate::database) below_low_watermark: &'static str,
}

const NOW_US: &str = "{us {now}}";
const LEASE_IS_FREE: &str = "(lease_until IS NULL OR lease_until <= {now} OR lease_owner = $owner)";
const ONE_MORE: &str = "CASE WHEN outbox_attempt.@1 < 2147483647 \
    THEN outbox_attempt.@1 + 1 ELSE outbox_attempt.@1 END";
const BODY: &str = "@1.event_type, @1.{key}, @1.payload, @1.headers, @1.target, \
    {us @1.enqueued_at} AS enqueued_us, @1.nonce";

impl Words {
    /// What a word means; it may have words and parameters of its own.
    pub(in crate::database) fn find(&self, word: &str) -> Option<&'static str> {
        Some(match word {
            "now" => self.now,
            "now_us" => NOW_US,
            "after" => self.after,
            "us" => self.us,
            "earlier" => self.earlier,
            "key" => self.key,
            "partition" => self.partition,
            "or_ignore" => self.or_ignore,
            "or_update" => self.or_update,
            "for_update" => self.for_update,
            "skip_locked" => self.skip_locked,
            "returning_id" => self.returning_id,
            "lease_is_free" => LEASE_IS_FREE,
            "one_more" => ONE_MORE,
            "body" => BODY,
            "unsequenced" => self.unsequenced,
            "below_low_watermark" => self.below_low_watermark,
            _ => return None,
        })
    }
}

pub(in crate::database) const fn words(engine: Engine) -> &'static Words {
    match engine {
        Engine::Postgres => &postgres::WORDS,
        Engine::MySql => &mysql::WORDS,
        Engine::Sqlite => &sqlite::WORDS,
    }
}
