//! Version 2: the nine tables. Frozen once released; a change is a new version. Version 1 was
//! never released.

use crate::version::{PerEngine, SchemaVersion};

pub(crate) const VERSION: SchemaVersion = SchemaVersion {
    number: 2,
    compatible_from: 2,
    name: "outbox_0002_create_tables",
    up: PerEngine {
        postgres: include_str!("postgres.sql"),
        mysql: include_str!("mysql.sql"),
        sqlite: include_str!("sqlite.sql"),
    },
    down: PerEngine::same(include_str!("down.sql")),
};
