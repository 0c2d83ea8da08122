//! The tables: how they should be, how they are, and how to get there.

use std::collections::HashSet;

use async_trait::async_trait;
use pillarbox_core::port::shared::{Found, TABLES, lacks};
use pillarbox_core::port::{Migrated, Schema, SchemaState};
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::{Row, SqliteConnection};

use crate::call::UnitOfWork;
use crate::error::classify;
use crate::options::Options;
use crate::sql::{Sql, query};
use crate::store::SqliteStore;
use crate::tables::Tables;

/// One script a version, in order. What was released is never changed; a new version is a new file.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];
/// Made by every migration, and again when one is missing.
const INDEXES: &str = include_str!("migrations/indexes.sql");
const CAUSAL_INDEX: &str = include_str!("migrations/causal.sql");

/// Indexes without which everything works, slowly.
const WANTED_INDEXES: [&str; 17] = [
    "outbox_ready",
    "outbox_due",
    "outbox_lane",
    "outbox_stuck",
    "outbox_ended",
    "outbox_dead",
    "outbox_failed",
    "outbox_dead_step",
    "audit_event",
    "audit_subject",
    "audit_saga",
    "saga_dead",
    "saga_due",
    "saga_status",
    "saga_ended",
    "saga_open",
    "inbox_age",
];

/// The version that this program makes and needs.
#[expect(clippy::cast_possible_truncation, reason = "there will never be four billion migrations")]
const VERSION: u32 = MIGRATIONS.len() as u32;

impl SqliteStore {
    /// Creates or upgrades the tables. Concurrent calls are safe: one call does the work, and the others find
    /// it done.
    ///
    /// # Errors
    /// When the tables are damaged or newer than this program, or when the database fails.
    pub async fn migrate(&self) -> Result<Migrated> {
        Schema::migrate(self).await
    }

    async fn look(&self) -> Result<Found> {
        let mut connection = self.pool().acquire().await.map_err(classify)?;
        look(&self.statements.tables, self.options(), &mut connection).await
    }
}

#[async_trait]
impl Schema for SqliteStore {
    async fn inspect(&self) -> Result<SchemaState> {
        Ok(self.look().await?.state(VERSION))
    }

    async fn migrate(&self) -> Result<Migrated> {
        self.writer.durably(&Migrate { tables: &self.statements.tables, options: self.options() }).await
    }

    async fn plan(&self) -> Result<String> {
        let scripts = scripts(&self.look().await?, &self.statements.tables, self.options());
        Ok(scripts.iter().map(Sql::as_str).collect::<Vec<_>>().join("\n"))
    }
}

struct Migrate<'a> {
    tables: &'a Tables,
    options: &'a Options,
}

#[async_trait]
impl UnitOfWork for &Migrate<'_> {
    type Outcome = Migrated;

    /// Under the write lock: of several callers one does the work, and the others find it done.
    async fn run(self, tx: &mut SqliteConnection) -> Result<Migrated> {
        let found = look(self.tables, self.options, &mut *tx).await?;
        check_encoding(tx).await?;
        let state = found.state(VERSION);
        if matches!(state, SchemaState::Newer { .. } | SchemaState::Damaged { .. }) {
            state.check()?;
        }
        for sql in scripts(&found, self.tables, self.options) {
            sql.script().execute(&mut *tx).await.map_err(classify)?;
        }
        Ok(Migrated { from: found.version, to: VERSION })
    }
}

/// What the catalogue says.
async fn look(tables: &Tables, options: &Options, connection: &mut SqliteConnection) -> Result<Found> {
    let prefix = &tables.prefix;
    let mut present = 0;
    let mut differences = Vec::new();
    for (table, columns) in TABLES {
        let table = format!("{prefix}_{table}");
        let found = strings("select name from pragma_table_info(?1)", &table, connection).await?;
        present += usize::from(!found.is_empty());
        differences.extend(lacks(&table, columns, |column| found.contains(column), !found.is_empty()));
    }
    if present == 0 {
        return Ok(Found::default());
    }
    let version = if differences.iter().any(|difference| difference.contains("_schema")) {
        VERSION
    } else {
        version(tables, connection).await?
    };
    let outbox = format!("{prefix}_outbox");
    let indexes = "select name from sqlite_master where type = 'index' and name like ?1 || '%'";
    let found = strings(indexes, prefix, connection).await?;
    let unique = "select name from pragma_index_list(?1) where \"unique\" and origin in ('u', 'c')";
    if differences.is_empty() && strings(unique, &outbox, connection).await?.is_empty() {
        differences.push(format!("the unique index on event_id and route of {outbox} is missing"));
    }
    let trigger = format!("{outbox}_lane_of");
    let triggers = "select name from sqlite_master where type = 'trigger' and name = ?1";
    if differences.is_empty() && strings(triggers, &trigger, connection).await?.is_empty() {
        differences.push(format!(
            "the trigger {trigger} is missing; without it, entries that plain SQL inserts get no lane"
        ));
    }
    let missing = WANTED_INDEXES
        .into_iter()
        .chain(options.causal_order.then_some("outbox_causal"))
        .map(|index| format!("{prefix}_{index}"))
        .filter(|index| !found.contains(index))
        .collect();
    Ok(Found { version, differences, missing })
}

/// What is to be run from here, names filled in.
fn scripts(found: &Found, tables: &Tables, options: &Options) -> Vec<Sql> {
    let always: Vec<_> = [INDEXES].into_iter().chain(options.causal_order.then_some(CAUSAL_INDEX)).collect();
    found.scripts(&MIGRATIONS, &always).into_iter().map(|script| Sql::new(script, tables)).collect()
}

/// The lane of a key comes from its bytes, which are to be the same for everybody.
async fn check_encoding(connection: &mut SqliteConnection) -> Result<()> {
    let row = sqlx::query("pragma encoding").fetch_one(connection).await.map_err(classify)?;
    match row.try_get_unchecked::<&str, _>(0).map_err(classify)? {
        "UTF-8" => Ok(()),
        encoding => Err(Error::new(
            ErrorKind::Schema,
            format!(
                "the database file has the text encoding {encoding}; Pillarbox needs UTF-8. Create a new \
                 file with `PRAGMA encoding = 'UTF-8'` and copy the data"
            ),
        )),
    }
}

async fn version(tables: &Tables, connection: &mut SqliteConnection) -> Result<u32> {
    let sql = Sql::new("select coalesce(max(version), 0) from {versions}", tables);
    let row = query(&sql).fetch_one(connection).await.map_err(classify)?;
    let version: i64 = row.try_get_unchecked(0).map_err(classify)?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

async fn strings(
    sql: &'static str,
    value: &str,
    connection: &mut SqliteConnection,
) -> Result<HashSet<String>> {
    let rows = sqlx::query(sql).bind(value.to_owned()).fetch_all(connection).await.map_err(classify)?;
    rows.iter().map(|row| row.try_get_unchecked(0).map_err(classify)).collect()
}
