-- Numbers committed rows of a queue, all its partitions at once: moves them from incoming into
-- outgoing with sequence numbers that have no gaps. A pass that finds nothing writes nothing.
--
-- $queue: whose rows.           $limit: how many at most.
-- $asynchronous_commit: the commit need not wait for the disk.
-- $thorough: look at all rows, also below the low watermark.
-- $known_partitions, $known_rows: partitions and where their rows were last (ctid), as arrays.
WITH next_rows AS MATERIALIZED (
    -- From the low watermark on: while some old transaction is open, rows that were taken since it
    -- began cannot be removed, and every pass would walk over them. Rows are compared where an
    -- equality would do: the planner takes an equality for a handful of rows, and sorts the whole
    -- backlog instead of walking the index. Rows of a partition beyond the count stay.
    SELECT i.ctid AS place, i.id
    FROM outbox_incoming i
    WHERE (i.queue_id, i.id) > ($queue, CASE WHEN $thorough THEN -1
            ELSE (SELECT low_id FROM outbox_queue WHERE id = $queue) END)
        AND (i.queue_id, i.id) <= ($queue, 9223372036854775807)
        AND i.slot < 16384 + (SELECT partitions FROM outbox_queue WHERE id = $queue)
    ORDER BY i.queue_id, i.id
    LIMIT $limit
),
locked_queue AS MATERIALIZED (
    -- One sequencer of a queue at a time, never waited for; locked only if there are rows.
    SELECT partitions, low_id, high_id, high_xid,
        CASE WHEN $asynchronous_commit THEN set_config('synchronous_commit', 'off', true) END
    FROM outbox_queue
    WHERE id = $queue AND EXISTS (SELECT FROM next_rows)
    FOR NO KEY UPDATE SKIP LOCKED
),
taken AS (
    -- A row that another pass took after this statement began is skipped by the re-check. The
    -- partition is the lowest bits of the slot. That holds for a key's slot and for 16384 + a
    -- partition chosen by hand.
    DELETE FROM outbox_incoming
    WHERE ctid = ANY (ARRAY(SELECT place FROM next_rows WHERE EXISTS (SELECT FROM locked_queue)))
    RETURNING id, $queue + (slot & (SELECT partitions - 1 FROM locked_queue)) AS partition_id
),
counts AS (
    SELECT partition_id, count(*) AS rows FROM taken GROUP BY partition_id
),
partitions_as_left AS MATERIALIZED (
    SELECT p.id, p.place
    FROM unnest($known_partitions::bigint[], $known_rows::text[]) AS known (id, place),
        LATERAL (
            SELECT id, ctid AS place FROM outbox_partition
            WHERE ctid = known.place::tid OFFSET 0
        ) AS p
    WHERE p.id = known.id
),
moved_by_row AS (
    UPDATE outbox_partition p SET sequence = p.sequence + m.rows
    FROM (
        SELECT counts.rows, partitions_as_left.place
        FROM counts
        JOIN partitions_as_left ON partitions_as_left.id = counts.partition_id
    ) AS m
    WHERE p.ctid = m.place
    RETURNING p.id, p.sequence - m.rows AS base, p.ctid AS place
),
not_moved AS MATERIALIZED (
    SELECT counts.partition_id, counts.rows
    FROM counts
    WHERE NOT EXISTS (SELECT FROM moved_by_row WHERE moved_by_row.id = counts.partition_id)
),
moved_by_key AS (
    -- By key, which leads over every row version since an old transaction began: partitions that are
    -- not known yet, and those that another pass moved after this statement began. An update by key
    -- follows such a row to its newest version; one by ctid gives it up. The question whether there
    -- are any spares a usual pass the scan that the planner prefers while partitions are few.
    UPDATE outbox_partition p SET sequence = p.sequence + not_moved.rows
    FROM not_moved
    WHERE p.id = not_moved.partition_id AND EXISTS (SELECT FROM not_moved)
    RETURNING p.id, p.sequence - not_moved.rows AS base, p.ctid AS place
),
moved AS MATERIALIZED (
    SELECT id, base, place FROM moved_by_row
    UNION ALL
    SELECT id, base, place FROM moved_by_key
),
numbered AS (
    INSERT INTO outbox_outgoing (partition_id, seq, id)
    SELECT taken.partition_id,
        moved.base + row_number() OVER (PARTITION BY taken.partition_id ORDER BY taken.id),
        taken.id
    FROM taken
    JOIN moved ON moved.id = taken.partition_id
    RETURNING id
),
proof AS MATERIALIZED (
    -- A producer has a transaction id before it draws a body id. So a producer that drew an id up to
    -- the highest that an earlier pass took (high_id) has a lower transaction id than that pass
    -- (high_xid). Once our snapshot says that all those transactions have ended, we see each such
    -- row. We take it, if we came to the end or beyond high_id. Should there be a row below
    -- nevertheless (ids that begin anew, a foreign producer), a thorough pass finds it.
    SELECT found.last,
        $thorough AND found.first <= locked_queue.low_id AS below,
        pg_current_xact_id()::text::bigint AS xid,
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint > locked_queue.high_xid
            AND (found.rows < $limit OR found.last >= locked_queue.high_id) AS proven
    FROM locked_queue,
        (SELECT count(*) AS rows, min(id) AS first, max(id) AS last FROM next_rows) AS found
),
low_watermark AS (
    -- Kept in the database, so that it comes back from a crash with what it is about. Written every
    -- 1,000 ids at most.
    UPDATE outbox_queue SET
        low_id = CASE WHEN proof.below THEN 0
            WHEN proof.proven THEN GREATEST(low_id, high_id)
            ELSE low_id END,
        high_id = CASE WHEN proof.below THEN 0 ELSE proof.last END,
        high_xid = proof.xid
    FROM proof
    WHERE id = $queue
        AND (proof.below
            OR (proof.last >= high_id + 1000 AND (proof.proven OR high_xid > proof.xid)))
)
SELECT counts.partition_id, counts.rows,
    EXISTS (SELECT FROM next_rows) AND NOT EXISTS (SELECT FROM locked_queue) AS locked,
    moved.place::text AS place,
    -- Every row taken gets a number, unless its partition does not exist: then this cast fails,
    -- which undoes the statement and names the partition.
    CASE WHEN moved.id IS NULL AND counts.partition_id IS NOT NULL
        THEN ('outbox_partition has no row ' || counts.partition_id)::int END AS missing
FROM (VALUES (1)) AS one
LEFT JOIN counts ON true
LEFT JOIN moved ON moved.id = counts.partition_id
