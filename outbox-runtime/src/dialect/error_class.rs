//! What a database error means for a worker: by code, never by text.

use sea_orm::DbErr;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::{RuntimeErr, SqlxError, sqlx::error::DatabaseError};

/// What to do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorClass {
    /// A race was lost: serialization failure, deadlock, lock timeout, busy.
    Race,
    /// The connection or the server is gone, or nobody answers.
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
    let SqlxError::Database(database) = error else {
        return ErrorClass::Connection;
    };
    match database.code().as_deref() {
        // PostgreSQL: serialization, deadlock, lock not available.
        Some("40001" | "40P01" | "55P03") => ErrorClass::Race,
        // PostgreSQL: connection (08), outcome unknown and the like (40), resources
        // (53), operator intervention (57).
        Some(code) if code.len() == 5 && ["08", "40", "53", "57"].contains(&&code[..2]) => {
            ErrorClass::Connection
        }
        _ => classify_by_number(&**database),
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn classify_by_number(database: &dyn DatabaseError) -> ErrorClass {
    #[cfg(feature = "mysql")]
    if let Some(error) = database.try_downcast_ref::<sea_orm::SqlxMySqlError>() {
        return match error.number() {
            // Lock wait timeout, deadlock, and Galera's "record has changed".
            1205 | 1213 | 1020 => ErrorClass::Race,
            // Shutting down, killed, too many connections.
            1053 | 1927 | 1040 | 1317 => ErrorClass::Connection,
            _ => ErrorClass::Statement,
        };
    }
    #[cfg(feature = "sqlite")]
    if database
        .try_downcast_ref::<sea_orm::SqlxSqliteError>()
        .is_some()
    {
        let primary = database.code().and_then(|code| code.parse::<i32>().ok());
        return match primary.map(|code| code & 0xff) {
            // SQLITE_BUSY, SQLITE_LOCKED.
            Some(5 | 6) => ErrorClass::Race,
            // I/O, full disk.
            Some(10 | 13) => ErrorClass::Connection,
            _ => ErrorClass::Statement,
        };
    }
    let _ = database;
    ErrorClass::Statement
}
