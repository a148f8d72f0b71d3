-- The next messages of a partition with their records of attempts, up to the message that reaches
-- $most_bytes, and one more that says that there are more. None of a paused queue.
-- $partition, $queue, $consumer: whose.             $after: behind which sequence number.
-- $most_messages: how many.
SELECT o.seq, o.id, {body b}, a.failures, a.deaths, a.done,
    {us a.not_before} - {now_us} AS due_in_us,
    CASE WHEN o.bytes_before < $most_bytes THEN 0 ELSE 1 END AS is_beyond
FROM (
    -- With a limit of its own: joined first and limited afterwards, MariaDB would sort the whole log.
    SELECT s.seq, s.id, SUM(s.bytes) OVER (ORDER BY s.seq) - s.bytes AS bytes_before
    FROM (
        SELECT g.seq, g.id, COALESCE((
            SELECT LENGTH(sized.payload) FROM outbox_body sized WHERE sized.id = g.id
        ), 0) AS bytes
        FROM outbox_outgoing g
        WHERE g.partition_id = $partition AND g.seq > $after
            AND NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.id = $queue AND q.paused)
        ORDER BY g.seq
        LIMIT $most_messages
    ) s
) o
LEFT JOIN outbox_body b ON b.id = o.id AND o.bytes_before < $most_bytes
LEFT JOIN outbox_attempt a
    ON a.partition_id = $partition AND a.consumer = $consumer AND a.seq = o.seq
ORDER BY o.seq
