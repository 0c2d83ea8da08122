//! Peers of Pillarbox from the registry, for `cargo xtask bench`: `peers NAME JOBS`, on the database of `DATABASE_URL`.

mod apalis_postgres;
mod clock;
mod graphile_worker;
mod outbox_core;

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
        "apalis-postgres" => apalis_postgres::run(&url, jobs).await?,
        "graphile_worker" => graphile_worker::run(&url, jobs).await?,
        "outbox-core" => outbox_core::run(&url, jobs).await?,
        other => return Err(format!("nobody is called {other:?}").into()),
    };
    clock::report(version);
    Ok(())
}
