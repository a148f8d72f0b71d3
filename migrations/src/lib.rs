//! The schema of the outbox: nine tables called `outbox_*`, and
//! `outbox_schema`, which records the versions that are applied.
//!
//! There are three ways to create it; they may be mixed, because each looks at
//! `outbox_schema` first:
//!
//! - [`migrate`], which needs nothing else (`outbox::migrate(&db)`);
//! - [`migrations`], appended to the list of your own sea-orm `Migrator`;
//! - [`sql`], the text, to apply it by hand.
//!
//! ```
//! use sea_orm_migration::{MigrationTrait, MigratorTrait};
//!
//! struct Migrator;
//!
//! impl MigratorTrait for Migrator {
//!     fn migrations() -> Vec<Box<dyn MigrationTrait>> {
//!         let mut list: Vec<Box<dyn MigrationTrait>> = vec![/* yours */];
//!         list.extend(outbox_migrations::migrations());
//!         list
//!     }
//! }
//! # assert_eq!(Migrator::migrations().len(), 1);
//! ```
//!
//! # Rights
//!
//! Only a process that migrates needs rights to create tables. A process that runs handlers needs
//! to read and write rows. A process that only produces needs even less. On PostgreSQL:
//!
//! ```sql
//! GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_queue, outbox_partition, outbox_consumer,
//!     outbox_incoming, outbox_outgoing, outbox_cursor, outbox_attempt, outbox_dead_letter TO worker;
//! GRANT SELECT, INSERT, DELETE ON outbox_body TO worker;
//! GRANT SELECT ON outbox_schema TO worker;
//!
//! GRANT INSERT, SELECT (id, slot) ON outbox_body TO producer;
//! GRANT INSERT, SELECT (id) ON outbox_incoming TO producer;
//! ```
//!
//! On MySQL a worker needs `UPDATE` on `outbox_schema` too, although it changes nothing there. Now
//! and then it locks a row of it with `SELECT ... FOR UPDATE`, and for that MySQL demands more than
//! `SELECT`. MariaDB does not.

mod lock;
mod place;
mod v2_create_tables;
mod version;

use lock::SchemaLock;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr};
use sea_orm_migration::MigrationTrait;
use version::{Installed, SchemaVersion};

/// Every version, oldest first.
const VERSIONS: [SchemaVersion; 1] = [v2_create_tables::VERSION];

/// The version of the schema that this release works with.
pub const SCHEMA_VERSION: i32 = VERSIONS[VERSIONS.len() - 1].number;

/// What is wrong with the outbox's schema in a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The tables are not there.
    #[error(
        "this database has no outbox tables: call `outbox::migrate(&db)` first, or add \
         `outbox::migrations::migrations()` to your own Migrator and run it"
    )]
    Missing,
    /// The tables are of an older release.
    #[error(
        "the outbox tables are at version {found}, this release needs version {needed}: call \
         `outbox::migrate(&db)`, or run your own Migrator with `outbox::migrations::migrations()`"
    )]
    Older {
        /// The version in the database.
        found: i32,
        /// The version this release needs.
        needed: i32,
    },
    /// The tables are of a newer release, with which this one cannot work.
    #[error(
        "the outbox tables are at version {found}, and this release knows version {known}: with \
         these tables only releases from version {compatible_from} on can work. Deploy a newer one"
    )]
    Newer {
        /// The version in the database.
        found: i32,
        /// The oldest version whose releases can work with it.
        compatible_from: i32,
        /// The version of this release.
        known: i32,
    },
    /// The tables are from before the first release.
    #[error(
        "the outbox tables are of a program from before the first release, which computed other \
         ids: their messages cannot be carried over. Let that program deliver what is in them, \
         remove them with `outbox::migrations::down(&db)`, and call `outbox::migrate(&db)`"
    )]
    Prerelease,
    /// On PostgreSQL the connection's `search_path` leads to outbox tables in more than one schema.
    #[error(
        "the search_path of this connection leads to outbox tables in several schemas ({}): set it \
         to the schema of this outbox alone, here and in every other process of this outbox",
        quoted(schemas)
    )]
    SeveralSchemas {
        /// The schemas, in the order of the `search_path`.
        schemas: Vec<String>,
    },
    /// On PostgreSQL the tables must be brought to a newer version, but the connection would create
    /// new ones in another schema.
    #[error(
        "the outbox tables are in schema `{found}`, but this connection creates tables in schema \
         `{target}`: set its search_path to `{found}` alone to migrate them"
    )]
    OtherSchema {
        /// The schema that has the tables.
        found: String,
        /// The schema that new tables would be in.
        target: String,
    },
    /// On PostgreSQL a temporary table of the connection has the name of one of ours.
    #[error(
        "the temporary table `{table}` hides the outbox's table of this name: drop it or give it \
         another name"
    )]
    TemporaryTable {
        /// Its name.
        table: String,
    },
    /// On PostgreSQL the connection's `search_path` names no schema that can be used.
    #[error(
        "the search_path of this connection ({search_path}) names no schema that exists and that \
         its role may use: create the schema, grant USAGE on it, or set another search_path"
    )]
    NoSchema {
        /// The `search_path`, as PostgreSQL shows it.
        search_path: String,
    },
    /// On MySQL the connection has no database.
    #[error(
        "this connection has no database selected: name one at the end of the URL, as in \
         `mysql://host/shop`"
    )]
    NoDatabase,
    /// Another process holds the migration lock.
    #[error("another process has been migrating the outbox tables for {seconds} s; try again")]
    Locked {
        /// How long we waited.
        seconds: u32,
    },
    /// The database refused a statement.
    #[error("the outbox tables could not be {doing}")]
    Database {
        /// What we were doing: "read", "migrated" or "removed".
        doing: &'static str,
        /// What the database said.
        source: DbErr,
    },
}

