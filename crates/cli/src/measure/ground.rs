//! Where is measured: tables of a measurement's own in somebody's database, which it creates and drops.

use pillarbox_core::Ident;

use super::raw::Raw;
use crate::database::{self, Database, DatabaseOptions, Staging};
use crate::fault::Fault;

/// The route of everything that is measured.
pub const ROUTE: &str = "bench";
/// The schema of the tables on PostgreSQL, and how their names begin on the others.
const NAME: &str = "pillarbox_bench";
/// Rows of one loading statement.
const LOAD_ROWS: u32 = 50_000;

/// An outbox and a plain table to measure on.
pub struct Ground {
    /// The outbox.
    pub database: Database,
    /// Where it is, for those who connect by themselves.
    pub url: String,
    /// The names of its tables.
    pub options: DatabaseOptions,
}

impl Ground {
    /// Connects and creates the tables anew.
    ///
    /// # Errors
    /// When the database cannot be reached or refuses.
    pub async fn create(url: &str, clients: u32) -> Result<Self, Fault> {
        let plain = database::connect(url, DatabaseOptions::default()).await?;
        drop_all(&plain.staging).await?;
        let (schema, prefix) = match plain.staging {
            Staging::Sqlite(..) => (None, NAME),
            #[cfg(feature = "postgres")]
            Staging::Postgres(..) => (Some(Ident::new(NAME)?), "pillarbox"),
            #[cfg(feature = "mysql")]
            Staging::MySql(..) => (None, NAME),
            #[cfg(feature = "mongodb")]
            Staging::Mongo(..) => (None, NAME),
        };
        if schema.is_some() {
            plain.staging.execute("create schema pillarbox_bench").await?;
        }
        Raw::of(&plain.staging).create().await?;
        plain.staging.close().await;
        let options = DatabaseOptions {
            schema,
            prefix: Some(Ident::new(prefix)?),
            connections: Some(clients),
            ..DatabaseOptions::default()
        };
        let database = migrated(url, options.clone()).await?;
        Ok(Self { database, url: url.to_owned(), options })
    }

    /// Drops the tables.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn drop(self) -> Result<(), Fault> {
        let staging = self.database.staging;
        let dropped = drop_all(&staging).await;
        staging.close().await;
        dropped
    }
}

/// Connects and creates the tables of an outbox.
///
/// # Errors
/// When the database cannot be reached or refuses.
pub async fn migrated(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    let database = database::connect(url, options).await?;
    let _ = database.schema.migrate().await?;
    Ok(database)
}

/// Runs a loading statement until so many rows are there. `$1` payload, `$2` how many, `$3` keys.
///
/// # Errors
/// When the database refuses.
pub async fn load(
    staging: &Staging,
    sql: &'static str,
    payload: &[u8],
    rows: u32,
    keys: u32,
) -> Result<(), Fault> {
    let mut left = rows;
    while left > 0 {
        let now = left.min(LOAD_ROWS);
        staging.load(sql, payload, [now, keys]).await?;
        left -= now;
    }
    Ok(())
}

async fn drop_all(staging: &Staging) -> Result<(), Fault> {
    match staging {
        #[cfg(feature = "mongodb")]
        Staging::Mongo(store, _) => super::documents::drop_all(store, NAME).await,
        _ => Ok(staging.execute(drop_of(staging)).await?),
    }
}

fn drop_of(staging: &Staging) -> &'static str {
    match staging {
        #[cfg(feature = "postgres")]
        Staging::Postgres(..) => "drop schema if exists pillarbox_bench cascade",
        _ => {
            "
            drop table if exists pillarbox_bench_classic;
            drop table if exists pillarbox_bench_outbox;
            drop table if exists pillarbox_bench_audit;
            drop table if exists pillarbox_bench_inbox;
            drop table if exists pillarbox_bench_inbox_fence;
            drop table if exists pillarbox_bench_lane;
            drop table if exists pillarbox_bench_lane_session;
            drop table if exists pillarbox_bench_relay;
            drop table if exists pillarbox_bench_route_state;
            drop table if exists pillarbox_bench_saga;
            drop table if exists pillarbox_bench_serial;
            drop table if exists pillarbox_bench_schema;"
        }
    }
}
