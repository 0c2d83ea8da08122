//! What is measured: a database with tables for it, filled and emptied.

use pillarbox_cli::database::{self, Database, DatabaseOptions, Staging};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{Design, Ground, Raw, empty_outbox, load, migrated};
use pillarbox_core::{Event, Ident, RouteName};

use super::BenchArgs;
use super::sql::{MYSQL, NO_SQL, POSTGRES, SQLITE, Sql};

pub(crate) use pillarbox_cli::measure::ROUTE;

/// Events of one transaction that loads an outbox where there is no SQL.
const LOADED_TOGETHER: u32 = 500;

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
            Staging::Mongo(..) if args.drains_alone() => (&NO_SQL, "pillarbox_bench_big"),
            Staging::Mongo(..) => {
                return Err(Fault::usage(
                    "the other measurements are written in SQL. On MongoDB give --only drain, or use `pillarbox bench`",
                ));
            }
        };
        execute(&plain.staging, sql.drop).await?;
        plain.staging.close().await;
        let Ground { database: main, url, options } = Ground::create(url, args.clients).await?;
        execute(&main.staging, sql.create).await?;
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
        self.load_with_keys(sql, rows, self.keys).await
    }

    /// The same, with another number of keys.
    pub(crate) async fn load_with_keys(&self, sql: &'static str, rows: u32, keys: u32) -> Result<(), Fault> {
        load(&self.main.staging, sql, &self.payload, rows, keys).await?;
        self.settle_down().await
    }

    /// Empties the outbox and fills it again, with as many keys.
    pub(crate) async fn fill_outbox(&self, rows: u32, keys: Option<u32>) -> Result<(), Fault> {
        let keys = keys.unwrap_or(self.keys);
        if let Staging::Mongo(store, _) = &self.main.staging {
            empty_outbox(store).await?;
            return self.stage(rows, keys).await;
        }
        self.main.staging.execute(self.sql.clear_outbox).await?;
        self.load_with_keys(self.sql.load_outbox, rows, keys).await
    }

    /// Stages so many events as an application does.
    async fn stage(&self, rows: u32, keys: u32) -> Result<(), Fault> {
        let outbox = self.main.staging.outbox(&RouteName::new(ROUTE)?);
        let event = |number: u32| {
            let event = Event::new("bench.event", self.payload.clone());
            number.checked_rem(keys).into_iter().fold(event, |event, key| event.key(format!("k-{key}")))
        };
        let mut staged = 0;
        while staged < rows {
            let upto = rows.min(staged + LOADED_TOGETHER);
            let mut tx = self.main.staging.begin().await?;
            let _ = tx.stage_all(&outbox, (staged..upto).map(event).collect()).await?;
            tx.commit().await?;
            staged = upto;
        }
        Ok(())
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
        execute(&self.main.staging, self.sql.settle_down).await
    }

    /// Drops the tables.
    pub(crate) async fn drop(self) -> Result<(), Fault> {
        self.big.staging.close().await;
        let dropped = execute(&self.main.staging, self.sql.drop).await;
        let Self { main: database, url, options, .. } = self;
        Ground { database, url, options }.drop().await?;
        dropped
    }
}

/// Runs a statement, if there is one for this database.
async fn execute(staging: &Staging, sql: &'static str) -> Result<(), Fault> {
    if sql.is_empty() { Ok(()) } else { Ok(staging.execute(sql).await?) }
}
