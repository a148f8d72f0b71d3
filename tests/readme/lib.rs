//! The README's program, word for word, and a newcomer who runs it.
#![cfg(test)]
#![allow(clippy::print_stdout)] // it tells a newcomer what happens
#![allow(missing_docs)] // its event has none

include!(concat!(env!("OUT_DIR"), "/program.rs"));

mod tests {
    use outbox_tests::{TestDb, every_engine};

    #[every_engine(empty)]
    async fn the_readmes_program_delivers_what_it_commits(db: &TestDb) {
        db.execute("CREATE TABLE ledger (order_id BIGINT NOT NULL)")
            .await;
        crate::run(db.connection().clone()).await.unwrap();
        assert_eq!(db.column("SELECT order_id FROM ledger").await, [7]);
    }
}
