-- Where the names of our tables lead on this connection.
SELECT
    namespace.nspname::text,
    class.relname::text,
    namespace.oid = pg_my_temp_schema() AS temporary
FROM pg_class AS class
JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE class.relname IN ({tables})       -- their names, quoted
  AND (
    pg_table_is_visible(class.oid)      -- the unqualified name leads to this one
    OR (                                -- a second outbox, behind the first
        class.relname = 'outbox_schema'
        AND namespace.nspname = ANY (current_schemas(true))
    )
  )
ORDER BY array_position(current_schemas(true), namespace.nspname), class.relname
