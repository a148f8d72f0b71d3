-- Writes bodies and incoming rows from arrays: the text is the same for any number of rows. Returns
-- the ids as one row, which costs the client less than many.
-- $queue; $slots, $nonces, $event_types, $keys, $payloads, $headers: an element for each message.
-- $event_types has one element if all messages are of one type, and $headers none if no message
-- has any: unnest fills shorter arrays up with nulls.
WITH transaction_id AS MATERIALIZED (
    -- As in insert_message.sql.
    SELECT pg_current_xact_id() IS NOT NULL AS assigned
),
new_bodies AS (
    INSERT INTO outbox_body
        (queue_id, slot, nonce, event_type, key, payload, headers, enqueued_at)
    SELECT $queue, m.slot, m.nonce, COALESCE(m.event_type, ($event_types::text[])[1]), m.key,
        m.payload, COALESCE(m.headers, ''), clock_timestamp()
    FROM transaction_id,
        unnest($slots::smallint[], $nonces::bigint[], $event_types::text[], $keys::bytea[],
            $payloads::bytea[], $headers::text[]) WITH ORDINALITY
            AS m (slot, nonce, event_type, key, payload, headers, position)
    WHERE assigned
    ORDER BY m.position                 -- so that ids are drawn in the order of the list
    RETURNING id, slot
),
new_incoming AS (
    INSERT INTO outbox_incoming (queue_id, id, slot)
    SELECT $queue, new_bodies.id, new_bodies.slot
    FROM new_bodies
    RETURNING id
)
SELECT array_agg(id) AS ids FROM new_incoming
