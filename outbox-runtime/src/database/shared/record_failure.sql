-- Counts a failure. One statement: an UPDATE that finds no record would lock the gap on MySQL, and an
-- INSERT cannot tell there whether it met a record, because sqlx counts a row that stayed as it was.
-- $partition, $consumer, $seq: the message.         $delay_us: until the next attempt.
-- $charged: 1 if a death was charged for this attempt, which is taken back.
-- $reason: why it failed.
INSERT INTO outbox_attempt
    (partition_id, consumer, seq, failures, first_failed_at, not_before, last_error)
VALUES ($partition, $consumer, $seq, 1, {now}, {after $delay_us}, $reason)
{or_update partition_id, consumer, seq}
    failures = {one_more failures},
    deaths = outbox_attempt.deaths - CASE WHEN outbox_attempt.deaths > 0 THEN $charged ELSE 0 END,
    first_failed_at = COALESCE(outbox_attempt.first_failed_at, {now}),
    not_before = {after $delay_us},
    last_error = $reason
