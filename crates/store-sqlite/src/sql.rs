//! The SQL of this crate: one file each, and the one place where a text with names in it becomes a query.

use std::sync::Arc;

use pillarbox_core::{Error, ErrorKind, Result, Timestamp, statements};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Row, Sqlite, SqliteConnection};

use crate::error::classify;
use crate::options::Options;
use crate::tables::Tables;

/// A statement with the names of the tables filled in.
#[derive(Clone, Debug)]
pub(crate) struct Sql(Arc<str>);

impl Sql {
    /// Fills the names in. They are the only part that is not a constant of this crate.
    pub(crate) fn new(template: &str, tables: &Tables) -> Self {
        Self(tables.fill(template).into())
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Asks for the plan of a statement of this crate. Its parameters stay null: the plan does not look at them.
    pub(crate) fn explaining(statement: &str) -> Self {
        // Safe: the text is one of `named`, so its template is a constant and its names went through `Ident`.
        Self(["explain query plan ", statement].concat().into())
    }

    /// The text for a driver that runs it.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The statement of a call, whose text came from [`shared`](Self::shared).
    pub(crate) fn again(text: Arc<str>) -> Self {
        Self(text)
    }

    /// Adds the text to those of a list.
    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        texts.push((name.to_owned(), self.0.to_string()));
    }

    /// The statement with its values bound.
    pub(crate) fn with(&self, arguments: SqliteArguments) -> Query<'static, Sqlite, SqliteArguments> {
        // Safe: the template is a constant and every name in it went through `Ident`.
        sqlx::query_with(AssertSqlSafe(Arc::clone(&self.0)), arguments)
    }

    /// The text as a script without parameters, of several statements, as migrations are.
    pub(crate) fn script(&self) -> sqlx::RawSql {
        // Safe for the same reason.
        sqlx::raw_sql(AssertSqlSafe(Arc::clone(&self.0)))
    }
}

/// A statement ready to bind values to.
pub(crate) fn query(sql: &Sql) -> Query<'static, Sqlite, SqliteArguments> {
    sql.with(SqliteArguments::default())
}

impl Statements {
    /// The pinned time, or the database's.
    pub(crate) async fn now_or(
        &self,
        pinned: Option<Timestamp>,
        connection: &mut SqliteConnection,
    ) -> Result<Timestamp> {
        match pinned {
            Some(now) => Ok(now),
            None => self.now(connection).await,
        }
    }

    /// The database's clock.
    pub(crate) async fn now(&self, connection: &mut SqliteConnection) -> Result<Timestamp> {
        let row = query(&self.clock).fetch_one(connection).await.map_err(classify)?;
        timestamp(row.try_get_unchecked(0).map_err(classify)?)
    }
}

/// A time that the database's clock has shown.
pub(crate) fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_micros(micros).ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the clock of the database is before the year 1970 or after 9999; set the clock of the machine",
        )
    })
}

/// One statement over the entries that an operator means, in a text for each way to find them: SQLite uses a
/// partial index only where its very condition is in the text.
#[derive(Debug)]
pub(crate) struct Meant {
    /// By their ids.
    pub(crate) ids: Sql,
    /// By lanes: many delivered ones may come before them, and many others wait behind them.
    pub(crate) waiting: Sql,
    /// By the index of what failed, which is little.
    pub(crate) failed: Sql,
    /// In the order of staging.
    pub(crate) any: Sql,
}

impl Meant {
    fn new(template: &str, tables: &Tables) -> Self {
        // A page has a limit, and then reads the rows of what it found. A count goes through each of them.
        let ways = |page: &str, each: &str| {
            Sql::new(&template.replace("{scope}", page).replace("{each}", each), tables)
        };
        let by = |scope: &str| ways(scope, scope);
        Self {
            ids: by("entry.event_id in (select value from json_each(?11)) and {matching}"),
            waiting: by(include_str!("sql/meant_waiting.sql")),
            failed: ways(include_str!("sql/meant_failed.sql"), "{failed} and {matching}"),
            any: by("{matching}"),
        }
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        let ways =
            [("ids", &self.ids), ("waiting", &self.waiting), ("failed", &self.failed), ("any", &self.any)];
        ways.into_iter().for_each(|(way, sql)| sql.name(&format!("{name}.{way}"), texts));
    }
}

