-- $queue; $ids: JSON, [id, ...].
DELETE FROM outbox_incoming
WHERE id IN (SELECT value FROM json_each($ids)) AND queue_id = $queue
