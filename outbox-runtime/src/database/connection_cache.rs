//! Connections that are kept from one statement to the next while there is work.
//!
//! A pool asks a connection whether it is alive when it is taken, and again when it
//! comes back: three round trips for one. So on PostgreSQL, whose hot path is one
//! statement at a time, a connection that has just worked is kept for the next
//! statement. It goes back to the pool when a statement fails or is abandoned, when it
//! was idle for a second, and after a minute whatever happens, so that the pool's own
//! rules about age hold. At most a quarter of a pool is kept: nobody waits for a
//! connection that we do not use. Once the outbox stops none is kept, so that its user can
//! close the pool.

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, ExecResult, QueryResult, QueryStream,
    Statement, StreamTrait,
};
use std::pin::Pin;

/// The pool of a user, and the connections of it that are kept.
pub(crate) struct Kept {
    pool: DatabaseConnection,
    #[cfg(feature = "postgres")]
    postgres: postgres::Connections,
}

impl Kept {
    pub(crate) fn new(pool: DatabaseConnection) -> Self {
        Self {
            #[cfg(feature = "postgres")]
            postgres: postgres::Connections::of(&pool),
            pool,
        }
    }

    /// For what takes more than a statement.
    pub(crate) fn pool(&self) -> &DatabaseConnection {
        &self.pool
    }

    /// Gives back what was idle for a while.
    pub(crate) fn release_idle(&self) {
        #[cfg(feature = "postgres")]
        self.postgres.release_idle();
    }

    /// Gives everything back and keeps nothing from now on; what is in use goes back when
    /// its statement is over.
    pub(crate) fn close(&self) {
        #[cfg(feature = "postgres")]
        self.postgres.close();
    }
}

impl Kept {
    /// Runs a query and hands its rows over one by one: who keeps only some of them needs
    /// memory for no more.
    pub(crate) async fn query_each(
        &self,
        statement: Statement,
        mut each: impl FnMut(QueryResult) -> Result<(), DbErr>,
    ) -> Result<(), DbErr> {
        #[cfg(feature = "postgres")]
        if let Some(pool) = postgres::pool(&self.pool) {
            return self.postgres.query_each(pool, statement, each).await;
        }
        let rows = self.pool.query_all_raw(statement).await?;
        rows.into_iter().try_for_each(&mut each)
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Kept {
    fn get_database_backend(&self) -> DbBackend {
        self.pool.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.pool.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.pool.execute_unprepared(sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.pool.query_one_raw(statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        #[cfg(feature = "postgres")]
        if let Some(pool) = postgres::pool(&self.pool) {
            return self.postgres.query_all(pool, statement).await;
        }
        self.pool.query_all_raw(statement).await
    }
}

/// For engines without connections that are kept.
impl StreamTrait for Kept {
    type Stream<'a> = QueryStream;

    fn get_database_backend(&self) -> DbBackend {
        self.pool.get_database_backend()
    }

    fn stream_raw<'a>(
        &'a self,
        statement: Statement,
    ) -> Pin<Box<dyn Future<Output = Result<QueryStream, DbErr>> + 'a + Send>> {
        self.pool.stream_raw(statement)
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use futures_util::TryStreamExt;
    use sea_orm::Values;
    use sea_orm::sqlx::pool::PoolConnection;
    use sea_orm::sqlx::{self, PgPool, Postgres};
    use sea_orm::{
        DatabaseConnection, DatabaseConnectionType, DbErr, QueryResult, RuntimeErr, Statement,
    };
    use sea_query_sqlx::SqlxValues;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};
    use tokio::runtime::Handle;

    const IDLE: Duration = Duration::from_secs(1);
    const LIFE: Duration = Duration::from_secs(60);

    struct Connection {
        connection: PoolConnection<Postgres>,
        since: Instant,
        used: Instant,
    }

    pub(super) struct Connections {
        idle: Mutex<Idle>,
        /// A connection goes back to its pool by a task: `close` may be called where there
        /// is no runtime, and a drop must not panic.
        runtime: Option<Handle>,
    }

    struct Idle {
        connections: Vec<Connection>,
        /// How many are kept; none once it is closed.
        most: usize,
    }

    pub(super) fn pool(db: &DatabaseConnection) -> Option<&PgPool> {
        match &db.inner {
            DatabaseConnectionType::SqlxPostgresPoolConnection(_) => {
                Some(db.get_postgres_connection_pool())
            }
            _ => None,
        }
    }

    fn runtime(error: sqlx::Error) -> RuntimeErr {
        RuntimeErr::SqlxError(error.into())
    }

    impl Connections {
        pub(super) fn of(db: &DatabaseConnection) -> Self {
            let size = pool(db).map_or(0, |pool| pool.options().get_max_connections());
            Self {
                idle: Mutex::new(Idle {
                    connections: Vec::new(),
                    most: size as usize / 4,
                }),
                runtime: Handle::try_current().ok(),
            }
        }

        pub(super) async fn query_all(
            &self,
            pool: &PgPool,
            statement: Statement,
        ) -> Result<Vec<QueryResult>, DbErr> {
            let mut rows = Vec::new();
            let each = |row| {
                rows.push(row);
                Ok(())
            };
            self.query_each(pool, statement, each).await?;
            Ok(rows)
        }

        pub(super) async fn query_each(
            &self,
            pool: &PgPool,
            statement: Statement,
            mut each: impl FnMut(QueryResult) -> Result<(), DbErr>,
        ) -> Result<(), DbErr> {
            let kept = self.idle().connections.pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => Connection {
                    connection: pool.acquire().await.map_err(|e| DbErr::Conn(runtime(e)))?,
                    since: Instant::now(),
                    used: Instant::now(),
                },
            };
            let values = SqlxValues(statement.values.unwrap_or(Values(Vec::new())));
            let mut rows = sqlx::query_with(sqlx::AssertSqlSafe(statement.sql), values)
                .fetch(&mut *connection.connection);
            while let Some(row) = rows
                .try_next()
                .await
                .map_err(|e| DbErr::Query(runtime(e)))?
            {
                each(QueryResult::from(row))?;
            }
            drop(rows);
            connection.used = Instant::now();
            let mut idle = self.idle();
            if idle.connections.len() < idle.most && connection.since.elapsed() < LIFE {
                idle.connections.push(connection);
            }
            Ok(())
        }

        pub(super) fn release_idle(&self) {
            self.idle()
                .connections
                .retain(|connection| connection.used.elapsed() < IDLE);
        }

        pub(super) fn close(&self) {
            let _entered = self.runtime.as_ref().map(Handle::enter);
            let mut idle = self.idle();
            idle.most = 0;
            idle.connections.clear();
        }

        fn idle(&self) -> MutexGuard<'_, Idle> {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
