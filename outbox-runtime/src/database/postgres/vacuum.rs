//! Deleting what every consumer has passed: one statement.

use crate::database::connection_cache::ConnectionCache;
use crate::database::statement::{Run, statements, values};
use crate::database::vacuum::{VacuumRequest, Vacuumed};
use sea_orm::DbErr;

statements! { POSTGRES;
    VACUUM = file "vacuum.sql";
}

pub(in crate::database) async fn vacuum(
    connections: &ConnectionCache,
    request: &VacuumRequest<'_>,
) -> Result<Vec<Vacuumed>, DbErr> {
    let (partitions, after): (Vec<i64>, Vec<i64>) = request
        .from
        .iter()
        .map(|(id, after)| (id.get(), after))
        .unzip();
    let values = values! {
        partitions: partitions,
        after: after,
        limit: i64::from(request.limit),
        asynchronous_commit: request.asynchronous_commit,
        retention_us: request.retention_us,
    };
    let rows = VACUUM.query(connections, values).await?;
    rows.iter()
        .map(|row| {
            Ok(Vacuumed {
                partition_id: row.try_get_by("partition_id")?,
                upto: row.try_get_by("upto")?,
                rows: row.try_get_by("rows")?,
            })
        })
        .collect()
}
