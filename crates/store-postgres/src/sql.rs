//! The SQL of this crate: one file each, and the one place where a text with names in it becomes a query.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres};

use crate::call::Line;
use crate::options::Options;
use crate::tables::Tables;

/// How the planner is told that a relay's calls go by an index.
const STEER: &str = include_str!("sql/steer.sql");

/// How long a process may think between two statements of one transaction before the server ends it: one that froze
/// does not hold its locks for ever.
const FROZEN_MILLIS: u32 = 10_000;

/// The lock and the statement timeout in milliseconds. Zero would mean none, and more than 2^31 is refused.
fn timeouts(options: &Options) -> (i32, i32) {
    let millis = |timeout: Duration| i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    (millis(options.lock_timeout), millis(options.statement_timeout))
}

/// A statement with the names of the tables filled in.
#[derive(Clone)]
pub(crate) struct Sql(Arc<str>);

impl Sql {
    /// Fills the names in. They are the only part that is not a constant of this crate.
    pub(crate) fn new(template: &'static str, tables: &Tables) -> Self {
        Self(tables.fill(template).into())
    }

    /// Begins a transaction with the timeouts of a call; for a relay also with its [`STEER`].
    pub(crate) fn begin(options: &Options, line: Line) -> Self {
        let (lock, statement) = timeouts(options);
        let steer = if line == Line::Operator { "" } else { STEER };
        // Numbers and constants only.
        Self(
            format!(
                "begin isolation level read committed; \
                 set local lock_timeout = {lock}; set local statement_timeout = {statement}; \
                 set local idle_in_transaction_session_timeout = {FROZEN_MILLIS};\n{steer}"
            )
            .into(),
        )
    }

    /// The same for a whole session. The isolation of applications is their own affair.
    pub(crate) fn session(options: &Options, line: Line) -> Self {
        let (lock, statement) = timeouts(options);
        let steer = match line {
            Line::Operator => String::new(),
            Line::Relay | Line::Reserved => {
                format!(
                    "set default_transaction_isolation = 'read committed';\n{}",
                    STEER.replace("set local", "set")
                )
            }
        };
        // Numbers and constants only.
        Self(format!("set lock_timeout = {lock}; set statement_timeout = {statement};\n{steer}").into())
    }

    /// Keeps the planner of this transaction from reading a table where its indexes have the answer, and all its
    /// statements at one moment.
    pub(crate) fn by_index() -> Self {
        Self(
            "set transaction isolation level repeatable read; \
             set local enable_seqscan = off; set local enable_bitmapscan = off"
                .into(),
        )
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The statement with its values bound.
    pub(crate) fn with(&self, arguments: PgArguments) -> Query<'static, Postgres, PgArguments> {
        // Safe: the template is a constant and every name in it went through `Ident`.
        sqlx::query_with(AssertSqlSafe(Arc::clone(&self.0)), arguments)
    }

    /// The text as what begins a transaction of the driver's.
    pub(crate) fn beginning(&self) -> AssertSqlSafe<Arc<str>> {
        // Safe for the same reason.
        AssertSqlSafe(Arc::clone(&self.0))
    }

    /// The text as a script without parameters, sent by the simple protocol.
    pub(crate) fn script(&self) -> sqlx::RawSql {
        // Safe for the same reason.
        sqlx::raw_sql(AssertSqlSafe(Arc::clone(&self.0)))
    }
}

/// What takes the turn of a key.
pub(crate) const SERIALIZE: &str = include_str!("sql/serialize.sql");
/// What staging runs.
pub(crate) const STAGE_ONE: &str = include_str!("sql/stage_one.sql");
/// What staging one under an id of the library's runs.
pub(crate) const STAGE_FRESH: &str = include_str!("sql/stage_fresh.sql");
/// What staging one of the common kind under an id of the library's runs.
pub(crate) const STAGE_LEAN: &str = include_str!("sql/stage_lean.sql");
/// What staging many runs.
pub(crate) const STAGE_MANY: &str = include_str!("sql/stage_many.sql");
/// What staging a saga runs.
pub(crate) const SAGA_STAGE: &str = include_str!("sql/saga_stage.sql");
/// What staging a saga runs when it was not written.
pub(crate) const SAGA_EXISTS: &str = include_str!("sql/saga_exists.sql");
/// What accepting runs.
pub(crate) const ACCEPT: &str = include_str!("sql/accept.sql");
/// What accepting runs for an event from a lane.
pub(crate) const ACCEPT_ORIGIN: &str = include_str!("sql/accept_origin.sql");
/// What accepting runs for the first event of a lane's new owner.
pub(crate) const FENCE_RAISE: &str = include_str!("sql/fence_raise.sql");

