//! Committed means delivered to every consumer; rolled back means never seen. What every consumer
//! has passed is deleted, and nothing else.

mod committed_messages;
mod consumers;
mod message_ids;
mod orphaned_bodies;
mod unregistered_partitions;
mod vacuum;

use super::*;
