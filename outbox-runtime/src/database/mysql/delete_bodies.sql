-- $ids: JSON, [id, ...].
DELETE b
FROM JSON_TABLE($ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS k
STRAIGHT_JOIN outbox_body b FORCE INDEX (PRIMARY) ON b.id = k.id
