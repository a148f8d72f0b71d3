//! Deleting what every consumer has passed: one statement.

use crate::database::cleanup::{VacuumRequest, Vacuumed};
use crate::database::connection_cache::Kept;
use crate::database::statement::{Run, statements, values};
use sea_orm::DbErr;

statements! { POSTGRES;
    VACUUM = file "vacuum.sql";
}

pub(in crate::database) async fn vacuum(
    kept: &Kept,
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
        asynchronous: request.asynchronous,
        retention_us: request.retention_us,
    };
    let rows = VACUUM.query(kept, values).await?;
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
