-- $rows: JSON, [[id, sequence], ...].
UPDATE outbox_partition SET sequence = k.value ->> 1
FROM json_each($rows) AS k
WHERE outbox_partition.id = k.value ->> 0
