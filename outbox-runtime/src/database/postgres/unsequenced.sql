-- Whether queue q has a row that a sequencer may take: above the low watermark, and of a partition
-- that exists. Rows are compared instead of columns, so that the planner walks the index.
(SELECT i.id
    FROM outbox_incoming i
    WHERE (i.queue_id, i.id) > (q.id, q.low_id)
        AND (i.queue_id, i.id) <= (q.id, 9223372036854775807)
        AND i.slot < 16384 + q.partitions
    ORDER BY i.queue_id, i.id
    LIMIT 1) IS NOT NULL
