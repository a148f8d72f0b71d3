-- Copies a message into the dead letters.
-- $queue, $partition, $consumer: where it failed.   $seq, $id: the message.
-- $attempts, $reason: how often it was tried, and why it failed the last time.
INSERT INTO outbox_dead_letter
    (queue, {partition}, consumer, seq, message_id, event_type, {key}, payload, headers,
        enqueued_at, failed_at, attempts, reason, status, slot, nonce)
SELECT $queue, $partition, $consumer, $seq, b.id, b.event_type, b.{key}, b.payload,
    NULLIF(b.headers, ''), b.enqueued_at, {now}, $attempts, $reason, 'pending', b.slot, b.nonce
FROM outbox_body b
WHERE b.id = $id
{returning_id}
