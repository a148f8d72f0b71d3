//! Numbering committed rows: one statement.

use crate::database::connection_cache::ConnectionCache;
use crate::database::sequence::{PartitionRows, SequenceRequest, Sequenced};
use crate::database::statement::{Run, statements, values};
use crate::queue::PartitionId;
use sea_orm::DbErr;

statements! { POSTGRES;
    SEQUENCE = file "sequence.sql";
}

pub(in crate::database) async fn sequence(
    connections: &ConnectionCache,
    request: &SequenceRequest,
    partition_rows: &mut PartitionRows,
) -> Result<Sequenced, DbErr> {
    let known = std::mem::take(&mut partition_rows.known);
    let (known, at): (Vec<PartitionId>, Vec<String>) = known.into_iter().unzip();
    let values = values! {
        queue: request.queue_id,
        limit: i64::from(request.limit),
        asynchronous_commit: request.asynchronous_commit,
        thorough: request.thorough,
        known_partitions: known.iter().map(|id| id.get()).collect::<Vec<i64>>(),
        known_rows: at.clone(),
    };
    let rows = SEQUENCE.query(connections, values).await?;
    partition_rows.known = known.into_iter().zip(at).collect();
    let mut done = Sequenced::default();
    for row in &rows {
        done.locked = row.try_get_by("locked")?;
        if let Some(partition_id) = row.try_get_by::<Option<PartitionId>, _>("partition_id")? {
            let taken: i64 = row.try_get_by("rows")?;
            done.add(partition_id, usize::try_from(taken).unwrap_or(0));
            partition_rows
                .known
                .insert(partition_id, row.try_get_by("place")?);
        }
    }
    Ok(done)
}
