-- Claims for many cursors at once, in the usual case: each cursor is where we left it and is the
-- row version that we wrote, so nobody has claimed it since and nothing read here is older than
-- it. No message of it failed, and its queue is not paused. Others are not answered; they are
-- asked for one by one with claim.sql.
--
-- Arrays with an element for each cursor:
-- $partitions, $queues, $consumers: whose.          $rows, $versions: ctid and xmin as we left it.
-- $processed: what is done.                         $epochs: our lease; -1 if we have none.
-- $most_messages, $leases_us: of the new claim.
-- $anchor_seqs, $anchor_ids: an acknowledged message that must still have its sequence number.
-- $owner: this process.                             $asynchronous_commit: the commit need not wait for the disk.
WITH asked AS MATERIALIZED (
    SELECT a.partition_id, a.consumer, a.place::tid AS place, a.version::xid AS version,
        a.processed, a.epoch, a.most, a.lease, a.anchor_seq, a.anchor_id, a.number,
        CASE WHEN a.epoch >= 0 THEN 1 ELSE 0 END AS done,
        CASE WHEN $asynchronous_commit THEN set_config('synchronous_commit', 'off', true) END
    FROM unnest($partitions::bigint[], $queues::bigint[], $consumers::text[], $rows::text[],
        $versions::text[], $processed::bigint[], $epochs::bigint[], $most_messages::bigint[],
        $leases_us::bigint[], $anchor_seqs::bigint[], $anchor_ids::bigint[]) WITH ORDINALITY
        AS a (partition_id, queue_id, consumer, place, version, processed, epoch, most, lease,
            anchor_seq, anchor_id, number)
    WHERE NOT EXISTS (SELECT FROM outbox_attempt t
            WHERE t.partition_id = a.partition_id AND t.consumer = a.consumer)
        AND NOT EXISTS (SELECT FROM outbox_queue q WHERE q.id = a.queue_id AND q.paused)
),
next_rows AS MATERIALIZED (
    -- The next messages, and before them the last one that is done, where there is one: reading
    -- it here costs no search of its own.
    SELECT asked.number, o.seq, o.id
    FROM asked
    CROSS JOIN LATERAL (
        SELECT o.seq, o.id FROM (
            SELECT o.seq, o.id
            FROM outbox_outgoing o
            WHERE o.partition_id = asked.partition_id AND o.seq > asked.processed - asked.done
            ORDER BY o.seq
            LIMIT 10000
        ) AS o
        ORDER BY o.seq
        LIMIT asked.most + asked.done
    ) AS o
),
written AS (
    UPDATE outbox_cursor c SET
        processed_seq = m.processed,
        claimed_seq = COALESCE(m.last, m.processed),
        lease_epoch = c.lease_epoch + CASE WHEN m.last IS NULL THEN 0 ELSE 1 END,
        lease_owner = CASE WHEN m.last IS NULL THEN NULL ELSE $owner END,
        lease_until = CASE WHEN m.last IS NULL THEN NULL
            ELSE clock_timestamp() + m.lease * interval '1 microsecond' END,
        lease_ms = CASE WHEN m.last IS NULL THEN c.lease_ms
            ELSE LEAST(m.lease / 1000, 2147483647) END
    FROM (
        SELECT asked.*,
            (SELECT max(n.seq) FROM next_rows n
                WHERE n.number = asked.number AND n.seq > asked.processed) AS last
        FROM asked
        WHERE asked.done = 0
            OR EXISTS (SELECT FROM next_rows n
                WHERE n.number = asked.number
                    AND n.seq = asked.anchor_seq AND n.id = asked.anchor_id)
    ) AS m
    WHERE c.ctid = m.place AND c.xmin = m.version
        AND c.partition_id = m.partition_id AND c.consumer = m.consumer
        -- With an epoch this acknowledges. Without one it writes only if there is a message, and the
        -- lease must be free: a server that crashed may give the number of a lost transaction
        -- (xmin) to another one.
        AND CASE WHEN m.epoch >= 0
            THEN c.lease_owner = $owner AND c.lease_epoch = m.epoch
            ELSE m.last IS NOT NULL AND c.processed_seq = m.processed
                AND c.claimed_seq <= c.processed_seq AND {lease_is_free}
            END
    RETURNING m.number, c.lease_epoch, c.ctid, c.xmin, c.processed_seq
)
SELECT written.number, written.lease_epoch, written.ctid::text AS place,
    written.xmin::text AS version, written.processed_seq, next_rows.seq, next_rows.id,
    body.event_type, body.key, body.payload, body.headers, body.target, body.enqueued_us,
    body.nonce
FROM written
LEFT JOIN next_rows
    ON next_rows.number = written.number AND next_rows.seq > written.processed_seq
LEFT JOIN LATERAL (
    SELECT {body outbox_body} FROM outbox_body WHERE outbox_body.id = next_rows.id OFFSET 0
) AS body ON true
ORDER BY written.number, next_rows.seq
