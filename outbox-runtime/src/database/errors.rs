//! What a database error means for a worker: by code, never by text.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use super::{mysql, postgres, sqlite};
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
fn classify_database(error: &dyn DatabaseError) -> ErrorClass {
    let by_code = [
        postgres::errors::class,
        mysql::errors::class,
        sqlite::errors::class,
    ];
    let class = by_code.iter().find_map(|class| class(error));
    class.unwrap_or(ErrorClass::Statement)
}

#[cfg(all(test, feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod tests {
    use super::ErrorClass::{Connection, Statement};
    use super::*;
    use sea_orm::ConnAcquireErr;

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
