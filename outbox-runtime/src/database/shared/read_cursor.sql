-- Reads a cursor: whether its lease is free, and whether there is something to do.
-- $partition, $queue, $consumer: whose cursor.      $owner: this process.
SELECT c.processed_seq, c.claimed_seq, c.lease_epoch,
    CASE WHEN {lease_is_free} THEN 1 ELSE 0 END AS is_free,
    CASE WHEN NOT q.paused AND EXISTS (
        SELECT 1 FROM outbox_outgoing o
        WHERE o.partition_id = c.partition_id AND o.seq > c.processed_seq
    ) THEN 1 ELSE 0 END AS has_work
FROM outbox_cursor c
JOIN outbox_queue q ON q.id = $queue
WHERE c.partition_id = $partition AND c.consumer = $consumer
