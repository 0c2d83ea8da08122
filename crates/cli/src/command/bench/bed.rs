//! What is measured: a database with tables for it, filled and emptied.

use pillarbox_core::Ident;

use super::BenchArgs;
use super::sql::{POSTGRES, SQLITE, Sql};
use crate::database::{self, Database, DatabaseOptions, Staging};
use crate::fault::Fault;

/// The route of everything that is measured.
pub(crate) const ROUTE: &str = "bench";
/// Rows of one loading statement.
const LOAD_ROWS: u32 = 50_000;

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
        let sql = match plain.staging {
            Staging::Sqlite(..) => &SQLITE,
            Staging::Postgres(..) => &POSTGRES,
        };
        plain.staging.execute(sql.drop).await?;
        if matches!(plain.staging, Staging::Postgres(..)) {
            plain.staging.execute("create schema pillarbox_bench").await?;
        }
        plain.staging.execute(sql.create).await?;
        let measured = options(&plain, "pillarbox", args.clients)?;
        let main = connect(url, measured.clone()).await?;
        let big = connect(url, options(&plain, "big", args.clients)?).await?;
        plain.staging.close().await;
        let payload = vec![b'x'; usize::try_from(args.payload).unwrap_or(0)];
        Ok(Self { main, big, sql, payload, keys: args.keys, url: url.to_owned(), options: measured })
    }

    /// What it is, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self.main.staging {
            Staging::Sqlite(..) => "sqlite",
            Staging::Postgres(..) => "postgres",
        }
    }

    /// The key of the entry with this number.
    pub(crate) fn key(&self, number: u32) -> Option<String> {
        number.checked_rem(self.keys).map(|key| format!("k-{key}"))
    }

    /// Runs a loading statement until so many rows are there.
    pub(crate) async fn load(&self, sql: &'static str, rows: u32) -> Result<(), Fault> {
        let mut left = rows;
        while left > 0 {
            let now = left.min(LOAD_ROWS);
            self.main.staging.load(sql, &self.payload, [now, self.keys]).await?;
            left -= now;
        }
        self.settle_down().await
    }

    /// Lets the database do what it would do by itself after a while, so that no measurement pays for another.
    pub(crate) async fn settle_down(&self) -> Result<(), Fault> {
        Ok(self.main.staging.execute(self.sql.settle_down).await?)
    }

    /// Drops the tables.
    pub(crate) async fn drop(self) -> Result<(), Fault> {
        self.big.staging.close().await;
        let dropped = self.main.staging.execute(self.sql.drop).await;
        self.main.staging.close().await;
        Ok(dropped?)
    }
}

// On PostgreSQL a schema of its own keeps the names apart, on SQLite the prefix.
fn options(plain: &Database, name: &str, clients: u32) -> Result<DatabaseOptions, Fault> {
    let (schema, prefix) = match (&plain.staging, name) {
        (Staging::Postgres(..), name) => (Some("pillarbox_bench"), name),
        (Staging::Sqlite(..), "big") => (None, "pillarbox_bench_big"),
        (Staging::Sqlite(..), _) => (None, "pillarbox_bench"),
    };
    Ok(DatabaseOptions {
        schema: schema.map(Ident::new).transpose()?,
        prefix: Some(Ident::new(prefix)?),
        connections: Some(clients),
        ..DatabaseOptions::default()
    })
}

async fn connect(url: &str, options: DatabaseOptions) -> Result<Database, Fault> {
    let database = database::connect(url, options).await?;
    let _ = database.schema.migrate().await?;
    Ok(database)
}
