-- Writes the incoming rows of bodies.
-- $queue; $rows: JSON, [[id, slot], ...].
-- The outer join is a check: an id without a body becomes NULL, which the column refuses, and the
-- whole statement fails.
INSERT INTO outbox_incoming (queue_id, id, slot)
SELECT $queue, b.id, k.slot
FROM JSON_TABLE($rows, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]',
    slot SMALLINT PATH '$[1]'
)) AS k
LEFT JOIN outbox_body b ON b.id = k.id
