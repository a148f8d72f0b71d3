-- Writes the incoming rows of bodies.
-- $queue; $rows: JSON, [[id, slot], ...].
INSERT INTO outbox_incoming (queue_id, id, slot)
SELECT $queue, value ->> 0, value ->> 1
FROM json_each($rows)
