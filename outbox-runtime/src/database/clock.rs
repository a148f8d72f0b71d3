//! Time that passes at once, for tests: the clock is the database's and cannot be
//! moved, so everything that it is compared with moves the other way.

use super::cursor::micros;
use super::registration::begin;
use super::sql::execute;
use sea_orm::{DatabaseConnection, DbErr};
use std::time::Duration;

/// Every table with times, and their columns.
const TIMES: [(&str, &[&str]); 7] = [
    ("outbox_schema", &["applied_at"]),
    ("outbox_queue", &["created_at"]),
    ("outbox_consumer", &["created_at", "seen_at"]),
    ("outbox_body", &["enqueued_at"]),
    ("outbox_cursor", &["lease_until"]),
    ("outbox_attempt", &["first_failed_at", "not_before"]),
    (
        "outbox_dead_letter",
        &["enqueued_at", "failed_at", "deadline", "completed_at"],
    ),
];

/// Makes everything in the tables as old as if so much time had passed.
pub(crate) async fn age(db: &DatabaseConnection, by: Duration) -> Result<(), DbErr> {
    let tx = begin(db).await?;
    for (table, columns) in TIMES {
        let set: Vec<String> = columns
            .iter()
            .map(|column| format!("{column} = {{earlier({column})}}"))
            .collect();
        let update = format!("UPDATE {table} SET {}", set.join(", "));
        let values = columns.iter().map(|_| micros(by).into());
        execute(&tx, &update, values).await?;
    }
    tx.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use sea_orm::DbBackend;

    #[test]
    fn no_time_in_the_schema_is_forgotten() {
        let schema = outbox_migrations::sql(DbBackend::Postgres).expect("the schema");
        let mut table = "";
        let mut times = Vec::new();
        for line in schema.lines() {
            if let Some(rest) = line.strip_prefix("CREATE TABLE IF NOT EXISTS ") {
                table = rest.trim_end_matches(" (");
            }
            if let Some((column, rest)) = line.trim().split_once(' ')
                && rest.to_lowercase().starts_with("timestamptz")
            {
                times.push((table, column));
            }
        }
        let mut known: Vec<_> = TIMES
            .iter()
            .flat_map(|(table, columns)| columns.iter().map(|column| (*table, *column)))
            .collect();
        times.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, times);
    }
}
