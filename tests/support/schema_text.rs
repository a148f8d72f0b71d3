//! The outbox tables as the engine's own catalogue describes them.

use crate::{Engine, TestDb};
use sea_orm::{ConnectionTrait, Statement};

const POSTGRES: &str = r"
SELECT line FROM (
    SELECT relname AS t, 0 AS part, 0 AS n,
           'table ' || relname || coalesce(' with ' || array_to_string(reloptions, ', '), '') AS line
    FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
    UNION ALL
    SELECT table_name, 1, ordinal_position,
           '  ' || column_name || ' ' || data_type
           || coalesce('(' || character_maximum_length || ')', '')
           || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
           || coalesce(' default ' || column_default, '')
           || CASE is_identity WHEN 'YES' THEN ' identity ' || lower(identity_generation) ELSE '' END
    FROM information_schema.columns WHERE table_schema = current_schema()
    UNION ALL
    SELECT tablename, 2, 0, '  ' || replace(indexdef, current_schema() || '.', '')
    FROM pg_indexes WHERE schemaname = current_schema()
    UNION ALL
    SELECT conrelid::regclass::text, 3, 0, '  foreign key ' || conname
    FROM pg_constraint WHERE contype = 'f'
) AS s WHERE t LIKE 'outbox%' ORDER BY t, part, n, line";

const MYSQL: &str = r"
SELECT CAST(line AS CHAR(1000)) FROM (
    SELECT table_name AS t, 0 AS part, 0 AS n,
           CONCAT('table ', table_name, ' ', engine, ' ', table_collation) AS line
    FROM information_schema.tables WHERE table_schema = DATABASE()
    UNION ALL
    SELECT table_name, 1, ordinal_position,
           CONCAT('  ', column_name, ' ', data_type,
                  CASE WHEN data_type IN ('varchar', 'varbinary')
                       THEN CONCAT('(', character_maximum_length, ')') ELSE '' END,
                  COALESCE(CONCAT('(', datetime_precision, ')'), ''),
                  COALESCE(CONCAT(' ', collation_name), ''),
                  CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END,
                  CASE WHEN extra LIKE '%auto_increment%' THEN ' auto_increment' ELSE '' END)
    FROM information_schema.columns WHERE table_schema = DATABASE()
    UNION ALL
    SELECT table_name, 2, 0,
           CONCAT('  index ', index_name, ' (',
                  GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', '), ')')
    FROM information_schema.statistics WHERE table_schema = DATABASE()
    GROUP BY table_name, index_name
    UNION ALL
    SELECT table_name, 3, 0, CONCAT('  foreign key ', constraint_name)
    FROM information_schema.key_column_usage
    WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL
) AS s WHERE t LIKE 'outbox%' ORDER BY t, part, n, line";

const SQLITE: &str = "
SELECT sql FROM sqlite_master
WHERE tbl_name LIKE 'outbox%' AND sql IS NOT NULL ORDER BY tbl_name, type DESC, name";

/// Every outbox table with its columns, indexes and settings, one line each;
/// empty if there are none.
pub async fn schema_text(db: &TestDb) -> String {
    let (backend, sql) = match db.engine() {
        Engine::Postgres => (sea_orm::DbBackend::Postgres, POSTGRES),
        Engine::MySql => (sea_orm::DbBackend::MySql, MYSQL),
        Engine::Sqlite => (sea_orm::DbBackend::Sqlite, SQLITE),
    };
    let rows = db
        .connection()
        .query_all_raw(Statement::from_string(backend, sql))
        .await
        .expect("the catalogue");
    rows.iter()
        .map(|row| row.try_get_by_index::<String>(0).expect("a line") + "\n")
        .collect()
}
