-- Writes bodies. Returns their ids.
INSERT INTO outbox_body
    (queue_id, slot, nonce, event_type, key, payload, headers, target, enqueued_at)
VALUES {each ($queue, $slot, $nonce, $event_type, $key, $payload, $headers, $target, {now})}
RETURNING id
