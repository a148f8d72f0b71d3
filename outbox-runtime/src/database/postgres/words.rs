//! PostgreSQL's words.

use crate::database::words::Words;

pub(in crate::database) const WORDS: Words = Words {
    // now() is the time of BEGIN: leases and due times need the real one.
    now: "clock_timestamp()",
    after: "(clock_timestamp() + @1 * interval '1 microsecond')",
    us: "(extract(epoch FROM @1) * 1000000)::bigint",
    earlier: "@1 - @2 * interval '1 microsecond'",
    key: "key",
    partition: "partition",
    or_ignore: "ON CONFLICT DO NOTHING",
    or_update: "ON CONFLICT (@1) DO UPDATE SET",
    for_update: "FOR NO KEY UPDATE",
    skip_locked: "FOR NO KEY UPDATE SKIP LOCKED",
    returning_id: "RETURNING id",
    unsequenced: include_str!("unsequenced.sql"),
    below_low_watermark: include_str!("below_low_watermark.sql"),
};
