-- Writes bodies. The id of the first comes with the answer.
INSERT INTO outbox_body
    (queue_id, slot, nonce, event_type, `key`, payload, headers, target, enqueued_at)
VALUES {each ($queue, $slot, $nonce, $event_type, $key, $payload, $headers, $target, {now})}
