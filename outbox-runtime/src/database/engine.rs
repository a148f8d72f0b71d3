//! Which database engine a connection speaks to.

use sea_orm::{ConnectionTrait, DbBackend, DbErr};

/// An engine we speak to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    Postgres,
    MySql,
    Sqlite,
}

impl Engine {
    /// Every engine.
    pub(crate) const ALL: [Self; 3] = [Self::Postgres, Self::MySql, Self::Sqlite];

    /// The engine of a connection.
    pub(crate) fn of<C: ConnectionTrait>(conn: &C) -> Result<Self, DbErr> {
        match conn.get_database_backend() {
            DbBackend::Postgres => Ok(Self::Postgres),
            DbBackend::MySql => Ok(Self::MySql),
            DbBackend::Sqlite => Ok(Self::Sqlite),
            other => Err(DbErr::BackendNotSupported {
                db: other.as_str(),
                ctx: "the outbox",
            }),
        }
    }

    /// What sea-orm calls it.
    pub(crate) const fn backend(self) -> DbBackend {
        match self {
            Self::Postgres => DbBackend::Postgres,
            Self::MySql => DbBackend::MySql,
            Self::Sqlite => DbBackend::Sqlite,
        }
    }
}
