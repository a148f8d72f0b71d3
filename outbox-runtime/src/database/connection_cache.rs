//! The connection cache: connections that stay with us from one statement to the next.
//!
//! A pool asks a connection whether it is alive when it is taken, and again when it comes back. That
//! makes three round trips of one. On PostgreSQL the hot path is one statement at a time. So a
//! connection that has just worked stays here for the next statement.
//!
//! It goes back to the pool when a statement fails or is abandoned, when it was idle for a second, and
//! after a minute in any case, so that the pool's own rules about age hold. At most a quarter of the
//! pool is cached, so that no user waits for a connection that we do not use. When the outbox stops,
//! all go back, so that its user can close the pool.

#[cfg(feature = "postgres")]
use super::postgres::connections;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, DbErr, ExecResult, QueryResult, QueryStream,
    Statement, StreamTrait,
};
use std::pin::Pin;

/// The pool of a user, and the connections of it that are cached.
pub(crate) struct ConnectionCache {
    pool: DatabaseConnection,
    #[cfg(feature = "postgres")]
    postgres: connections::Connections,
}

impl ConnectionCache {
    pub(crate) fn new(pool: DatabaseConnection) -> Self {
        Self {
            #[cfg(feature = "postgres")]
            postgres: connections::Connections::of(&pool),
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

    /// Gives all connections back and caches none from now on. A connection in use goes back when its
    /// statement is over.
    pub(crate) fn close(&self) {
        #[cfg(feature = "postgres")]
        self.postgres.close();
    }
}

impl ConnectionCache {
    /// Runs a query and hands its rows over one by one: a caller that keeps only some of them needs
    /// memory for no more.
    pub(crate) async fn query_each(
        &self,
        statement: Statement,
        mut each: impl FnMut(QueryResult) -> Result<(), DbErr>,
    ) -> Result<(), DbErr> {
        #[cfg(feature = "postgres")]
        if let Some(pool) = connections::pool(&self.pool) {
            return self.postgres.query_each(pool, statement, each).await;
        }
        let rows = self.pool.query_all_raw(statement).await?;
        rows.into_iter().try_for_each(&mut each)
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for ConnectionCache {
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
        if let Some(pool) = connections::pool(&self.pool) {
            return self.postgres.query_all(pool, statement).await;
        }
        self.pool.query_all_raw(statement).await
    }
}

/// For engines whose connections are not cached.
impl StreamTrait for ConnectionCache {
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
