-- Whether queue q has a row at or below the low watermark, where none should appear.
(SELECT i.id
    FROM outbox_incoming i
    WHERE (i.queue_id, i.id) >= (q.id, 0)
        AND (i.queue_id, i.id) <= (q.id, q.low_id)
        AND i.slot < 16384 + q.partitions
    ORDER BY i.queue_id, i.id
    LIMIT 1) IS NOT NULL
