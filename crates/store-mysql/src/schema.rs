//! The tables: how they should be, how they are, and how to get there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, Found, TABLES, lacks};
use pillarbox_core::port::{Migrated, Schema, SchemaState};
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::MySqlConnection;
use tokio::time::sleep;

use crate::batch::PACKET_LEAST;
use crate::bind::Bind;
use crate::connect::Server;
use crate::error::{BINLOG, Phase, classify};
use crate::options::Options;
use crate::row::Cells;
use crate::sql::{Sql, script, without_comments};
use crate::store::MySqlStore;
use crate::tables::Tables;

/// One script a version, in order. What was released is never changed; a new version is a new file.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];
/// Made by every migration, and again when one is missing.
const INDEXES: &str = include_str!("migrations/indexes.sql");
const CAUSAL_INDEX: &str = include_str!("migrations/causal.sql");
const TRIGGERS: &str = include_str!("migrations/triggers.sql");
/// Every kind of statement that a migration needs, on a table of no use.
const PROBE: &str = "drop table if exists {probe};
create table {probe} (id int not null primary key, twice int generated always as (id * 2) stored) {table};
create index {open_index} on {probe} (twice);
create trigger {probe_trigger} before delete on {probe} for each row set @pillarbox_probe = 1;
insert into {probe} (id) values (1)";
const PROBE_END: &str = "drop table if exists {probe}";

/// How often a migration is tried on a cluster, and a part of the pause between two tries.
const TRIES: u32 = 16;
const PAUSE: Duration = Duration::from_millis(50);
/// A table, an index, a row or a trigger that is there already; one that is not there; a deadlock.
const OVERTAKEN: [&str; 7] = ["1050", "1061", "1062", "1359", "1146", "1360", "1213"];

/// What only these servers need besides the tables that all stores have.
const MORE_TABLES: [(&str, &[&str]); 2] =
    [("serial", &["route", "key"]), ("outbox", &["room", "part", "at", "live_lane", "hlc_order"])];
/// Without these a row could be there twice.
const NEEDED_INDEXES: [&str; 3] = ["outbox_event", "lane_session_of", "saga_subject"];

const COLUMNS_OF: &str = "select table_name, column_name from information_schema.columns \
    where table_schema = database() and left(table_name, char_length(?1)) = ?1";
const INDEXES_OF: &str = "select distinct index_name, null from information_schema.statistics \
    where table_schema = database() and left(table_name, char_length(?1)) = ?1";
const TRIGGERS_OF: &str = "select trigger_name, null from information_schema.triggers \
    where trigger_schema = database() and event_object_table = concat(?1, '_audit')";
const SETTINGS_OF: &str = "show variables where variable_name in ('read_only', 'innodb_read_only', 'log_bin', \
    'binlog_format', 'max_allowed_packet', 'character_set_client')";
/// Waits for other migrations, not for ever; making an index on a large table may take its time.
const LOCK: &str = "select cast(get_lock(concat('pillarbox ', left(sha2(concat(database(), '.', ?1), 256), 40)), 60) as char), null";
const PATIENCE: &str =
    "set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', session lock_wait_timeout = 60";

/// The version that this program makes and needs.
#[expect(clippy::cast_possible_truncation, reason = "there will never be four billion migrations")]
const VERSION: u32 = MIGRATIONS.len() as u32;

impl MySqlStore {
    /// Creates or upgrades the tables. Concurrent calls are safe: one call does the work, and the others find
    /// it done. If a call breaks off, the next one goes on where it ended.
    ///
    /// # Errors
    /// When the tables are damaged or newer than this program, when the server or a setting of it does not fit, when a
    /// privilege is missing, or when the database fails. Before anything is made, all of that is looked at.
    pub async fn migrate(&self) -> Result<Migrated> {
        Schema::migrate(self).await
    }

    /// A connection of its own, which ends with the call, and a lock on it.
    async fn apart(&self) -> Result<MySqlConnection> {
        let connection = self.pool().acquire().await.map_err(|error| classify(error, Phase::Before))?;
        Ok(connection.detach())
    }

