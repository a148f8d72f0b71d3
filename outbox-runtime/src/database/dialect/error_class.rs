//! What a database error means for a worker: by code, never by text.

use sea_orm::DbErr;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::{RuntimeErr, SqlxError, sqlx::error::DatabaseError};

/// What to do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorClass {
    /// A race was lost: serialization failure, deadlock, lock timeout, busy.
    Race,
    /// The connection or the server is gone, cannot work, or nobody answers.
    Connection,
    /// The statement itself was refused.
    Statement,
}

/// Sorts an error.
pub(crate) fn classify(error: &DbErr) -> ErrorClass {
    match error {
        #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            classify_sqlx(error)
        }
        DbErr::Conn(_) | DbErr::ConnectionAcquire(_) => ErrorClass::Connection,
        _ => ErrorClass::Statement,
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn classify_sqlx(error: &SqlxError) -> ErrorClass {
    match error {
        SqlxError::Database(database) => classify_database(&**database),
        SqlxError::Io(_)
        | SqlxError::Tls(_)
        | SqlxError::Protocol(_)
        | SqlxError::PoolTimedOut
        | SqlxError::PoolClosed
        | SqlxError::WorkerCrashed
        | SqlxError::BeginFailed => ErrorClass::Connection,
        // What came back is not what was asked for: asking again does not help.
        _ => ErrorClass::Statement,
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn classify_database(database: &dyn DatabaseError) -> ErrorClass {
    #[cfg(feature = "postgres")]
    if let Some(error) = database.try_downcast_ref::<sea_orm::SqlxPostgresError>() {
        return of_postgres(error.code());
    }
    #[cfg(feature = "mysql")]
    if let Some(error) = database.try_downcast_ref::<sea_orm::SqlxMySqlError>() {
        return of_mysql(error.number());
    }
    #[cfg(feature = "sqlite")]
    if let Some(error) = database.try_downcast_ref::<sea_orm::SqlxSqliteError>() {
        let code = error.code().and_then(|code| code.parse().ok());
        return code.map_or(ErrorClass::Statement, of_sqlite);
    }
    let _ = database;
    ErrorClass::Statement
}

/// By SQLSTATE.
#[cfg(feature = "postgres")]
fn of_postgres(code: &str) -> ErrorClass {
    match code {
        // Serialization, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => ErrorClass::Race,
        // A server that only reads: a standby, before the pool notices.
        "25006" => ErrorClass::Connection,
        // Connection (08), outcome unknown and the like (40), resources (53),
        // operator intervention (57), system (58).
        _ if ["08", "40", "53", "57", "58"].contains(&code.get(..2).unwrap_or_default()) => {
            ErrorClass::Connection
        }
        _ => ErrorClass::Statement,
    }
}

/// By the server's number: one SQLSTATE stands for many.
#[cfg(feature = "mysql")]
fn of_mysql(number: u16) -> ErrorClass {
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

/// By the primary result code, which is in the low eight bits.
#[cfg(feature = "sqlite")]
fn of_sqlite(code: i32) -> ErrorClass {
    match code & 0xff {
        // BUSY, LOCKED.
        5 | 6 => ErrorClass::Race,
        // NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN.
        7 | 9 | 10 | 13 | 14 => ErrorClass::Connection,
        _ => ErrorClass::Statement,
    }
}

#[cfg(all(test, feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod tests {
    use super::ErrorClass::{Connection, Race, Statement};
    use super::*;
    use sea_orm::ConnAcquireErr;

    #[test]
    fn postgres_errors_are_sorted_by_sqlstate() {
        for (code, what, class) in [
            ("40001", "serialization failure", Race),
            ("40P01", "deadlock", Race),
            ("55P03", "lock not available", Race),
            ("08006", "connection failure", Connection),
            ("40003", "statement completion unknown", Connection),
            ("53100", "disk full", Connection),
            ("53300", "too many connections", Connection),
            ("57014", "query cancelled", Connection),
            ("57P01", "admin shutdown", Connection),
            ("57P03", "cannot connect now", Connection),
            ("58030", "I/O error", Connection),
            ("25006", "read-only transaction", Connection),
            ("25P02", "in a failed transaction", Statement),
            ("22012", "division by zero", Statement),
            ("23505", "unique violation", Statement),
            ("42501", "insufficient privilege", Statement),
            ("42P01", "undefined table", Statement),
            ("", "no code", Statement),
        ] {
            assert_eq!(of_postgres(code), class, "{code} {what}");
        }
    }

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
            assert_eq!(of_mysql(number), class, "{number} {what}");
        }
    }

    #[test]
    fn sqlite_errors_are_sorted_by_primary_code() {
        for (code, what, class) in [
            (5, "BUSY", Race),
            (517, "BUSY_SNAPSHOT", Race),
            (6, "LOCKED", Race),
            (262, "LOCKED_SHAREDCACHE", Race),
            (10, "IOERR", Connection),
            (522, "IOERR_SHORT_READ", Connection),
            (13, "FULL", Connection),
            (14, "CANTOPEN", Connection),
            (1, "ERROR", Statement),
            (19, "CONSTRAINT", Statement),
            (2067, "CONSTRAINT_UNIQUE", Statement),
            (1811, "CONSTRAINT_TRIGGER", Statement),
        ] {
            assert_eq!(of_sqlite(code), class, "{code} {what}");
        }
    }

    #[test]
    fn errors_without_a_code_are_sorted_by_where_they_come_from() {
        let io = || SqlxError::Io(std::io::Error::other("reset"));
        let exec = |error: SqlxError| DbErr::Exec(RuntimeErr::SqlxError(error.into()));
        for (error, class) in [
            (exec(io()), Connection),
            (DbErr::Query(RuntimeErr::SqlxError(io().into())), Connection),
            (DbErr::Conn(RuntimeErr::SqlxError(io().into())), Connection),
            (
                DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
                Connection,
            ),
            (exec(SqlxError::WorkerCrashed), Connection),
            (exec(SqlxError::RowNotFound), Statement),
            (exec(SqlxError::ColumnNotFound("seq".into())), Statement),
            (DbErr::RecordNotUpdated, Statement),
            (DbErr::Type("not a number".into()), Statement),
        ] {
            assert_eq!(classify(&error), class, "{error:?}");
        }
    }
}
