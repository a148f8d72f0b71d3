//! The words of MySQL and MariaDB.

use crate::database::stepwise;
use crate::database::words::Words;

pub(in crate::database) const WORDS: Words = Words {
    now: "UTC_TIMESTAMP(6)",
    after: "(UTC_TIMESTAMP(6) + INTERVAL @1 MICROSECOND)",
    us: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', @1)",
    earlier: "@1 - INTERVAL @2 MICROSECOND",
    key: "`key`",
    partition: "`partition`",
    or_ignore: "ON DUPLICATE KEY UPDATE @1 = @1",
    or_update: "ON DUPLICATE KEY UPDATE",
    for_update: "FOR UPDATE",
    skip_locked: "FOR UPDATE SKIP LOCKED",
    returning_id: "",
    unsequenced: stepwise::UNSEQUENCED,
    below_low_watermark: stepwise::BELOW_LOW_WATERMARK,
};
