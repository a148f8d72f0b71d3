-- Locks a cursor, acknowledges, looks for messages, and only if there are any (or something to
-- acknowledge) writes. It serves an idle poll, a first claim, and the acknowledgement of a batch
-- together with the claim of the next.
--
-- $partition, $queue, $consumer: whose cursor.      $owner: this process.
-- $row: where the cursor's row was last (ctid).     $refuse: suspects to leave alone, see `Refuse`.
-- $acked_epoch: the claim to acknowledge; -1 if there is none.
-- $acked_seq, $acked_claimed: processed_seq and claimed_seq after the acknowledgement.
-- $anchor_seq, $anchor_id: a message that must still have its sequence number, see `Ack`.
-- $forget_attempts: whether acknowledged messages may have records of attempts.
-- $most_messages: 0 only acknowledges.              $most_bytes: of payloads.
-- $lease_us, $lease_ms: the length of the lease.    $asynchronous_commit: the commit need not wait for the disk.
--
-- The planner guesses a tenth of the partition for a LIMIT that it cannot see, and would read all
-- bodies. The literal limit, and LATERAL with OFFSET, keep it to looking rows up by key.
WITH row_as_left AS MATERIALIZED (
    -- While some old transaction is open, a key leads to every version of the row since, and there
    -- is one per batch. So the row is looked for where it was last.
    SELECT ctid AS place, xmin AS version
    FROM outbox_cursor
    WHERE ctid = $row::text::tid AND partition_id = $partition AND consumer = $consumer
),
cursor_row AS MATERIALIZED (
    SELECT place, version FROM row_as_left
    UNION ALL
    SELECT ctid, xmin FROM outbox_cursor
    WHERE partition_id = $partition AND consumer = $consumer
        AND NOT EXISTS (SELECT FROM row_as_left)
),
locked_cursor AS MATERIALIZED (
    SELECT processed_seq, claimed_seq, lease_epoch,
        -- An acknowledgement counts if the lease is the one of that claim and the anchor still
        -- has its sequence number.
        (lease_owner = $owner AND lease_epoch = $acked_epoch
            AND EXISTS (SELECT FROM outbox_outgoing o
                WHERE o.partition_id = $partition AND o.seq = $anchor_seq AND o.id = $anchor_id)
        ) IS TRUE AS held,
        CASE WHEN $asynchronous_commit THEN set_config('synchronous_commit', 'off', true) END
    FROM outbox_cursor
    -- Another xmin: the row changed after this statement began. What else is read here would be
    -- older than it, the record of attempts above all.
    WHERE ctid = (SELECT place FROM cursor_row) AND xmin = (SELECT version FROM cursor_row)
        AND {lease_is_free}
    {lock}
),
after_ack AS MATERIALIZED (
    SELECT held, lease_epoch,
        CASE WHEN held THEN $acked_seq ELSE processed_seq END AS processed,
        CASE WHEN held THEN $acked_claimed ELSE claimed_seq END AS claimed
    FROM locked_cursor
),
attempts AS MATERIALIZED (
    SELECT seq, failures, deaths, done, not_before
    FROM outbox_attempt
    WHERE partition_id = $partition AND consumer = $consumer
        AND seq > (SELECT processed FROM after_ack)
),
failed_next AS MATERIALIZED (
    -- The record of the next message, unless it is done. Such a message is claimed alone.
    SELECT a.not_before > clock_timestamp() AS waiting,
        (extract(epoch FROM a.not_before - clock_timestamp()) * 1000000)::bigint AS due_in_us,
        a.failures, a.deaths
    FROM after_ack
    JOIN attempts a ON a.seq = after_ack.processed + 1 AND NOT a.done
),
next_rows AS MATERIALIZED (
    SELECT o.seq, o.id FROM (
        SELECT o.seq, o.id
        FROM outbox_outgoing o
        WHERE EXISTS (SELECT FROM after_ack)
            AND NOT EXISTS (SELECT FROM failed_next WHERE waiting)
            AND NOT EXISTS (SELECT FROM outbox_queue WHERE id = $queue AND paused)
            -- After a claim that died: not a suspect that is refused.
            AND NOT EXISTS (SELECT FROM after_ack
                WHERE claimed > processed
                    AND ($refuse = 2
                        OR ($refuse = 1 AND EXISTS (SELECT FROM failed_next WHERE deaths > 0))))
            AND o.partition_id = $partition
            AND o.seq > (SELECT processed FROM after_ack)
            -- Up to the next message that failed; that one goes alone.
            AND o.seq < (SELECT COALESCE(min(a.seq), 9223372036854775807)
                FROM attempts a, after_ack
                WHERE NOT a.done AND a.seq > after_ack.processed + 1)
        ORDER BY o.seq
        LIMIT 10000
    ) AS o
    ORDER BY o.seq
    LIMIT (SELECT CASE
            WHEN $most_messages > 0
                AND (after_ack.claimed > after_ack.processed OR EXISTS (SELECT FROM failed_next))
            THEN 1
            ELSE $most_messages
        END FROM after_ack)
),
written AS (
    UPDATE outbox_cursor SET
        processed_seq = after_ack.processed,
        claimed_seq = GREATEST(after_ack.claimed, after_ack.processed, found.last),
        lease_epoch = after_ack.lease_epoch + CASE WHEN found.last IS NULL THEN 0 ELSE 1 END,
        lease_owner = CASE WHEN found.last IS NULL THEN NULL ELSE $owner END,
        lease_until = CASE WHEN found.last IS NULL THEN NULL
            ELSE clock_timestamp() + $lease_us * interval '1 microsecond' END,
        lease_ms = CASE WHEN found.last IS NULL THEN lease_ms ELSE $lease_ms END
    FROM after_ack, (SELECT max(seq) AS last FROM next_rows) AS found
    WHERE ctid = (SELECT place FROM cursor_row) AND (after_ack.held OR found.last IS NOT NULL)
    RETURNING outbox_cursor.lease_epoch, outbox_cursor.ctid AS place, outbox_cursor.xmin AS version,
        -- False if this was written inside a savepoint: that has a transaction id of its own.
        outbox_cursor.xmin = pg_current_xact_id()::xid AS outermost
),
forgotten AS (
    DELETE FROM outbox_attempt
    WHERE $forget_attempts AND EXISTS (SELECT FROM after_ack WHERE held)
        AND partition_id = $partition AND consumer = $consumer AND seq <= $acked_seq
)
SELECT after_ack.held, after_ack.processed, after_ack.claimed,
    (SELECT due_in_us FROM failed_next) AS due_in_us,
    (SELECT failures FROM failed_next) AS failures,
    (SELECT deaths FROM failed_next) AS deaths,
    (SELECT lease_epoch FROM written) AS lease_epoch,
    (SELECT outermost FROM written) AS outermost,
    COALESCE((SELECT place FROM written), (SELECT place FROM cursor_row))::text AS place,
    COALESCE((SELECT version FROM written), (SELECT version FROM cursor_row))::text AS version,
    (SELECT max(seq) FROM next_rows) AS last_seq,
    message.seq, message.id, message.event_type, message.key, message.payload, message.headers,
    message.target, message.enqueued_us, message.nonce,
    message.seq IN (SELECT a.seq FROM attempts a WHERE a.done) AS done
FROM after_ack
LEFT JOIN (
    SELECT next_rows.seq, next_rows.id, body.*,
        sum(octet_length(body.payload)) OVER (ORDER BY next_rows.seq ROWS UNBOUNDED PRECEDING)
            AS bytes
    FROM next_rows
    LEFT JOIN LATERAL (
        SELECT {body outbox_body} FROM outbox_body WHERE outbox_body.id = next_rows.id OFFSET 0
    ) AS body ON true
) AS message
    -- Only up to the message that reaches $most_bytes. The others stay claimed until these are
    -- acknowledged.
    ON message.bytes IS NULL
        OR message.bytes - COALESCE(octet_length(message.payload), 0) < $most_bytes
ORDER BY message.seq
