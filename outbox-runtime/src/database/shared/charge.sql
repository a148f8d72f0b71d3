-- Counts a death before the handler runs, if the lease is still ours.
-- $partition, $consumer, $seq: the message.         $owner, $epoch: the lease.
INSERT INTO outbox_attempt (partition_id, consumer, seq, deaths, not_before)
SELECT c.partition_id, c.consumer, $seq, 1, {now}
FROM outbox_cursor c
WHERE c.partition_id = $partition AND c.consumer = $consumer
    AND c.lease_owner = $owner AND c.lease_epoch = $epoch
{or_update partition_id, consumer, seq} deaths = {one_more deaths}