    async fn look(&self) -> Result<Look> {
        let mut connection = self.pool().acquire().await.map_err(|error| classify(error, Phase::Before))?;
        Look::look(&self.statements.tables, self.options(), &mut connection).await
    }
}

#[async_trait]
impl Schema for MySqlStore {
    async fn inspect(&self) -> Result<SchemaState> {
        Ok(self.look().await?.found.state(VERSION))
    }

    async fn migrate(&self) -> Result<Migrated> {
        let mut tries = 1;
        loop {
            match self.migrate_once().await {
                // On a cluster the lock is known to one node: a migration on another one was in the way, or was faster.
                Err(error) if tries < TRIES && was_overtaken(&error) && self.is_clustered().await? => {
                    tries += 1;
                    // Not the same pause for both of them.
                    sleep(PAUSE.saturating_mul(1 + (pillarbox_host::random_u64() % 16) as u32)).await;
                }
                answer => return answer,
            }
        }
    }

    async fn plan(&self) -> Result<String> {
        let look = self.look().await?;
        Ok(look.scripts(&self.statements.tables, self.options()).join("\n"))
    }
}

impl MySqlStore {
    async fn migrate_once(&self) -> Result<Migrated> {
        let (tables, mut connection) = (&self.statements.tables, self.apart().await?);
        let connection = &mut connection;
        Server::ask(connection).await?;
        run(PATIENCE, tables, connection).await?;
        let locked = strings(LOCK, &tables.prefix, connection).await?;
        if !locked.iter().any(|(got, _)| got == "1") {
            let text =
                "another migration of these tables has been running for a minute; try again when it is done";
            return Err(Error::new(ErrorKind::Contention, text));
        }
        Settings::ask(connection).await?.check()?;
        let look = Look::look(tables, self.options(), connection).await?;
        let state = look.found.state(VERSION);
        if matches!(state, SchemaState::Newer { .. } | SchemaState::Damaged { .. }) {
            state.check()?;
        }
        let statements = look.statements(tables, self.options());
        if !statements.is_empty() {
            probe(tables, connection).await?;
        }
        for statement in &statements {
            run(statement, tables, connection).await?;
        }
        Ok(Migrated { from: look.found.version, to: VERSION })
    }
}

/// Whether an error may come of another migration at the same time: what was to be made is there, what was there is gone, or
/// a statement was ended in favour of another node's.
fn was_overtaken(error: &Error) -> bool {
    error.code().is_some_and(|code| OVERTAKEN.contains(&code))
}

/// Settings of the server that a store depends on.
struct Settings(BTreeMap<String, String>);

impl Settings {
    async fn ask(connection: &mut MySqlConnection) -> Result<Self> {
        Ok(Self(strings(SETTINGS_OF, "", connection).await?.into_iter().collect()))
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
    }

