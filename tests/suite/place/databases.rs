//! On MySQL the connection's database says where the tables are.

use super::*;
use outbox_tests::{Engine, run_two};

#[test]
fn outboxes_in_two_databases_share_a_queue_name_and_no_message() {
    run_two(Engine::MySql, |one, other| {
        Box::pin(each_handles_its_own(
            [one.connection(), other.connection()],
            None,
        ))
    });
}
