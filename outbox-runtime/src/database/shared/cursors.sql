-- Where every consumer is in every partition.
SELECT c.partition_id, c.consumer, k.mode, {now_us} - {us k.seen_at} AS silent_us, p.sequence,
    c.processed_seq, c.lease_owner, {us c.lease_until} - {now_us} AS lease_left_us
FROM outbox_cursor c
JOIN outbox_partition p ON p.id = c.partition_id
JOIN outbox_consumer k ON k.queue_id = p.queue_id AND k.name = c.consumer
ORDER BY c.consumer, c.partition_id
