//! Connections that stay with us from one statement to the next. See
//! [`connection_cache`](crate::database::connection_cache).

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

pub(in crate::database) struct Connections {
    idle: Mutex<Idle>,
    /// A connection goes back to its pool by a task: `close` may be called where there
    /// is no runtime, and a drop must not panic.
    runtime: Option<Handle>,
}

struct Idle {
    connections: Vec<Connection>,
    /// How many may be cached; none once it is closed.
    most: usize,
}

pub(in crate::database) fn pool(db: &DatabaseConnection) -> Option<&PgPool> {
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
    pub(in crate::database) fn of(db: &DatabaseConnection) -> Self {
        let size = pool(db).map_or(0, |pool| pool.options().get_max_connections());
        Self {
            idle: Mutex::new(Idle {
                connections: Vec::new(),
                most: size as usize / 4,
            }),
            runtime: Handle::try_current().ok(),
        }
    }

    pub(in crate::database) async fn query_all(
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

    pub(in crate::database) async fn query_each(
        &self,
        pool: &PgPool,
        statement: Statement,
        mut each: impl FnMut(QueryResult) -> Result<(), DbErr>,
    ) -> Result<(), DbErr> {
        let connections = self.idle().connections.pop();
        let mut connection = match connections {
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

    pub(in crate::database) fn release_idle(&self) {
        self.idle()
            .connections
            .retain(|connection| connection.used.elapsed() < IDLE);
    }

    pub(in crate::database) fn close(&self) {
        let _entered = self.runtime.as_ref().map(Handle::enter);
        let mut idle = self.idle();
        idle.most = 0;
        idle.connections.clear();
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