/// What a store runs.
pub(crate) struct Statements {
    pub(crate) claim_staged: Sql,
    pub(crate) claim_suspects: Sql,
    pub(crate) claim_causal: Sql,
    pub(crate) extend: Sql,
    pub(crate) settle_delivered: Sql,
    pub(crate) settle_deleted: Sql,
    pub(crate) settle_mixed: Sql,
    pub(crate) settle_dead: Sql,
    pub(crate) saga_of_held: Sql,
    pub(crate) saga_write: Sql,
    pub(crate) saga_sweep: Sql,
    pub(crate) saga_open: Sql,
    pub(crate) saga_show: Sql,
    pub(crate) saga_entries: Sql,
    pub(crate) saga_audit: Sql,
    pub(crate) saga_list: Sql,
    pub(crate) saga_counts: Sql,
    pub(crate) saga_purge: Sql,
    pub(crate) saga_purgeable: Sql,
    pub(crate) audit_subject: Sql,
    pub(crate) reap: Sql,
    pub(crate) stale: Sql,
    pub(crate) routes: Sql,
    pub(crate) counts: Sql,
    pub(crate) counts_blocked: Sql,
    pub(crate) count_by: Sql,
    pub(crate) list: Sql,
    pub(crate) readers: Sql,
    pub(crate) inventory: Sql,
    pub(crate) audit: Sql,
    pub(crate) audit_of: Sql,
    pub(crate) requeue: Sql,
    pub(crate) discard: Sql,
    pub(crate) hasten: Sql,
    pub(crate) pauses: Sql,
    pub(crate) pause_lock: Sql,
    pub(crate) pause_set: Sql,
    pub(crate) selected: Sql,
    pub(crate) purge: Sql,
    pub(crate) purgeable: Sql,
    pub(crate) inbox_purge: Sql,
    pub(crate) inbox_purgeable: Sql,
    pub(crate) announce: Sql,
    pub(crate) withdraw: Sql,
    pub(crate) relays: Sql,
    pub(crate) lanes_bury: Sql,
    pub(crate) lanes_counts: Sql,
    pub(crate) lanes_heads: Sql,
    pub(crate) lanes_isolate: Sql,
    pub(crate) lanes_live: Sql,
    pub(crate) lanes_settled: Sql,
    pub(crate) lanes_expired: Sql,
    pub(crate) lanes_fetch: Sql,
    pub(crate) lanes_hand_over: Sql,
    pub(crate) lanes_join: Sql,
    pub(crate) lanes_leave: Sql,
    pub(crate) lanes_lock: Sql,
    pub(crate) lanes_make: Sql,
    pub(crate) lanes_mend: Sql,
    pub(crate) lanes_mark: Sql,
    pub(crate) lanes_note: Sql,
    pub(crate) lanes_probe: Sql,
    pub(crate) lanes_read: Sql,
    pub(crate) lanes_recent: Sql,
    pub(crate) lanes_renew: Sql,
    pub(crate) lanes_settle_deleted: Sql,
    pub(crate) lanes_settle_delivered: Sql,
    pub(crate) lanes_settle_mixed: Sql,
    pub(crate) lanes_share: Sql,
}

