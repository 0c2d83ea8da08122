//! The tables: how they should be, how they are, and how to get there.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use pillarbox_core::port::shared::Found;
use pillarbox_core::port::{Migrated, Schema, SchemaState};
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Traffic, Unit};
use crate::error::{Phase, classify};
use crate::options::Options;
use crate::sql::Sql;
use crate::store::PostgresStore;
use crate::tables::Tables;

/// One script a version, in order. What was released is never changed; a new version is a new file.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];
/// Made by every migration, and again when one is missing.
const INDEXES: &str = include_str!("migrations/indexes.sql");
const CAUSAL_INDEX: &str = include_str!("migrations/causal.sql");
const CREATE_SCHEMA: &str = "create schema if not exists {schema};\n";
/// Waits for other migrations, not for ever; making an index on a large table may take its time.
const PATIENCE: &str = "set local lock_timeout = '60s'; set local statement_timeout = 0; \
    set local client_min_messages = warning";
const LOCK: &str =
    "select pg_advisory_xact_lock(hashtextextended('pillarbox migrate ' || $1 || '.' || $2, 0))";
const VERSION_OF: &str = "select coalesce(max(version), 0)::bigint from {versions}";
const SCHEMA_EXISTS: &str = "select exists (select from pg_catalog.pg_namespace where nspname = $1)";
/// A column whose type is a domain counts as one of the type behind it, and an enum as text.
const COLUMNS_OF: &str = "select c.relname::text, a.attname::text, \
        case when t.typtype = 'd' then pg_catalog.format_type(t.typbasetype, t.typtypmod) \
        when t.typtype = 'e' then 'text' else pg_catalog.format_type(a.atttypid, a.atttypmod) end \
    from pg_catalog.pg_class as c \
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace \
    join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped \
    join pg_catalog.pg_type as t on t.oid = a.atttypid \
    where n.nspname = $1 and c.relname = any ($2) and c.relkind in ('r', 'p')";
const INDEXES_OF: &str = "select i.relname::text \
    from pg_catalog.pg_class as c \
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace \
    join pg_catalog.pg_index as x on x.indrelid = c.oid and x.indisvalid \
    join pg_catalog.pg_class as i on i.oid = x.indexrelid \
    where n.nspname = $1 and c.relname = any ($2) \
    union all \
    select p.proname::text || '()' from pg_catalog.pg_proc as p \
    join pg_catalog.pg_namespace as n on n.oid = p.pronamespace where n.nspname = $1";

/// The role that asks, the owners of the tables that it cannot act for, and whether it may create tables and
/// schemas.
const RIGHTS: &str = "select current_user::text, \
    array(select distinct pg_catalog.pg_get_userbyid(o.owner)::text from ( \
        select c.relowner as owner from pg_catalog.pg_class as c \
        join pg_catalog.pg_namespace as n on n.oid = c.relnamespace \
        where n.nspname = $1 and c.relname = any ($2) \
        union all \
        select p.proowner from pg_catalog.pg_proc as p \
        join pg_catalog.pg_namespace as n on n.oid = p.pronamespace \
        where n.nspname = $1 and p.proname = any ($2) \
    ) as o where not pg_catalog.pg_has_role(o.owner, 'usage')), \
    coalesce((select pg_catalog.has_schema_privilege(n.oid, 'create') from pg_catalog.pg_namespace as n \
        where n.nspname = $1), \
        pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create'))";

