-- What was read before is claimed only if it still has its sequence number. A crash of the server may
-- have undone the numbering, and what has the number now would be passed over.
AND EXISTS (SELECT 1 FROM outbox_outgoing o
    WHERE o.partition_id = $partition AND o.seq = $read_seq AND o.id = $read_id)
