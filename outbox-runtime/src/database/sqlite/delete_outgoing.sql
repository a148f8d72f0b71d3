-- $partition; $seqs: JSON, [seq, ...].
DELETE FROM outbox_outgoing
WHERE seq IN (SELECT value FROM json_each($seqs)) AND partition_id = $partition