/// Tables, their columns and the types of these.
const WANTED: [(&str, &[(&str, &str)]); 11] = [
    (
        "outbox",
        &[
            ("seq", "bigint"),
            ("event_id", "uuid"),
            ("route", NAME),
            ("type", NAME),
            ("key", NAME),
            ("payload", "text"),
            ("payload_bytes", "bytea"),
            ("content_type", NAME),
            ("headers", "jsonb"),
            ("tenant", NAME),
            ("correlation_id", NAME),
            ("causation_id", NAME),
            ("execution_id", NAME),
            ("occurred_at", TIME),
            ("priority", "smallint"),
            ("group_id", NAME),
            ("hlc", "bigint"),
            ("status", "text"),
            ("attempts", "integer"),
            ("crashes", "smallint"),
            ("max_attempts", "integer"),
            ("due_at", TIME),
            ("fence", "bigint"),
            ("owner", "text"),
            ("last_error", "text"),
            ("last_attempt_at", TIME),
            ("created_at", TIME),
            ("settled_at", TIME),
            ("leased_at", TIME),
        ],
    ),
    (
        "audit",
        &[
            ("seq", "bigint"),
            ("at", TIME),
            ("kind", "text"),
            ("actor", "text"),
            ("route", "text"),
            ("event_id", "uuid"),
            ("saga_id", "text"),
            ("subject_kind", "text"),
            ("subject_value", "text"),
            ("step", "text"),
            ("detail", "text"),
        ],
    ),
    (
        "saga",
        &[
            ("id", "text"),
            ("name", NAME),
            ("route", NAME),
            ("subject_kind", NAME),
            ("subject_value", NAME),
            ("generation", "bigint"),
            ("status", "text"),
            ("version", "bigint"),
            ("dead", "bigint"),
            ("due_at", TIME),
            ("deadline_at", TIME),
            ("body", "text"),
            ("created_at", TIME),
            ("updated_at", TIME),
            ("ended_at", TIME),
        ],
    ),
    ("inbox", &[("consumer", "text"), ("event_id", "uuid"), ("accepted_at", TIME)]),
    (
        "inbox_fence",
        &[
            ("consumer", "text"),
            ("lane", "text"),
            ("fence", "bigint"),
            ("stream", "text"),
            ("position", "bigint"),
            ("seen_at", TIME),
        ],
    ),
    (
        "relay",
        &[
            ("run", "bigint"),
            ("route", "text"),
            ("owner", "text"),
            ("mode", "text"),
            ("wake", "text"),
            ("in_flight", "bigint"),
            ("circuit", "text"),
            ("down_since", TIME),
            ("outages", "bigint"),
            ("reason", "text"),
            ("started_at", TIME),
            ("seen_at", TIME),
            ("lease_until", TIME),
        ],
    ),
    (
        "route_state",
        &[
            ("route", NAME),
            ("on_dead", "text"),
            ("paused_at", TIME),
            ("paused_by", "text"),
            ("pause_reason", "text"),
        ],
    ),
    (
        "lane",
        &[
            ("route", NAME),
            ("lane", "smallint"),
            ("session", "uuid"),
            ("fence", "bigint"),
            ("revision", "bigint"),
        ],
    ),
    (
        "lane_session",
        &[
            ("route", NAME),
            ("session", "uuid"),
            ("rank", "bigint"),
            ("owner", "text"),
            ("leased_at", TIME),
            ("lease_until", TIME),
            ("shares", "smallint"),
            ("isolated", "bigint[]"),
        ],
    ),
    ("lane_handed", &[("route", NAME), ("session", "uuid"), ("handed", "bigint")]),
    ("schema", &[("version", "integer"), ("applied_at", TIME)]),
];
const TIME: &str = "timestamp with time zone";
const NAME: &str = "character varying(255)";

/// Without these staging, accepting and claiming fail.
const NEEDED_INDEXES: [&str; 4] = ["outbox_event", "inbox_pkey", "inbox_fence_pkey", "may_claim()"];
/// Without these everything works, slowly, or not from plain SQL.
const WANTED_INDEXES: [&str; 14] = [
    "outbox_open",
    "outbox_lane",
    "outbox_ended",
    "audit_event",
    "audit_subject",
    "audit_saga",
    "saga_dead",
    "saga_due",
    "saga_status",
    "saga_ended",
    "saga_open",
    "inbox_age",
    "stage()",
    "serialize()",
];

/// The version that this program makes and needs.
#[expect(clippy::cast_possible_truncation, reason = "there will never be four billion migrations")]
const VERSION: u32 = MIGRATIONS.len() as u32;

impl PostgresStore {
    /// Creates or upgrades the tables. Concurrent calls are safe: one call does the work, and the others find
    /// it done.
    ///
    /// # Errors
    /// When the tables are damaged or newer than this program, when a right is missing, or when the database
    /// fails.
    pub async fn migrate(&self) -> Result<Migrated> {
        Schema::migrate(self).await
    }
}

