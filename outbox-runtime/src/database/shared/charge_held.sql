-- Counts a death before the handler runs, in a transaction that holds the lease.
-- $partition, $consumer, $seq: the message.
INSERT INTO outbox_attempt (partition_id, consumer, seq, deaths, not_before)
VALUES ($partition, $consumer, $seq, 1, {now})
{or_update partition_id, consumer, seq} deaths = {one_more deaths}
