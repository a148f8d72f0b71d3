-- $rows: JSON, [[partition_id, seq, id], ...].
INSERT INTO outbox_outgoing (partition_id, seq, id)
SELECT k.partition_id, k.seq, k.id
FROM JSON_TABLE($rows, '$[*]' COLUMNS (
    partition_id BIGINT PATH '$[0]',
    seq BIGINT PATH '$[1]',
    id BIGINT PATH '$[2]'
)) AS k
