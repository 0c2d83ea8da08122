//! Peers of Pillarbox on MariaDB and MySQL from the registry, for `cargo xtask bench --databases`:
//! `peers-mysql NAME JOBS`, on the database of `DATABASE_URL`.

mod apalis_mysql;
#[path = "../../src/clock.rs"]
mod clock;
mod hexeract_outbox_sql;
mod ruststream_sqlx;

use std::error::Error;

/// Errors are read by people and matched by nobody.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (name, jobs) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let (jobs, url) = (jobs.parse()?, std::env::var("DATABASE_URL")?);
    clock::expect(jobs);
    let version = match name.as_str() {
        "apalis-mysql" => apalis_mysql::run(&url, jobs).await?,
        "hexeract-outbox-sql" => hexeract_outbox_sql::run(&url, jobs).await?,
        "ruststream-sqlx" => ruststream_sqlx::run(&url, jobs).await?,
        other => return Err(format!("nobody is called {other:?}").into()),
    };
    clock::report(version);
    Ok(())
}
