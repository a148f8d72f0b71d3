-- A cursor of a new consumer in each partition of a queue.
-- $name: the consumer.  $first, $last: the partitions of the queue.  {start}: behind which number.
INSERT INTO outbox_cursor (partition_id, consumer, processed_seq, claimed_seq)
SELECT p.id, $name, {start}, {start}
FROM outbox_partition p
WHERE p.id BETWEEN $first AND $last
