//! What an error means, by its code.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::database::errors::ErrorClass;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::sqlx::error::DatabaseError;

/// The class of an error of this engine; `None` for another's.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(in crate::database) fn class(error: &dyn DatabaseError) -> Option<ErrorClass> {
    #[cfg(feature = "sqlite")]
    if let Some(error) = error.try_downcast_ref::<sea_orm::SqlxSqliteError>() {
        let code = error.code().and_then(|code| code.parse().ok());
        return Some(code.map_or(ErrorClass::Statement, of_code));
    }
    let _ = error;
    None
}

/// By the primary result code, which is in the low eight bits.
#[cfg(feature = "sqlite")]
fn of_code(code: i32) -> ErrorClass {
    match code & 0xff {
        // BUSY, LOCKED.
        5 | 6 => ErrorClass::Race,
        // NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN.
        7 | 9 | 10 | 13 | 14 => ErrorClass::Connection,
        _ => ErrorClass::Statement,
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::ErrorClass::{Connection, Race, Statement};
    use super::*;

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
            assert_eq!(of_code(code), class, "{code} {what}");
        }
    }
}
