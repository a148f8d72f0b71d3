-- Rows in incoming that no sequencer takes: of queues that nobody registered, or of a partition that
-- their queue does not have.
SELECT i.queue_id, i.chosen, COUNT(*) AS row_count
FROM (
    SELECT n.queue_id, CASE WHEN n.slot >= 16384 THEN n.slot END AS chosen
    FROM outbox_incoming n
    LEFT JOIN outbox_queue q ON q.id = n.queue_id
    WHERE q.id IS NULL OR n.slot >= 16384 + q.partitions
) i
GROUP BY i.queue_id, i.chosen
