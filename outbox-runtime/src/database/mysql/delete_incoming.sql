-- $queue; $ids: JSON, [id, ...].
DELETE i
FROM JSON_TABLE($ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS k
STRAIGHT_JOIN outbox_incoming i FORCE INDEX (PRIMARY) ON i.queue_id = $queue AND i.id = k.id
