-- Remembers that messages are done although one before them is not.
-- $partition, $consumer: whose.  {numbers}: their sequence numbers.
INSERT INTO outbox_attempt (partition_id, consumer, seq, done, not_before)
SELECT o.partition_id, $consumer, o.seq, TRUE, {now}
FROM outbox_outgoing o
WHERE o.partition_id = $partition AND o.seq IN ({numbers})