#[async_trait]
impl Schema for PostgresStore {
    async fn inspect(&self) -> Result<SchemaState> {
        let mut unit = self.unit(Traffic::Operator).await?;
        let found = Look::look(&mut unit, self.tables(), self.options()).await?;
        unit.commit(Phase::Before).await?;
        let mut state = found.tables.state(VERSION);
        if let SchemaState::Ready { warnings } = &mut state
            && let Some(damage) = self.session_damage().await?
        {
            warnings.push(format!(
                "the tables of lane sessions cannot be read, as can happen after a failover: {damage}. \
                 Ordered routes deliver nothing until a relay on them or `pillarbox migrate` empties these \
                 tables"
            ));
        }
        Ok(state)
    }

    /// Under a lock that ends with the transaction: of several callers one does the work, and the others
    /// find it done.
    async fn migrate(&self) -> Result<Migrated> {
        let tables = self.tables();
        let mut unit = self.unit(Traffic::Operator).await?.patiently();
        unit.script(&Sql::new(PATIENCE, tables)).await?;
        let lock = Bind::new().text(&tables.schema).text(&tables.prefix).done()?;
        unit.rows(&Sql::new(LOCK, tables), lock).await?;
        let found = Look::look(&mut unit, tables, self.options()).await?;
        found.check_schema(tables, self.options())?;
        if matches!(found.tables.state(VERSION), SchemaState::Newer { .. } | SchemaState::Damaged { .. }) {
            unit.commit(Phase::Before).await?;
            found.tables.state(VERSION).check()?;
            return Ok(Migrated { from: found.tables.version, to: found.tables.version });
        }
        let scripts = found.scripts(tables, self.options());
        if !scripts.is_empty() {
            Rights::look(&mut unit, tables).await?.check(&tables.schema, found.schema)?;
        }
        for script in scripts {
            unit.script(&script).await?;
        }
        unit.commit(Phase::Committing).await?;
        if let Some(damage) = self.session_damage().await? {
            self.mend_sessions(&damage).await?;
        }
        Ok(Migrated { from: found.tables.version, to: VERSION })
    }

    async fn plan(&self) -> Result<String> {
        let mut unit = self.unit(Traffic::Operator).await?;
        let found = Look::look(&mut unit, self.tables(), self.options()).await?;
        unit.commit(Phase::Before).await?;
        found.check_schema(self.tables(), self.options())?;
        let mut scripts = found.scripts(self.tables(), self.options());
        if matches!(found.tables.state(VERSION), SchemaState::Ready { .. })
            && self.session_damage().await?.is_some()
        {
            scripts.push(self.sql().lanes_mend.clone());
        }
        Ok(scripts.iter().map(Sql::as_str).collect::<Vec<_>>().join("\n"))
    }
}

/// What the role that migrates may do.
struct Rights {
    role: String,
    /// Owners of what is there that the role is no member of.
    owners: Vec<String>,
    creates: bool,
}

impl Rights {
    async fn look(unit: &mut Unit, tables: &Tables) -> Result<Self> {
        let names = WANTED.iter().map(|(table, _)| *table).chain(["stage", "serialize", "audit_guard"]);
        let names: Vec<String> = names.map(|name| format!("{}_{name}", tables.prefix)).collect();
        let arguments = Bind::new().text(&tables.schema).value(names).done()?;
        let rows = unit.rows(&Sql::new(RIGHTS, tables), arguments).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "the role of this connection has no name"))?;
        let read = || Ok(Self { role: row.try_get(0)?, owners: row.try_get(1)?, creates: row.try_get(2)? });
        read().map_err(|error| classify(error, Phase::Before))
    }

    /// Says what is lacking before anything is tried: the server would name one object of many.
    fn check(&self, schema: &str, schema_exists: bool) -> Result<()> {
        let role = &self.role;
        let denied = |message| Err(Error::new(ErrorKind::Denied, message));
        if let [owner, ..] = &*self.owners {
            return denied(format!(
                "the role {role} cannot change the Pillarbox tables, which belong to {}; nothing was \
                 changed. Run `grant {owner} to {role}` and migrate again, or run the output of `pillarbox \
                 migrate --plan` as the owner",
                self.owners.join(" and ")
            ));
        }
        match (self.creates, schema_exists) {
            (true, _) => Ok(()),
            (false, true) => denied(format!(
                "the role {role} cannot create tables in the schema {schema}; nothing was changed. \
                 `grant usage, create on schema {schema} to {role}` allows it"
            )),
            (false, false) => denied(format!(
                "the schema {schema} does not exist and the role {role} cannot create it; nothing was \
                 changed. Let an administrator run `create schema {schema} authorization {role}`"
            )),
        }
    }
}

