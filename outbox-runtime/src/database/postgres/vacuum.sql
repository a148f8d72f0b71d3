-- Deletes what every consumer has passed, from where the last pass stopped. A start at the oldest
-- row would walk over every row that was deleted while some old transaction was open. Each
-- partition ends at the first row that is to be retained. A queue without consumers keeps everything.
--
-- $partitions, $after: partitions, and behind which sequence number to begin, as arrays.
-- $limit: rows of a partition.          $retention_us: how old a message must be.
-- $asynchronous_commit: the commit need not wait for the disk.
WITH setting AS MATERIALIZED (
    SELECT CASE WHEN $asynchronous_commit THEN set_config('synchronous_commit', 'off', true) END
),
passed AS MATERIALIZED (
    SELECT asked.partition_id, asked.after, min(c.processed_seq) AS upto
    FROM setting, unnest($partitions::bigint[], $after::bigint[]) AS asked (partition_id, after)
    JOIN outbox_cursor c ON c.partition_id = asked.partition_id
    GROUP BY asked.partition_id, asked.after
    HAVING min(c.processed_seq) > asked.after
),
old_rows AS MATERIALIZED (
    SELECT partition_id, seq, id, place FROM (
        SELECT passed.partition_id, o.seq, o.id, o.place,
            bool_and($retention_us = 0 OR COALESCE((
                SELECT b.enqueued_at <= clock_timestamp() - $retention_us * interval '1 microsecond'
                FROM outbox_body b
                WHERE b.id = o.id
            ), true)) OVER (PARTITION BY passed.partition_id ORDER BY o.seq) AS old
        FROM passed
        CROSS JOIN LATERAL (
            SELECT o.seq, o.id, o.ctid AS place
            FROM outbox_outgoing o
            WHERE o.partition_id = passed.partition_id
                AND o.seq > passed.after AND o.seq <= passed.upto
            ORDER BY o.seq
            LIMIT $limit
        ) AS o
    ) AS a
    WHERE old
),
deleted_outgoing AS (
    -- Rows of the log are never updated, so each is where it was found.
    DELETE FROM outbox_outgoing WHERE ctid = ANY (ARRAY(SELECT place FROM old_rows))
),
deleted_bodies AS (
    DELETE FROM outbox_body b USING old_rows WHERE b.id = old_rows.id
)
SELECT partition_id, max(seq) AS upto, count(*) AS rows FROM old_rows GROUP BY partition_id
