//! Finding what waits.

pub(in crate::database) use crate::database::stepwise::reconcile::waiting;
