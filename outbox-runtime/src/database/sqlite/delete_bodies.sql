-- $ids: JSON, [id, ...].
DELETE FROM outbox_body WHERE id IN (SELECT value FROM json_each($ids))
