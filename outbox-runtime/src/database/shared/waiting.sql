-- Everything that waits in the given queues, in one query: what a lost wake-up could have left.
-- $owner: this process.  {numbers}: the queues.  {heartbeat}, {below}: see reconcile.rs.
{heartbeat}
{below}
SELECT 'paused' AS waits, q.id, '' AS consumer
FROM outbox_queue q
WHERE q.id IN ({numbers}) AND q.paused
UNION ALL
SELECT 'unsequenced', q.id, ''
FROM outbox_queue q
WHERE q.id IN ({numbers}) AND {unsequenced}
UNION ALL
-- Cursors behind their partition without a valid lease. A process that runs several keys at a time
-- keeps its lease, and is told of what others numbered meanwhile. A message that failed and is not
-- due holds up a partition only if nothing comes behind it: with several keys at a time it holds
-- up its key alone.
SELECT 'claimable', c.partition_id, c.consumer
FROM outbox_partition p
JOIN outbox_cursor c ON c.partition_id = p.id AND c.processed_seq < p.sequence
LEFT JOIN outbox_attempt a
    ON a.partition_id = c.partition_id AND a.consumer = c.consumer
    AND a.seq = c.processed_seq + 1
WHERE p.queue_id IN ({numbers})
    AND (c.lease_until IS NULL OR c.lease_until <= {now}
        OR (c.lease_owner = $owner AND c.claimed_seq < p.sequence))
    AND (a.not_before IS NULL OR a.not_before <= {now} OR p.sequence > c.processed_seq + 1)
