//! What is measured: a database with tables for it, filled and emptied.

use pillarbox_cli::database::{self, Database, DatabaseOptions, Staging};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{Design, Ground, Raw, load, migrated};
use pillarbox_core::Ident;

use super::BenchArgs;
use super::sql::{MYSQL, POSTGRES, SQLITE, Sql};

pub(crate) use pillarbox_cli::measure::ROUTE;

/// The database under measurement.
pub(crate) struct Bed {
    /// The outbox that is measured.
    pub(crate) main: Database,
    /// The outbox that grows, beside it.
    pub(crate) big: Database,
    /// The statements of this database.
    pub(crate) sql: &'static Sql,
    /// The payload of every entry.
    pub(crate) payload: Vec<u8>,
    /// How many keys the entries have; 0: none has one.
    keys: u32,
    /// Where the outbox that is measured is, for those who connect by themselves.
    pub(crate) url: String,
    /// The names of its tables.
    pub(crate) options: DatabaseOptions,
}

impl Bed {
    /// Connects and creates the tables anew.
    pub(crate) async fn create(url: &str, args: &BenchArgs) -> Result<Self, Fault> {
        let plain = database::connect(url, DatabaseOptions::default()).await?;
        let (sql, prefix) = match plain.staging {
            Staging::Sqlite(..) => (&SQLITE, "pillarbox_bench_big"),
            Staging::Postgres(..) => (&POSTGRES, "big"),
            Staging::MySql(..) => (&MYSQL, "pillarbox_bench_big"),
            Staging::Mongo(..) => {
                return Err(Fault::usage(
                    "the measurements of this crate are written in SQL; use `pillarbox bench`",
                ));
            }
        };
        plain.staging.execute(sql.drop).await?;
        plain.staging.close().await;
        let Ground { database: main, url, options } = Ground::create(url, args.clients).await?;
        main.staging.execute(sql.create).await?;
        let grows = DatabaseOptions { prefix: Some(Ident::new(prefix)?), ..options.clone() };
        let big = migrated(&url, grows).await?;
        let payload = vec![b'x'; usize::try_from(args.payload).unwrap_or(0)];
        Ok(Self { main, big, sql, payload, keys: args.keys, url, options })
    }

    /// The key of the entry with this number.
    pub(crate) fn key(&self, number: u32) -> Option<String> {
        number.checked_rem(self.keys).map(|key| format!("k-{key}"))
    }

    /// Runs a loading statement until so many rows are there.
    pub(crate) async fn load(&self, sql: &'static str, rows: u32) -> Result<(), Fault> {
        load(&self.main.staging, sql, &self.payload, rows, self.keys).await?;
        self.settle_down().await
    }

    /// Empties the plain table and fills it again.
    pub(crate) async fn fill_raw(&self, rows: u32) -> Result<(), Fault> {
        Raw::of(&self.main.staging).fill(rows, &self.payload).await?;
        self.settle_down().await
    }

    /// Drains the plain table, and says how fast.
    pub(crate) async fn drain_raw(
        &self,
        batch: u32,
        design: Design,
        passed: impl FnMut(u64),
    ) -> Result<f64, Fault> {
        Raw::of(&self.main.staging).drain(batch, design, passed).await
    }

    /// Lets the database do what it would do by itself after a while, so that no measurement pays for another.
    pub(crate) async fn settle_down(&self) -> Result<(), Fault> {
        Ok(self.main.staging.execute(self.sql.settle_down).await?)
    }

    /// Drops the tables.
    pub(crate) async fn drop(self) -> Result<(), Fault> {
        self.big.staging.close().await;
        let dropped = self.main.staging.execute(self.sql.drop).await;
        let Self { main: database, url, options, .. } = self;
        Ground { database, url, options }.drop().await?;
        Ok(dropped?)
    }
}
