-- $partition; $seqs: JSON, [seq, ...].
DELETE o
FROM JSON_TABLE($seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS k
STRAIGHT_JOIN outbox_outgoing o FORCE INDEX (PRIMARY)
    ON o.partition_id = $partition AND o.seq = k.seq
