//! Messages of a key arrive in the order in which their transactions committed. The sequencer
//! gives them their sequence numbers, and neither skips nor repeats one.

mod commit_order;
mod isolation_levels;
mod low_watermark;
mod row_versions;

use super::*;