/// What the catalogue says.
struct Look {
    /// Whether the schema that holds the tables exists.
    schema: bool,
    tables: Found,
}

impl Look {
    async fn look(unit: &mut Unit, tables: &Tables, options: &Options) -> Result<Self> {
        let name = |table: &str| format!("{}_{table}", tables.prefix);
        let schema = Bind::new().text(&tables.schema).done()?;
        let schema = unit.rows(&Sql::new(SCHEMA_EXISTS, tables), schema).await?;
        let schema = schema.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
        let names: Vec<String> = WANTED.iter().map(|(table, _)| name(table)).collect();
        let which = || Bind::new().text(&tables.schema).value(names.clone()).done();
        let mut columns: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for row in unit.rows(&Sql::new(COLUMNS_OF, tables), which()?).await? {
            columns.entry(text(&row, 0)?).or_default().insert(text(&row, 1)?, text(&row, 2)?);
        }
        if columns.is_empty() {
            return Ok(Self { schema, tables: Found::default() });
        }
        let mut differences: Vec<String> =
            WANTED.iter().flat_map(|(table, wanted)| compare(&name(table), wanted, &columns)).collect();
        let indexes = unit.rows(&Sql::new(INDEXES_OF, tables), which()?).await?;
        let indexes = indexes.iter().map(|row| text(row, 0)).collect::<Result<BTreeSet<_>>>()?;
        let absent = |index: &&str| !indexes.contains(&name(index));
        differences.extend(
            NEEDED_INDEXES
                .into_iter()
                .filter(|index| absent(index))
                .map(|index| format!("the unique index {} is missing", name(index))),
        );
        let causal = options.causal_order.then_some("outbox_causal");
        let missing =
            WANTED_INDEXES.into_iter().chain(causal).filter(|index| absent(index)).map(name).collect();
        let version = if columns.get(&name("schema")).is_some_and(|columns| columns.contains_key("version")) {
            version(unit, tables).await?
        } else {
            VERSION
        };
        Ok(Self { schema, tables: Found { version, differences, missing } })
    }

    /// Refuses to create a schema without `create_schema`: its name may be misspelt.
    fn check_schema(&self, tables: &Tables, options: &Options) -> Result<()> {
        if self.schema || options.create_schema {
            return Ok(());
        }
        let schema = &tables.schema;
        Err(Error::new(
            ErrorKind::Schema,
            format!(
                "the schema {schema} does not exist in this database, and nothing was created. If the name \
                 is right, run `create schema {schema}` or `pillarbox migrate --create-schema`"
            ),
        ))
    }

    /// What is to be run from here, names filled in.
    fn scripts(&self, tables: &Tables, options: &Options) -> Vec<Sql> {
        let always: Vec<_> =
            [INDEXES].into_iter().chain(options.causal_order.then_some(CAUSAL_INDEX)).collect();
        let scripts = self.tables.scripts(&MIGRATIONS, &always);
        let schema = (!self.schema && !scripts.is_empty()).then_some(CREATE_SCHEMA);
        schema.into_iter().chain(scripts).map(|script| Sql::new(script, tables)).collect()
    }
}

fn compare(
    table: &str,
    wanted: &[(&str, &str)],
    columns: &BTreeMap<String, BTreeMap<String, String>>,
) -> Vec<String> {
    let Some(found) = columns.get(table) else {
        return vec![format!("the table {table} is missing")];
    };
    wanted
        .iter()
        .filter_map(|(column, wanted)| match found.get(*column) {
            None => Some(format!("the column {column} of {table} is missing")),
            Some(kind) if kind != wanted => {
                Some(format!("the column {column} of {table} has the type {kind}, not {wanted}"))
            }
            Some(_) => None,
        })
        .collect()
}

async fn version(unit: &mut Unit, tables: &Tables) -> Result<u32> {
    let rows = unit.rows(&Sql::new(VERSION_OF, tables), Bind::new().done()?).await?;
    let version: i64 =
        rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(|error| classify(error, Phase::Before))?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

fn text(row: &PgRow, column: usize) -> Result<String> {
    row.try_get(column).map_err(|error| classify(error, Phase::Before))
}
