-- Writes a body and its incoming row. Returns the id.
-- $queue, $slot, $nonce, $event_type, $key, $payload, $headers, $target: the message.
WITH transaction_id AS MATERIALIZED (
    -- The transaction gets its id before it draws a body id. So a sequencer can prove that no
    -- lower body id can still appear.
    SELECT pg_current_xact_id() IS NOT NULL AS assigned
),
new_body AS (
    INSERT INTO outbox_body
        (queue_id, slot, nonce, event_type, key, payload, headers, target, enqueued_at)
    SELECT $queue, $slot, $nonce, $event_type, $key, $payload,
        COALESCE($headers, ''), COALESCE($target, ''), clock_timestamp()
    FROM transaction_id
    WHERE assigned                      -- this filter makes transaction_id run first
    RETURNING id
)
INSERT INTO outbox_incoming (queue_id, id, slot)
SELECT $queue, new_body.id, $slot
FROM new_body
RETURNING id
