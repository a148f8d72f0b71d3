-- $rows: JSON, [[partition_id, seq, id], ...].
INSERT INTO outbox_outgoing (partition_id, seq, id)
SELECT value ->> 0, value ->> 1, value ->> 2
FROM json_each($rows)