impl Statements {
    pub(crate) fn new(tables: &Tables) -> Self {
        let sql = |template| Sql::new(template, tables);
        Self {
            claim_staged: sql(include_str!("sql/claim_staged.sql")),
            claim_suspects: sql(include_str!("sql/claim_suspects.sql")),
            claim_causal: sql(include_str!("sql/claim_causal.sql")),
            extend: sql(include_str!("sql/extend.sql")),
            settle_delivered: sql(include_str!("sql/settle_delivered.sql")),
            settle_deleted: sql(include_str!("sql/settle_deleted.sql")),
            settle_mixed: sql(include_str!("sql/settle_mixed.sql")),
            settle_dead: sql(include_str!("sql/settle_dead.sql")),
            saga_of_held: sql(include_str!("sql/saga_of_held.sql")),
            saga_write: sql(include_str!("sql/saga_write.sql")),
            saga_sweep: sql(include_str!("sql/saga_sweep.sql")),
            saga_open: sql(include_str!("sql/saga_open.sql")),
            saga_show: sql(include_str!("sql/saga_show.sql")),
            saga_entries: sql(include_str!("sql/saga_entries.sql")),
            saga_audit: sql(include_str!("sql/saga_audit.sql")),
            saga_list: sql(include_str!("sql/saga_list.sql")),
            saga_counts: sql(include_str!("sql/saga_counts.sql")),
            saga_purge: sql(include_str!("sql/saga_purge.sql")),
            saga_purgeable: sql(include_str!("sql/saga_purgeable.sql")),
            audit_subject: sql(include_str!("sql/audit_subject.sql")),
            reap: sql(include_str!("sql/reap.sql")),
            stale: sql(include_str!("sql/stale.sql")),
            routes: sql(include_str!("sql/routes.sql")),
            counts: sql(include_str!("sql/counts.sql")),
            counts_blocked: sql(include_str!("sql/counts_blocked.sql")),
            count_by: sql(include_str!("sql/count_by.sql")),
            list: sql(include_str!("sql/list.sql")),
            readers: sql(include_str!("sql/readers.sql")),
            inventory: sql(include_str!("sql/inventory.sql")),
            audit: sql(include_str!("sql/audit.sql")),
            audit_of: sql(include_str!("sql/audit_of.sql")),
            requeue: sql(include_str!("sql/requeue.sql")),
            discard: sql(include_str!("sql/discard.sql")),
            hasten: sql(include_str!("sql/hasten.sql")),
            pauses: sql(include_str!("sql/pauses.sql")),
            pause_lock: sql(include_str!("sql/pause_lock.sql")),
            pause_set: sql(include_str!("sql/pause_set.sql")),
            selected: sql(include_str!("sql/selected.sql")),
            purge: sql(include_str!("sql/purge.sql")),
            purgeable: sql(include_str!("sql/purgeable.sql")),
            inbox_purge: sql(include_str!("sql/inbox_purge.sql")),
            inbox_purgeable: sql(include_str!("sql/inbox_purgeable.sql")),
            announce: sql(include_str!("sql/announce.sql")),
            withdraw: sql(include_str!("sql/withdraw.sql")),
            relays: sql(include_str!("sql/relays.sql")),
            lanes_bury: sql(include_str!("sql/lanes_bury.sql")),
            lanes_counts: sql(include_str!("sql/lanes_counts.sql")),
            lanes_heads: sql(include_str!("sql/lanes_heads.sql")),
            lanes_isolate: sql(include_str!("sql/lanes_isolate.sql")),
            lanes_live: sql(include_str!("sql/lanes_live.sql")),
            lanes_settled: sql(include_str!("sql/lanes_settled.sql")),
            lanes_expired: sql(include_str!("sql/lanes_expired.sql")),
            lanes_fetch: sql(include_str!("sql/lanes_fetch.sql")),
            lanes_hand_over: sql(include_str!("sql/lanes_hand_over.sql")),
            lanes_join: sql(include_str!("sql/lanes_join.sql")),
            lanes_leave: sql(include_str!("sql/lanes_leave.sql")),
            lanes_lock: sql(include_str!("sql/lanes_lock.sql")),
            lanes_make: sql(include_str!("sql/lanes_make.sql")),
            lanes_mend: sql(include_str!("sql/lanes_mend.sql")),
            lanes_mark: sql(include_str!("sql/lanes_mark.sql")),
            lanes_note: sql(include_str!("sql/lanes_note.sql")),
            lanes_probe: sql(include_str!("sql/lanes_probe.sql")),
            lanes_read: sql(include_str!("sql/lanes_read.sql")),
            lanes_recent: sql(include_str!("sql/lanes_recent.sql")),
            lanes_renew: sql(include_str!("sql/lanes_renew.sql")),
            lanes_settle_deleted: sql(include_str!("sql/lanes_settle_deleted.sql")),
            lanes_settle_delivered: sql(include_str!("sql/lanes_settle_delivered.sql")),
            lanes_settle_mixed: sql(include_str!("sql/lanes_settle_mixed.sql")),
            lanes_share: sql(include_str!("sql/lanes_share.sql")),
        }
    }
}
