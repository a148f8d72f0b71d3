//! Finding what waits; the heartbeats are statements of their own.

use crate::database::reconcile::BELOW;
use crate::database::registration::{Present, seen};
use crate::database::statement::{Run, statements, values};
use crate::queue::QueueId;
use sea_orm::{DatabaseConnection, DbErr, QueryResult};

statements! { STEPWISE;
    WAITING = file "../shared/waiting.sql", { heartbeat: "", below: "" };
    WAITING_THOROUGHLY = file "../shared/waiting.sql", { heartbeat: "", below: BELOW };
}

pub(in crate::database) async fn waiting(
    db: &DatabaseConnection,
    queues: &[QueueId],
    owner: &str,
    thorough: bool,
    present: &[Present],
) -> Result<Vec<QueryResult>, DbErr> {
    for present in present {
        seen(db, present).await?;
    }
    let waiting = if thorough {
        &WAITING_THOROUGHLY
    } else {
        &WAITING
    };
    let values = values! { owner: owner };
    waiting
        .with_numbers(queues.iter().copied())
        .query(db, values)
        .await
}
