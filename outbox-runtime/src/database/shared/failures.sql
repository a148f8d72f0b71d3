-- Messages that failed and are not settled, soonest due first.  $limit: how many.
SELECT a.partition_id, a.consumer, b.id, b.event_type, b.{key}, a.failures, a.deaths,
    {us a.not_before} - {now_us} AS due_us, a.last_error,
    CASE WHEN a.seq = c.processed_seq + 1 THEN 1 ELSE 0 END AS is_next
FROM outbox_attempt a
JOIN outbox_cursor c ON c.partition_id = a.partition_id AND c.consumer = a.consumer
JOIN outbox_outgoing o ON o.partition_id = a.partition_id AND o.seq = a.seq
JOIN outbox_body b ON b.id = o.id
WHERE NOT a.done
ORDER BY a.not_before
LIMIT $limit