/// One statement in two texts: SQLite sorts by an index only if the text has its very order.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// By priority, in the order of staging.
    pub(crate) staged: Sql,
    /// By clock stamps.
    pub(crate) causal: Sql,
}

impl Ordered {
    fn new(template: &str, tables: &Tables) -> Self {
        let by = |order: &str| Sql::new(&template.replace("{order}", order), tables);
        Self {
            staged: by("priority, seq"),
            causal: by("coalesce(hlc, 9223372036854775807), created_at, seq"),
        }
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        self.staged.name(&format!("{name}.staged"), texts);
        self.causal.name(&format!("{name}.causal"), texts);
    }
}

/// One statement in two texts: counting the changed rows costs half of having each of them told.
#[derive(Debug)]
pub(crate) struct Told {
    /// Only changes.
    pub(crate) plain: Sql,
    /// Also tells which claims it changed.
    pub(crate) told: Sql,
}

impl Told {
    fn new(template: &str, tables: &Tables) -> Self {
        let told = Sql::new(&[template, "returning seq, fence\n"].concat(), tables);
        Self { plain: Sql::new(template, tables), told }
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        self.plain.name(name, texts);
        self.told.name(&format!("{name}.told"), texts);
    }
}

statements! {
    /// What an outbox, an inbox and a store run.
    Statements {
        accept,
        accept_many,
        announce,
        announce_route,
        audit,
        audit_of,
        audit_subject,
        change_audit,
        change_told,
        claim: Ordered,
        claim_suspects,
        claimable,
        clock,
        count_blocked,
        count_by: Meant,
        count_due,
        count_ended,
        count_handed,
        count_ready,
        created,
        discard,
        extend,
        fence_of,
        fence_purge,
        fence_raise,
        fences_of,
        hasten,
        inbox_purge,
        inbox_purge_audit,
        inbox_purgeable,
        inventory,
        lanes_backlog,
        lanes_expired,
        lanes_fetch,
        lanes_free,
        lanes_heads,
        lanes_held,
        lanes_in_flight,
        lanes_isolate,
        lanes_join,
        lanes_leave,
        lanes_make,
        lanes_next,
        lanes_note,
        lanes_owners,
        lanes_passed,
        lanes_renew,
        lanes_revise,
        lanes_sessions,
        lanes_sessions_count,
        lanes_settle_deleted,
        lanes_settle_delivered,
        lanes_settle_failed,
        lanes_settle_released,
        lanes_settleable,
        lanes_spend,
        lanes_take,
        list: Meant,
        marked,
        marked_many,
        pause,
        pause_audit,
        pauses,
        purge,
        purge_audit,
        purgeable,
        recent_ended,
        recent_accepted,
        reap,
        reap_audit,
        relays,
        requeue,
        resume,
        routes,
        saga_audit,
        saga_audit_write,
        saga_counts,
        saga_deleted,
        saga_entries,
        saga_entry,
        saga_held,
        saga_list,
        saga_move,
        saga_open,
        saga_purge,
        saga_purge_audit,
        saga_purgeable,
        saga_show,
        saga_stage,
        saga_sweep,
        selected: Meant,
        serialize,
        settle_dead,
        settle_deleted: Told,
        settle_delivered: Told,
        settle_mixed,
        stage_many,
        stage_newest,
        stage_one,
        stale,
        suspects,
        sweep,
        waits,
        withdraw,
    }
}

/// Every statement by its name, with the names of the tables filled in. For tests of query plans.
#[doc(hidden)]
#[must_use]
pub fn statements(options: &Options) -> Vec<(String, String)> {
    Statements::new(Tables::new(options)).named()
}
