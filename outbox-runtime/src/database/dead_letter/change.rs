//! Changes of state, each checked by the statement that makes it.

use super::condition::{Condition, LetterFilter};
use crate::database::statement::{Run, Statement, Values, statements, values};
use sea_orm::{ConnectionTrait, DbErr};

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

statements! { EVERY;
    ELIGIBLE = "SELECT id FROM outbox_dead_letter WHERE {condition} ORDER BY id LIMIT $limit";
    LOCK_ELIGIBLE = "SELECT id FROM outbox_dead_letter WHERE {condition} ORDER BY id LIMIT $limit \
        {skip_locked}";
    CLAIM = "UPDATE outbox_dead_letter SET status = 'reprocessing', deadline = {after $hold_us}, \
        claimed_by = $claim WHERE {condition}";
    RESOLVE = "UPDATE outbox_dead_letter SET status = 'resolved', completed_at = {now}, \
        deadline = NULL, claimed_by = NULL WHERE {condition}";
    REJECT = "UPDATE outbox_dead_letter SET status = 'pending', reason = $reason, \
        failed_at = {now}, deadline = NULL, claimed_by = NULL, attempts = CASE \
            WHEN attempts < 2147483647 THEN attempts + 1 ELSE attempts END WHERE {condition}";
    DISCARD = "UPDATE outbox_dead_letter SET status = 'discarded', completed_at = {now}, \
        deadline = NULL, claimed_by = NULL WHERE {condition}";
    REQUEUE = "UPDATE outbox_dead_letter SET status = 'resolved', completed_at = {now}, \
        deadline = NULL, claimed_by = NULL, requeued_as = $message WHERE {condition}";
    COMPLETED = "SELECT id FROM outbox_dead_letter WHERE completed_at <= {after $minus_age_us} \
        ORDER BY completed_at LIMIT $limit";
    DELETE = "DELETE FROM outbox_dead_letter WHERE id IN ({numbers})";
}

impl Holder<'_> {
    fn condition(self) -> Condition {
        match self {
            Self::Nobody => Condition::of(&format!("({PENDING} OR {EXPIRED})")),
            Self::Claim(claim) => {
                let mut condition = Condition::of("status = 'reprocessing'");
                condition.and("claimed_by = $claimed_by", "claimed_by", claim);
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
    /// The statement that makes it, and its values.
    fn statement(&self) -> (&'static Statement, Values) {
        match *self {
            Self::Claim { claim, hold_us } => (&CLAIM, values! { hold_us: hold_us, claim: claim }),
            Self::Resolve => (&RESOLVE, values! {}),
            Self::Reject { reason } => (&REJECT, values! { reason: reason }),
            Self::Discard => (&DISCARD, values! {}),
            Self::Requeue { message_id } => (&REQUEUE, values! { message: message_id }),
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

/// The ids of letters that are in a state for a change, in order. With `lock` they are locked, and
/// those that somebody else has locked are left out.
pub(crate) async fn eligible<C: ConnectionTrait>(
    conn: &C,
    filter: &LetterFilter<'_>,
    holder: Holder<'_>,
    part: Part,
    lock: bool,
) -> Result<Vec<i64>, DbErr> {
    let select = if lock { &LOCK_ELIGIBLE } else { &ELIGIBLE };
    let limit = i64::try_from(part.limit).unwrap_or(i64::MAX);
    let mut ids: Vec<i64> = Vec::new();
    for mut condition in holder.states() {
        condition.and("id > $after", "after", part.after);
        condition.and("id <= $upto", "upto", part.upto);
        condition.and_filter(filter);
        let select = condition.of_statement(select);
        for row in select.query(conn, values! { limit: limit }).await? {
            ids.push(row.try_get_by("id")?);
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
    let mut condition = holder.condition();
    condition.and_ids(ids);
    let (update, values) = change.statement();
    condition.of_statement(update).execute(conn, values).await
}

/// Deletes up to `limit` letters that were resolved or discarded at least `older_than_us` ago.
pub(crate) async fn delete_completed<C: ConnectionTrait>(
    conn: &C,
    older_than_us: i64,
    limit: u32,
) -> Result<u64, DbErr> {
    let values = values! { minus_age_us: -older_than_us, limit: i64::from(limit) };
    let rows = COMPLETED.query(conn, values).await?;
    let ids = rows
        .iter()
        .map(|row| row.try_get_by("id"))
        .collect::<Result<Vec<i64>, DbErr>>()?;
    if ids.is_empty() {
        return Ok(0);
    }
    // What is complete stays so: nobody changes these rows any more.
    DELETE.with_numbers(ids).execute(conn, values! {}).await
}
