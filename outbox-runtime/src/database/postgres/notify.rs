//! Notifications between processes: NOTIFY and LISTEN.

use crate::database::notify::Heard;
use crate::database::statement::{Run, statements, values};
use crate::queue::QueueId;
use sea_orm::{DatabaseConnection, DbErr};

statements! { POSTGRES;
    NOTIFY = "SELECT pg_notify($channel, $queues)";
}

const CHANNEL: &str = "outbox";

pub(in crate::database) const CAN_NOTIFY: bool = true;

pub(in crate::database) async fn notify(
    db: &DatabaseConnection,
    queues: &[QueueId],
) -> Result<(), DbErr> {
    let queues: Vec<String> = queues.iter().map(QueueId::to_string).collect();
    let values = values! { channel: CHANNEL, queues: queues.join(",") };
    NOTIFY.execute(db, values).await.map(drop)
}

/// Hears what other processes say.
pub(in crate::database) struct Listener {
    #[cfg(feature = "postgres")]
    listener: sea_orm::sqlx::postgres::PgListener,
}

#[cfg(feature = "postgres")]
impl Listener {
    pub(in crate::database) async fn connect(db: &DatabaseConnection) -> Result<Self, DbErr> {
        use sea_orm::sqlx::postgres::PgListener;
        let pool = db.get_postgres_connection_pool();
        let mut listener = PgListener::connect_with(pool).await.map_err(error)?;
        listener.listen(CHANNEL).await.map_err(error)?;
        Ok(Self { listener })
    }

    pub(in crate::database) async fn hear(&mut self) -> Result<Heard, DbErr> {
        let heard = self.listener.try_recv().await.map_err(error)?;
        Ok(match heard {
            Some(heard) => {
                let ids = heard.payload().split(',').flat_map(str::parse::<i64>);
                Heard::Queues(ids.map(QueueId::from).collect())
            }
            None => Heard::Reconnected,
        })
    }
}

#[cfg(feature = "postgres")]
fn error(error: sea_orm::SqlxError) -> DbErr {
    DbErr::Conn(sea_orm::RuntimeErr::SqlxError(error.into()))
}

/// Without the driver nobody can connect.
#[cfg(not(feature = "postgres"))]
impl Listener {
    pub(in crate::database) async fn connect(_: &DatabaseConnection) -> Result<Self, DbErr> {
        Err(DbErr::Custom("the feature `postgres` is off".to_owned()))
    }

    pub(in crate::database) async fn hear(&mut self) -> Result<Heard, DbErr> {
        Err(DbErr::Custom("the feature `postgres` is off".to_owned()))
    }
}
