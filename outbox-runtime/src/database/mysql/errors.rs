//! What an error means, by its code.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::database::errors::ErrorClass;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::sqlx::error::DatabaseError;

/// The class of an error of this engine; `None` for another's.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(in crate::database) fn class(error: &dyn DatabaseError) -> Option<ErrorClass> {
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sea_orm::SqlxMySqlError>() {
        return Some(of_code(error.number()));
    }
    let _ = error;
    None
}

/// By the server's number: one SQLSTATE stands for many.
#[cfg(feature = "mysql")]
fn of_code(number: u16) -> ErrorClass {
    match number {
        // Lock wait timeout, deadlock, "record has changed since last read".
        1205 | 1213 | 1020 => ErrorClass::Race,
        // Too many connections, shutting down, interrupted, killed, took too long
        // (MariaDB, MySQL).
        1040 | 1053 | 1317 | 1927 | 1969 | 3024 => ErrorClass::Connection,
        // Out of disk, out of memory, table full.
        1021 | 1041 | 1114 => ErrorClass::Connection,
        // A server that only reads: a replica, before the pool notices.
        1290 | 1836 => ErrorClass::Connection,
        _ => ErrorClass::Statement,
    }
}

#[cfg(all(test, feature = "mysql"))]
mod tests {
    use super::ErrorClass::{Connection, Race, Statement};
    use super::*;

    #[test]
    fn mysql_errors_are_sorted_by_number() {
        for (number, what, class) in [
            (1205, "lock wait timeout", Race),
            (1213, "deadlock", Race),
            (1020, "record has changed", Race),
            (1040, "too many connections", Connection),
            (1053, "shutdown in progress", Connection),
            (1317, "query interrupted", Connection),
            (1927, "connection killed", Connection),
            (1969, "max_statement_time exceeded", Connection),
            (3024, "max_execution_time exceeded", Connection),
            (1021, "disk full", Connection),
            (1114, "table full", Connection),
            (1290, "running with read-only", Connection),
            (1836, "read-only mode", Connection),
            (1062, "duplicate entry", Statement),
            (1064, "syntax error", Statement),
            (1142, "command denied", Statement),
            (1146, "no such table", Statement),
            (1305, "savepoint does not exist", Statement),
        ] {
            assert_eq!(of_code(number), class, "{number} {what}");
        }
    }
}
