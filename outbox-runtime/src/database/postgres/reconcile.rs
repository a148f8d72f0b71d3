//! Finding what waits; the heartbeat is part of the query.

use crate::database::reconcile::BELOW;
use crate::database::registration::Present;
use crate::database::statement::{Run, and, statements, values};
use crate::queue::QueueId;
use sea_orm::{DatabaseConnection, DbErr, QueryResult};

const HEARTBEAT: &str = include_str!("heartbeat.sql");

statements! { POSTGRES;
    WAITING = file "../shared/waiting.sql", { heartbeat: "", below: "" };
    WAITING_THOROUGHLY = file "../shared/waiting.sql", { heartbeat: "", below: BELOW };
    SEEN_AND_WAITING = file "../shared/waiting.sql", { heartbeat: HEARTBEAT, below: "" };
    SEEN_AND_WAITING_THOROUGHLY =
        file "../shared/waiting.sql", { heartbeat: HEARTBEAT, below: BELOW };
}

pub(in crate::database) async fn waiting(
    db: &DatabaseConnection,
    queues: &[QueueId],
    owner: &str,
    thorough: bool,
    present: &[Present],
) -> Result<Vec<QueryResult>, DbErr> {
    let queues = queues.iter().copied();
    let values = values! { owner: owner };
    if present.is_empty() {
        let waiting = if thorough {
            &WAITING_THOROUGHLY
        } else {
            &WAITING
        };
        return waiting.with_numbers(queues).query(db, values).await;
    }
    let seen = values! {
        seen_queues: present.iter().map(|p| p.queue_id.get()).collect::<Vec<i64>>(),
        seen_names: present.iter().map(|p| p.name.clone()).collect::<Vec<String>>(),
        seen_types: present.iter().map(|p| p.types().to_owned()).collect::<Vec<String>>(),
    };
    let waiting = match thorough {
        true => &SEEN_AND_WAITING_THOROUGHLY,
        false => &SEEN_AND_WAITING,
    };
    let values = and(values, seen);
    waiting.with_numbers(queues).query(db, values).await
}
