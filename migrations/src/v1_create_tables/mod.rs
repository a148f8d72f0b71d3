//! Version 1: the nine tables. Frozen once released; a change is a new version.

use crate::version::{PerEngine, SchemaVersion};

pub(crate) const VERSION: SchemaVersion = SchemaVersion {
    number: 1,
    name: "outbox_0001_create_tables",
    up: PerEngine {
        postgres: include_str!("postgres.sql"),
        mysql: include_str!("mysql.sql"),
        sqlite: include_str!("sqlite.sql"),
    },
    down: PerEngine::same(include_str!("down.sql")),
};
