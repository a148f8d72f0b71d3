//! Prints the schema, to apply it by hand:
//! `cargo run --example schema_sql -- postgres`.

use sea_orm::DbBackend;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backend = match std::env::args().nth(1).as_deref() {
        Some("postgres") => DbBackend::Postgres,
        Some("mysql" | "mariadb") => DbBackend::MySql,
        Some("sqlite") => DbBackend::Sqlite,
        _ => return Err("name the engine: postgres, mysql or sqlite".into()),
    };
    print!("{}", outbox::migrations::sql(backend)?);
    Ok(())
}