/// Brings the schema to [`SCHEMA_VERSION`]; does nothing if it is there.
///
/// Safe to call from several processes at once, and again after a crash: one process
/// migrates, the others wait for it.
///
/// It creates the tables in the connection's schema on PostgreSQL (the first of its `search_path`
/// that exists), in its database on MySQL.
///
/// # Errors
/// [`SchemaError::Database`] if a statement fails, [`SchemaError::Locked`] if
/// another process does not finish. [`SchemaError::SeveralSchemas`] and others if the connection
/// does not lead to one place for all tables: then nothing is changed.
pub async fn migrate(db: &DatabaseConnection) -> Result<(), SchemaError> {
    match check(db).await {
        Err(SchemaError::Missing | SchemaError::Older { .. }) => {}
        // The usual start of a service: there is nothing to do. It takes no lock and needs no right to
        // create tables.
        checked => return checked,
    }
    place::check_target(db).await?;
    let lock = SchemaLock::acquire(db, "migrated").await?;
    let applied = apply_all(lock.connection()).await;
    lock.release(applied).await
}

/// Removes the tables and everything in them, and nothing else.
///
/// # Errors
/// As for [`migrate`].
pub async fn down(db: &DatabaseConnection) -> Result<(), SchemaError> {
    place::check_one_place(db).await?;
    place::check_selected(db).await?;
    let lock = SchemaLock::acquire(db, "removed").await?;
    let reverted = revert_all(lock.connection()).await;
    lock.release(reverted).await
}

/// Refuses a database whose schema is missing or older than this release
/// needs. Accepts a newer one if it says that this release can work with it: that is a rolling deploy.
///
/// # Errors
/// [`SchemaError::Missing`], [`SchemaError::Older`], [`SchemaError::Newer`] or
/// [`SchemaError::Prerelease`], which say what to do;
/// [`SchemaError::SeveralSchemas`] and others, which say what to set.
pub async fn check<C: ConnectionTrait>(conn: &C) -> Result<(), SchemaError> {
    place::check_one_place(conn).await?;
    match installed(conn).await? {
        Installed::Nothing => {
            place::check_selected(conn).await?;
            Err(SchemaError::Missing)
        }
        Installed::Prerelease => Err(SchemaError::Prerelease),
        Installed::Version { number, .. } if number < SCHEMA_VERSION => Err(SchemaError::Older {
            found: number,
            needed: SCHEMA_VERSION,
        }),
        Installed::Version {
            number,
            compatible_from,
        } if compatible_from > SCHEMA_VERSION => Err(SchemaError::Newer {
            found: number,
            compatible_from,
            known: SCHEMA_VERSION,
        }),
        Installed::Version { .. } => Ok(()),
    }
}

/// The version recorded in the database, `None` if there are no tables of a release.
///
/// # Errors
/// [`SchemaError::Database`] if it cannot be read.
pub async fn installed_version<C: ConnectionTrait>(conn: &C) -> Result<Option<i32>, SchemaError> {
    Ok(match installed(conn).await? {
        Installed::Version { number, .. } => Some(number),
        Installed::Nothing | Installed::Prerelease => None,
    })
}

async fn installed<C: ConnectionTrait>(conn: &C) -> Result<Installed, SchemaError> {
    version::installed(conn)
        .await
        .map_err(|source| SchemaError::Database {
            doing: "read",
            source,
        })
}

/// Every version as a sea-orm migration, to append to those of your own Migrator.
#[must_use]
pub fn migrations() -> Vec<Box<dyn MigrationTrait>> {
    VERSIONS
        .into_iter()
        .map(|version| Box::new(version) as Box<dyn MigrationTrait>)
        .collect()
}

/// The whole schema as a script for the given engine. It also writes the row by which
/// the runtime finds the schema's version. It may be run again.
///
/// # Errors
/// [`DbErr::BackendNotSupported`] for an engine we have no schema for.
pub fn sql(backend: DbBackend) -> Result<String, DbErr> {
    let mut script = String::new();
    for version in &VERSIONS {
        script.push_str(&format!("-- outbox schema, version {}\n\n", version.number));
        for statement in version.statements(backend)? {
            script.push_str(&statement);
            script.push_str(";\n\n");
        }
    }
    Ok(script)
}

async fn apply_all<C: ConnectionTrait>(conn: &C) -> Result<(), DbErr> {
    for version in &VERSIONS {
        if version.apply(conn).await? {
            tracing::info!(version = version.number, "outbox schema applied");
        }
    }
    Ok(())
}

async fn revert_all<C: ConnectionTrait>(conn: &C) -> Result<(), DbErr> {
    for version in VERSIONS.iter().rev() {
        version.revert(conn).await?;
    }
    Ok(())
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
