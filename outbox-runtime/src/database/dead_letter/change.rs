//! Changes of state, each checked by the statement that makes it.

use super::condition::Condition;
use crate::database::sql::{execute, list, query};
use crate::operate::dead_letter::DeadLetterScope;
use sea_orm::{ConnectionTrait, DbErr, Value};

/// Whose a letter must be for a change.
#[derive(Clone, Copy)]
pub(crate) enum Holder<'a> {
    /// Nobody's: pending, or claimed until a deadline that has passed.
    Nobody,
    /// That of this claim.
    Claim(&'a str),
}

const PENDING: &str = "status = 'pending'";
const EXPIRED: &str = "status = 'reprocessing' AND deadline <= {now}";

impl Holder<'_> {
    fn condition(self) -> Condition {
        match self {
            Self::Nobody => Condition::of(&format!("({PENDING} OR {EXPIRED})")),
            Self::Claim(claim) => {
                let mut condition = Condition::of("status = 'reprocessing'");
                condition.and("claimed_by = ?", claim);
                condition
            }
        }
    }

    /// The same as states that are each found in order by the index.
    fn states(self) -> Vec<Condition> {
        match self {
            Self::Nobody => vec![Condition::of(PENDING), Condition::of(EXPIRED)],
            Self::Claim(_) => vec![self.condition()],
        }
    }
}

/// A change of state.
pub(crate) enum Change<'a> {
    Claim { claim: &'a str, hold_us: i64 },
    Resolve,
    Reject { reason: &'a str },
    Discard,
    Requeue { message_id: i64 },
}

impl Change<'_> {
    fn set(&self) -> (&'static str, Vec<Value>) {
        match *self {
            Self::Claim { claim, hold_us } => (
                "status = 'reprocessing', deadline = {now+?}, claimed_by = ?",
                vec![hold_us.into(), claim.into()],
            ),
            Self::Resolve => (
                "status = 'resolved', completed_at = {now}, deadline = NULL, claimed_by = NULL",
                Vec::new(),
            ),
            Self::Reject { reason } => (
                "status = 'pending', reason = ?, failed_at = {now}, deadline = NULL, \
                 claimed_by = NULL, \
                 attempts = CASE WHEN attempts < 2147483647 THEN attempts + 1 ELSE attempts END",
                vec![reason.into()],
            ),
            Self::Discard => (
                "status = 'discarded', completed_at = {now}, deadline = NULL, claimed_by = NULL",
                Vec::new(),
            ),
            Self::Requeue { message_id } => (
                "status = 'resolved', completed_at = {now}, deadline = NULL, claimed_by = NULL, \
                 requeued_as = ?",
                vec![message_id.into()],
            ),
        }
    }
}

/// Part of a scope: `after` and `upto` bound the ids.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) after: i64,
    pub(crate) upto: i64,
    pub(crate) limit: usize,
}

/// The ids of a scope's letters that are in a state for a change, in order.
/// With `lock` they are locked, and those that somebody else has locked are left out.
pub(crate) async fn eligible<C: ConnectionTrait>(
    conn: &C,
    scope: &DeadLetterScope,
    holder: Holder<'_>,
    part: Part,
    lock: bool,
) -> Result<Vec<i64>, DbErr> {
    let lock = if lock { "{skip_locked}" } else { "" };
    let limit = i64::try_from(part.limit).unwrap_or(i64::MAX);
    let mut ids: Vec<i64> = Vec::new();
    for mut condition in holder.states() {
        condition.and("id > ?", part.after);
        condition.and("id <= ?", part.upto);
        condition.and_scope(scope);
        condition.values.push(limit.into());
        let select = format!(
            "SELECT id FROM outbox_dead_letter WHERE {} ORDER BY id LIMIT ? {lock}",
            condition.text
        );
        for row in query(conn, &select, condition.values).await? {
            ids.push(row.try_get_by_index(0)?);
        }
    }
    ids.sort_unstable();
    ids.truncate(part.limit);
    Ok(ids)
}

/// Changes these letters; returns how many were in a state for it.
pub(crate) async fn change<C: ConnectionTrait>(
    conn: &C,
    ids: &[i64],
    holder: Holder<'_>,
    change: &Change<'_>,
) -> Result<u64, DbErr> {
    let (set, mut values) = change.set();
    let mut condition = holder.condition();
    condition.and_ids(ids);
    values.append(&mut condition.values);
    let update = format!(
        "UPDATE outbox_dead_letter SET {set} WHERE {}",
        condition.text
    );
    execute(conn, &update, values).await
}

/// Deletes up to `limit` letters that were resolved or discarded so long ago.
pub(crate) async fn delete_completed<C: ConnectionTrait>(
    conn: &C,
    older_than_us: i64,
    limit: u32,
) -> Result<u64, DbErr> {
    let rows = query(
        conn,
        "SELECT id FROM outbox_dead_letter WHERE completed_at <= {now+?} \
         ORDER BY completed_at LIMIT ?",
        [(-older_than_us).into(), i64::from(limit).into()],
    )
    .await?;
    let ids = rows
        .iter()
        .map(|row| row.try_get_by_index(0))
        .collect::<Result<Vec<i64>, DbErr>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    // What is complete stays so: nobody changes these rows any more.
    let delete = format!("DELETE FROM outbox_dead_letter WHERE id IN ({})", list(ids));
    execute(conn, &delete, []).await
}
