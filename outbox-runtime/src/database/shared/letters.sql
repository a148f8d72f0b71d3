-- Dead letters.  {condition}: which.  $limit: how many.
SELECT id, queue, {partition} AS partition_number, consumer, seq, message_id, event_type, {key},
    payload, headers, {us enqueued_at} AS enqueued_us, {us failed_at} AS failed_us, attempts,
    reason, status, {us deadline} AS deadline_us, {us completed_at} AS completed_us, requeued_as,
    slot, nonce
FROM outbox_dead_letter
WHERE {condition}
ORDER BY id
LIMIT $limit
