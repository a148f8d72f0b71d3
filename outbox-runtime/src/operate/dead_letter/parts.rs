//! Works on a scope in parts, so that no operation holds many letters or a long transaction.

use super::filter::DeadLetterScope;
use crate::database::dead_letter::{self, Part};
use sea_orm::{DatabaseConnection, DbErr};

/// The parts of a scope, in the order of the ids.
pub(super) struct Parts {
    scope: DeadLetterScope,
    size: usize,
    after: i64,
    upto: i64,
    left: usize,
}

impl Parts {
    /// Letters that are written from now on are not part of it. Otherwise a requeued letter that
    /// fails again would be requeued for ever.
    pub(super) async fn of(
        db: &DatabaseConnection,
        scope: DeadLetterScope,
        size: usize,
    ) -> Result<Self, DbErr> {
        let limit = scope.filter.limit;
        Ok(Self {
            size,
            after: scope.filter.after.map_or(0, |id| id.get()),
            upto: dead_letter::newest(db).await?,
            left: limit.map_or(usize::MAX, |limit| limit as usize),
            scope,
        })
    }

    /// The next part. After it the caller must call [`found`](Self::found).
    pub(super) fn next(&mut self) -> Option<(DeadLetterScope, Part)> {
        let filter = self.scope.filter.clone();
        let mut part = Part {
            after: self.after,
            upto: self.upto,
            limit: self.size.min(self.left),
        };
        let ids = match &mut self.scope.ids {
            None => None,
            Some(ids) => {
                part.limit = ids.len().min(self.size);
                Some(ids.drain(..part.limit).collect())
            }
        };
        (part.limit > 0).then_some((DeadLetterScope { filter, ids }, part))
    }

    /// Notes which letters the part had. If a filter found fewer than its limit, that was its last
    /// part.
    pub(super) fn found(&mut self, part: Part, ids: &[i64]) {
        if self.scope.ids.is_some() {
            return;
        }
        self.left = if ids.len() < part.limit {
            0
        } else {
            self.left - ids.len()
        };
        self.after = ids.last().copied().unwrap_or(self.after);
    }
}
