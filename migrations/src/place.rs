//! Where the tables are.
//!
//! Our statements name no schema and no database. So on PostgreSQL the connection's `search_path`
//! decides where the tables are, and on MySQL its database. All tables of one outbox must be in one
//! place: a connection that leads to two of them is refused here.
//!
//! If nothing is wrong, this costs one query of PostgreSQL's catalogue, and nothing on other engines.

use crate::{SchemaError, VERSIONS};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use std::collections::BTreeSet;

/// Names have no quotes, so that they can be compared: `regnamespace` would add quotes.
const SELECTED_POSTGRES: &str = "SELECT current_schema()::text, current_setting('search_path'), \
    (SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.oid = to_regclass('outbox_schema'))";
const SELECTED_MYSQL: &str = "SELECT DATABASE()";

/// Refuses a connection whose `search_path` leads to tables of ours in more than one schema.
pub(crate) async fn check_one_place<C: ConnectionTrait>(conn: &C) -> Result<(), SchemaError> {
    if conn.get_database_backend() != DbBackend::Postgres {
        return Ok(());
    }
    let found = found_on_postgres(conn).await.map_err(unreadable)?;
    if let Some(hiding) = found.iter().find(|table| table.temporary) {
        return Err(SchemaError::TemporaryTable {
            table: hiding.name.clone(),
        });
    }
    let mut schemas: Vec<String> = found.into_iter().map(|table| table.schema).collect();
    schemas.dedup();
    if schemas.len() > 1 {
        return Err(SchemaError::SeveralSchemas { schemas });
    }
    Ok(())
}

/// Refuses a connection that has no schema, or no database, to look for tables in.
pub(crate) async fn check_selected<C: ConnectionTrait>(conn: &C) -> Result<(), SchemaError> {
    selected(conn).await.map(drop)
}

/// Refuses a connection that would create new tables in another schema than the one that has the
/// tables of an earlier version.
pub(crate) async fn check_target<C: ConnectionTrait>(conn: &C) -> Result<(), SchemaError> {
    match selected(conn).await? {
        Some(Selected {
            target,
            found: Some(found),
        }) if found != target => Err(SchemaError::OtherSchema { found, target }),
        _ => Ok(()),
    }
}

/// A table that a name of ours leads to.
struct FoundTable {
    schema: String,
    name: String,
    temporary: bool,
}

/// In the order of the `search_path`.
async fn found_on_postgres<C: ConnectionTrait>(conn: &C) -> Result<Vec<FoundTable>, DbErr> {
    let names: Vec<String> = table_names()?.iter().map(|n| format!("'{n}'")).collect();
    let sql = include_str!("place.sql").replace("{tables}", &names.join(", "));
    let rows = conn
        .query_all_raw(Statement::from_string(DbBackend::Postgres, sql))
        .await?;
    let found = rows.iter().map(|row| {
        Ok(FoundTable {
            schema: row.try_get_by_index(0)?,
            name: row.try_get_by_index(1)?,
            temporary: row.try_get_by_index(2)?,
        })
    });
    found.collect()
}

/// The tables that any version creates.
fn table_names() -> Result<BTreeSet<String>, DbErr> {
    const CREATE: &str = "CREATE TABLE IF NOT EXISTS ";
    let mut names = BTreeSet::new();
    for version in &VERSIONS {
        for statement in version.statements(DbBackend::Postgres)? {
            let after = statement.split(CREATE).skip(1);
            names.extend(after.filter_map(|rest| rest.split([' ', '(']).next().map(str::to_owned)));
        }
    }
    Ok(names)
}

/// On PostgreSQL: the schema that new tables would be in, and the one that `outbox_schema` is in.
struct Selected {
    target: String,
    found: Option<String>,
}

async fn selected<C: ConnectionTrait>(conn: &C) -> Result<Option<Selected>, SchemaError> {
    let backend = conn.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => SELECTED_POSTGRES,
        DbBackend::MySql => SELECTED_MYSQL,
        _ => return Ok(None),
    };
    let row = conn
        .query_one_raw(Statement::from_string(backend, sql))
        .await
        .map_err(unreadable)?;
    let Some(row) = row else { return Ok(None) };
    let target: Option<String> = row.try_get_by_index(0).map_err(unreadable)?;
    match target {
        None if backend == DbBackend::MySql => Err(SchemaError::NoDatabase),
        None => Err(SchemaError::NoSchema {
            search_path: row.try_get_by_index(1).map_err(unreadable)?,
        }),
        Some(_) if backend == DbBackend::MySql => Ok(None),
        Some(target) => Ok(Some(Selected {
            target,
            found: row.try_get_by_index(2).map_err(unreadable)?,
        })),
    }
}

fn unreadable(source: DbErr) -> SchemaError {
    SchemaError::Database {
        doing: "read",
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_every_table_that_is_created() {
        let names = table_names().expect("PostgreSQL is supported");
        let script = crate::sql(DbBackend::Postgres).expect("PostgreSQL is supported");
        let created = script.matches("CREATE TABLE").count();
        // Every version makes sure of `outbox_schema`.
        assert_eq!(names.len(), created - (VERSIONS.len() - 1));
        for name in ["outbox_schema", "outbox_queue", "outbox_body"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        let letters = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(names.iter().all(|name| letters(name)), "{names:?}");
    }
}
