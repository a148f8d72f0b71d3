-- In front of the reconciler's query: notes that processes of these consumers were seen.
-- $seen_queues, $seen_names, $seen_types: arrays with an element for each consumer.
WITH seen AS (
    UPDATE outbox_consumer c SET seen_at = clock_timestamp()
    FROM unnest($seen_queues::bigint[], $seen_names::text[], $seen_types::text[])
        AS m (queue_id, name, event_types)
    WHERE c.queue_id = m.queue_id AND c.name = m.name AND c.event_types = m.event_types
)
