-- $rows: JSON, [[id, sequence], ...].
-- Joined in this order and by this index, whatever the statistics say: a scan would wait for rows
-- that are inserted and not yet committed. The same in the DELETEs beside this file.
UPDATE JSON_TABLE($rows, '$[*]' COLUMNS (
    id BIGINT PATH '$[0]',
    sequence BIGINT PATH '$[1]'
)) AS k
STRAIGHT_JOIN outbox_partition p FORCE INDEX (PRIMARY) ON p.id = k.id
SET p.sequence = k.sequence
