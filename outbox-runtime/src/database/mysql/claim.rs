//! Claims, in steps, one cursor at a time.

pub(in crate::database) use crate::database::stepwise::claim::{
    CAN_CLAIM_TOGETHER, claim, claim_together,
};
