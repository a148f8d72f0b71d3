-- Reads a cursor, its next messages with their bodies, and their records of attempts. One row if
-- there are no messages, none if there is no cursor.
--
-- $partition, $queue, $consumer: whose cursor.      $owner: this process.
-- $acked_epoch: the claim to acknowledge; -1 if there is none.
-- $acked_seq: what it acknowledges.                 $most_messages: how many to read.
-- $anchor_seq, $anchor_id: a message that must still have its sequence number, see `Ack`.
SELECT c.processed_seq, c.claimed_seq, c.lease_epoch, c.lease_owner,
    {us c.lease_until} AS lease_until_us, {now_us} AS now_us,
    a.failures, a.deaths, a.done, {us a.not_before} AS due_us,
    o.seq, o.id, {body b},
    CASE WHEN EXISTS (
        SELECT 1 FROM outbox_outgoing n
        WHERE n.partition_id = $partition AND n.seq = $anchor_seq AND n.id = $anchor_id
    ) THEN 1 ELSE 0 END AS anchored,
    LENGTH(b.payload) AS payload_bytes
FROM outbox_cursor c
LEFT JOIN (
    -- With a limit of its own: joined first and limited afterwards, MariaDB would sort the whole
    -- log. An acknowledgement that does not count is found out afterwards: asked in here, MariaDB
    -- would read the log from its beginning.
    SELECT g.seq, g.id
    FROM outbox_outgoing g
    WHERE g.partition_id = $partition AND g.seq > (
        SELECT CASE WHEN k.lease_owner = $owner AND k.lease_epoch = $acked_epoch
            THEN $acked_seq ELSE k.processed_seq END
        FROM outbox_cursor k
        JOIN outbox_queue q ON q.id = $queue AND NOT q.paused
        WHERE k.partition_id = $partition AND k.consumer = $consumer AND {lease_is_free}
    )
    ORDER BY g.seq
    LIMIT $most_messages
) o ON 1 = 1
LEFT JOIN outbox_body b ON b.id = o.id
LEFT JOIN outbox_attempt a
    ON a.partition_id = c.partition_id AND a.consumer = c.consumer AND a.seq = o.seq
WHERE c.partition_id = $partition AND c.consumer = $consumer
ORDER BY o.seq
