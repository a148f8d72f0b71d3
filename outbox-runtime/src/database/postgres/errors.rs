//! What an error means, by its code.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::database::errors::ErrorClass;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::sqlx::error::DatabaseError;

/// The class of an error of this engine; `None` for another's.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(in crate::database) fn class(error: &dyn DatabaseError) -> Option<ErrorClass> {
    #[cfg(feature = "postgres")]
    if let Some(error) = error.try_downcast_ref::<sea_orm::SqlxPostgresError>() {
        return Some(of_code(error.code()));
    }
    let _ = error;
    None
}

/// By SQLSTATE.
#[cfg(feature = "postgres")]
fn of_code(code: &str) -> ErrorClass {
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

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::ErrorClass::{Connection, Race, Statement};
    use super::*;

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
            assert_eq!(of_code(code), class, "{code} {what}");
        }
    }
}