    /// Names the setting that is in the way.
    fn check(&self) -> Result<()> {
        for name in ["read_only", "innodb_read_only"] {
            if self.is(name, "ON") {
                let text = format!(
                    "{name} is set on this server, so nothing was changed. Use the URL of the primary, or unset it"
                );
                return Err(Error::new(ErrorKind::ReadOnly, text));
            }
        }
        if self.is("log_bin", "ON") && self.is("binlog_format", "STATEMENT") {
            return Err(Error::new(ErrorKind::Unsupported, BINLOG));
        }
        let packet = self.0.get("max_allowed_packet").and_then(|packet| packet.parse::<usize>().ok());
        if let Some(packet) = packet.filter(|packet| *packet < PACKET_LEAST) {
            let text = format!(
                "max_allowed_packet of this server is {packet}; Pillarbox needs {PACKET_LEAST} at least, and more \
                 than the largest payload"
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        if !self.is("character_set_client", "utf8mb4") {
            let text = "the character set of the connection is not utf8mb4; write charset=utf8mb4 in the URL";
            return Err(Error::invalid(text));
        }
        Ok(())
    }
}

/// Tries every kind of statement that a migration needs, so that nothing is half made for want of a privilege.
async fn probe(tables: &Tables, connection: &mut MySqlConnection) -> Result<()> {
    for statement in split(&tables.fill(PROBE)) {
        if let Err(error) = script(&statement).execute(&mut *connection).await {
            let said = error.as_database_error().map(|error| error.message().to_owned()).unwrap_or_default();
            let error = classify(error, Phase::Before);
            // Best effort: what is left of it is dropped by the next migration.
            let _ = run(PROBE_END, tables, connection).await;
            return Err(match error.kind() {
                ErrorKind::Denied if error.code() == Some("1419") => error,
                ErrorKind::Denied => {
                    let text = format!(
                        "the user lacks a privilege that migrating needs, so nothing was changed: {said}. Grant CREATE, \
                         ALTER, INDEX, DROP, TRIGGER, SELECT, INSERT, UPDATE and DELETE on this database"
                    );
                    Error::new(ErrorKind::Denied, text).with_code(error.code().unwrap_or_default().to_owned())
                }
                _ => error,
            });
        }
    }
    run(PROBE_END, tables, connection).await
}

/// What the catalogue says.
struct Look {
    found: Found,
    /// Whether a trigger of the audit trail is missing. Only a user who may create triggers can see them.
    guards: bool,
}

impl Look {
    async fn look(tables: &Tables, options: &Options, connection: &mut MySqlConnection) -> Result<Self> {
        let name = |table: &str| format!("{}_{table}", tables.prefix);
        let mut columns: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, column) in strings(COLUMNS_OF, &tables.prefix, connection).await? {
            columns.entry(table).or_default().insert(column);
        }
        let wanted = TABLES.into_iter().chain(MORE_TABLES);
        let mut differences = Vec::new();
        for (table, wanted) in wanted.clone() {
            let (table, found) = (name(table), columns.get(&name(table)));
            let has = |column: &str| found.is_some_and(|found| found.contains(column));
            differences.extend(lacks(&table, wanted, has, found.is_some()));
        }
        differences.dedup();
        let indexes = strings(INDEXES_OF, &tables.prefix, connection).await?;
        let indexes: BTreeSet<String> = indexes.into_iter().map(|(index, _)| index).collect();
        let absent = |index: &&str| !indexes.contains(&name(index));
        let unique = NEEDED_INDEXES.iter().filter(|index| absent(index));
        differences.extend(unique.map(|index| format!("the unique index {} is missing", name(index))));
        let version = match columns.get(&name("schema")) {
            Some(_) => version(tables, connection).await?,
            // Other tables are there, and it is gone.
            None if wanted.clone().any(|(table, _)| columns.contains_key(&name(table))) => VERSION,
            None => 0,
        };
        // A migration that broke off has not written its version: it goes on.
        if version == 0 {
            differences.clear();
        }
        let missing =
            created(INDEXES, tables).chain(created(CAUSAL_INDEX, tables).filter(|_| options.causal_order));
        let missing = missing.map(|(index, _)| index).filter(|index| !indexes.contains(index)).collect();
        let guards = strings(TRIGGERS_OF, &tables.prefix, connection).await?.len() < 2;
        Ok(Self { found: Found { version, differences, missing }, guards })
    }

    /// What is to be run from here, names filled in: for people, with its comments.
    fn scripts(&self, tables: &Tables, options: &Options) -> Vec<String> {
        let known = usize::try_from(self.found.version).unwrap_or(usize::MAX);
        let mut scripts: Vec<String> =
            MIGRATIONS.iter().skip(known).map(|script| tables.fill(script)).collect();
        if self.guards {
            scripts.push(tables.fill(TRIGGERS));
        }
        let causal = options.causal_order.then_some(CAUSAL_INDEX);
        for script in [INDEXES].into_iter().chain(causal) {
            let missing = created(script, tables).filter(|(index, _)| self.found.missing.contains(index));
            scripts.extend(missing.map(|(_, statement)| format!("{statement};")));
        }
        scripts
    }

    /// The same as single statements.
    fn statements(&self, tables: &Tables, options: &Options) -> Vec<String> {
        self.scripts(tables, options).iter().flat_map(|script| split(script)).collect()
    }
}

/// The statements of a script. No text in one has a semicolon.
fn split(script: &str) -> Vec<String> {
    let code = without_comments(script);
    code.split(';').map(str::trim).filter(|text| !text.is_empty()).map(ToOwned::to_owned).collect()
}

/// The indexes that a script creates, with the statement of each.
fn created(script: &str, tables: &Tables) -> impl Iterator<Item = (String, String)> {
    split(&tables.fill(script)).into_iter().filter_map(|statement| {
        let name = statement.strip_prefix("create index `")?.split_once('`')?.0.to_owned();
        Some((name, statement))
    })
}

async fn version(tables: &Tables, connection: &mut MySqlConnection) -> Result<u32> {
    let sql = Sql::new("select coalesce(max(version), 0) from {versions}", tables);
    let rows = sql.with(Bind::new())?.rows(connection).await?;
    let version = rows.first().map_or(Ok(0), |row| Cells::of(row).number())?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// Runs a statement without values. What the server says of one quotes no data.
async fn run(statement: &str, tables: &Tables, connection: &mut MySqlConnection) -> Result<()> {
    let Err(error) = script(&tables.fill(statement)).execute(connection).await else { return Ok(()) };
    let said = error.as_database_error().map(|error| error.message().to_owned());
    let error = classify(error, Phase::Before);
    Err(match (error.kind(), said) {
        (ErrorKind::Internal | ErrorKind::Schema, Some(said)) => {
            Error::new(error.kind(), format!("the database refuses a statement of the migration: {said}"))
                .with_code(error.code().unwrap_or_default().to_owned())
        }
        _ => error,
    })
}

/// The first two columns of rows, as texts.
async fn strings(
    sql: &'static str,
    prefix: &str,
    connection: &mut MySqlConnection,
) -> Result<Vec<(String, String)>> {
    let sql = Sql::new(sql, &Tables::new(&Options::default()));
    let rows = sql.with(Bind::new().text(prefix))?.rows(connection).await?;
    let pair = |row: &sqlx::mysql::MySqlRow| {
        let mut row = Cells::of(row);
        Ok((row.optional_text()?.unwrap_or_default(), row.optional_text().ok().flatten().unwrap_or_default()))
    };
    rows.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &[(&str, &str)]) -> Result<()> {
        let fine = [("character_set_client", "utf8mb4"), ("max_allowed_packet", "16777216")];
        let all = fine.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings(all.collect()).check()
    }

    #[test]
    fn a_setting_that_does_not_fit_is_named() {
        check(&[("read_only", "OFF"), ("log_bin", "ON"), ("binlog_format", "ROW")]).unwrap();
        for (settings, kind, says) in [
            (vec![("read_only", "ON")], ErrorKind::ReadOnly, "read_only is set on this server"),
            (vec![("innodb_read_only", "ON")], ErrorKind::ReadOnly, "innodb_read_only is set"),
            (
                vec![("log_bin", "ON"), ("binlog_format", "STATEMENT")],
                ErrorKind::Unsupported,
                "Set it to ROW or MIXED",
            ),
            (
                vec![("max_allowed_packet", "1024")],
                ErrorKind::Unsupported,
                "max_allowed_packet of this server is 1024",
            ),
            (vec![("character_set_client", "latin1")], ErrorKind::Invalid, "charset=utf8mb4"),
        ] {
            let error = check(&settings).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn the_indexes_of_a_script_are_found_by_name() {
        let tables = Tables::new(&Options::default());
        let names: Vec<String> = created(INDEXES, &tables).map(|(name, _)| name).collect();
        assert_eq!(names.len(), INDEXES.matches("create index").count());
        assert!(names.contains(&"pillarbox_outbox_open".to_owned()), "{names:?}");
    }
}
