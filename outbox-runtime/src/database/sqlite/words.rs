//! SQLite's words.

use crate::database::stepwise;
use crate::database::words::Words;

pub(in crate::database) const WORDS: Words = Words {
    now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
    after: "(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + @1)",
    us: "(@1)",
    earlier: "@1 - @2",
    key: "key",
    partition: "partition",
    or_ignore: "ON CONFLICT DO NOTHING",
    or_update: "ON CONFLICT (@1) DO UPDATE SET",
    // There is one writer, and our transactions begin as it.
    for_update: "",
    skip_locked: "",
    returning_id: "RETURNING id",
    unsequenced: stepwise::UNSEQUENCED,
    below_low_watermark: stepwise::BELOW_LOW_WATERMARK,
};
