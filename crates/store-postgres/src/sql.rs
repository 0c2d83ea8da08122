//! The SQL of this crate: one file each, and the one place where a text with names in it becomes a query.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Status, statements};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres};

use crate::options::{Options, Traffic};
use crate::tables::Tables;

/// The settings that make the planner use an index for a relay's calls.
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
    pub(crate) fn begin(options: &Options, line: Traffic) -> Self {
        let (lock, statement) = timeouts(options);
        let steer = if line == Traffic::Operator { "" } else { STEER };
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
    pub(crate) fn session(options: &Options, line: Traffic) -> Self {
        let (lock, statement) = timeouts(options);
        let steer = match line {
            Traffic::Operator => String::new(),
            Traffic::Relay | Traffic::Reserved => {
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

    /// The settings of a relay's calls, in this transaction: for what is found by the same indexes.
    pub(crate) fn as_relay() -> Self {
        Self(STEER.into())
    }

    /// For the statements of [`Meant`], in this transaction: few dead entries are expected to block a key, and there may be
    /// many, each of which would be compared with each entry.
    pub(crate) fn by_hash() -> Self {
        Self("set local enable_nestloop = off; set local jit = off".into())
    }

    /// The same for a page of them, which with old statistics would be looked for in the whole table.
    pub(crate) fn by_page() -> Self {
        Self("set local enable_nestloop = off; set local enable_seqscan = off; set local jit = off".into())
    }

    /// The end of [`by_page`](Self::by_page), for what follows in the same transaction.
    pub(crate) fn as_before() -> Self {
        Self(
            "set local enable_nestloop to default; set local enable_seqscan to default; \
             set local jit to default"
                .into(),
        )
    }

    /// Prepares the statement on the server, so that its plan can be asked for. `types` are those of its parameters.
    pub(crate) fn prepared(&self, types: &'static str) -> Self {
        // Constants, and names that went through `Ident`.
        Self(format!("prepare pillarbox_examined ({types}) as {}", self.0).into())
    }

    /// Asks for the plan of what was [prepared](Self::prepared). The plan is a generic one, so any values do.
    pub(crate) fn explain_prepared(types: &'static str) -> Self {
        let values = vec!["null"; types.split(',').count()].join(", ");
        Self(format!("explain (costs off) execute pillarbox_examined ({values})").into())
    }

    /// Forgets what was [prepared](Self::prepared).
    pub(crate) fn deallocate_prepared() -> Self {
        Self("deallocate pillarbox_examined".into())
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
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

/// How the entries that an operator means are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By their ids.
    Ids,
    /// A page in the order of staging, where the status says it all.
    Staged,
    /// The first of what is at its end, among the oldest entries: most of these are delivered where those are kept.
    Oldest,
    /// By the index of what is at its end, or in the order of staging if that is nearly everything.
    Ended,
    /// The first of what waits, by the index of what is open: many delivered ones may come before them, and many others wait
    /// behind them.
    Open,
    /// All that retry, by the same index.
    Retrying,
    /// By the lanes of the dead entries that block a key.
    Blocked,
    /// By the lanes that are held, and what was claimed as a row.
    InFlight,
    /// Everything with one of the statuses.
    All,
}

/// One statement over the entries that an operator means, in a text for each way to find them. The stored statuses stand in
/// the text, because the planner uses a partial index only if it knows them.
pub(crate) struct Meant([(Way, String); 9]);

/// Where the stored statuses stand in a text.
const STATUSES: &str = "{statuses}";

impl Meant {
    fn new(template: &'static str, tables: &Tables) -> Self {
        let by = |way: Way, scope: &str| {
            let scope = scope.replace("{wanted}", "array[{statuses}]::{status}[]");
            (way, tables.fill(&tables.fill(template).replace("{scope}", &scope)))
        };
        let all = include_str!("sql/meant_all.sql");
        let lanes = |dead: &str, part: &str, besides: &str| {
            let text = include_str!("sql/meant_lanes.sql").replace("{besides}", besides);
            text.replace("{dead}", dead).replace("{parts}", part)
        };
        let blocked = lanes(include_str!("sql/heads_open.sql"), include_str!("sql/part_blocked.sql"), "");
        let claimed = include_str!("sql/besides_claimed.sql");
        let in_flight = lanes("{heads_meant}", include_str!("sql/part_held.sql"), claimed);
        Self([
            by(Way::Ids, include_str!("sql/meant_ids.sql")),
            by(Way::Staged, include_str!("sql/meant_staged.sql")),
            by(Way::Oldest, include_str!("sql/meant_oldest.sql")),
            by(Way::Ended, &all.replace("{dead}", include_str!("sql/heads_none.sql"))),
            by(Way::Open, include_str!("sql/meant_open.sql")),
            by(Way::Retrying, include_str!("sql/meant_retrying.sql")),
            by(Way::Blocked, &blocked),
            by(Way::InFlight, &in_flight),
            by(Way::All, &all.replace("{dead}", "{heads}")),
        ])
    }

    /// The text that finds entries with these stored statuses in this way.
    pub(crate) fn of(&self, way: Way, statuses: &[Status]) -> Sql {
        let text = self.0.iter().find(|(known, _)| *known == way).map_or("", |(_, text)| text);
        let names: Vec<String> = statuses.iter().map(|status| format!("'{}'", status.as_str())).collect();
        Sql(text.replace(STATUSES, &names.join(", ")).into())
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        for (way, _) in &self.0 {
            let statuses: &[Status] = match way {
                Way::Ids | Way::Staged | Way::All => &Status::ALL,
                Way::Oldest => &[Status::Delivered],
                Way::Ended => &[Status::Dead],
                Way::Retrying => &[Status::Retrying],
                Way::Open | Way::Blocked => &[Status::Pending, Status::Retrying],
                Way::InFlight => &[Status::Pending, Status::InFlight, Status::Retrying],
            };
            self.of(*way, statuses).name(&format!("{name}.{way:?}"), texts);
        }
    }
}

statements! {
    /// What an outbox runs, in the application's own transaction.
    Staging { serialize, stage_one, stage_fresh, stage_lean, stage_many, saga_stage, saga_exists }
}

statements! {
    /// What an inbox runs, in the handler's own transaction.
    Accepting { accept, accept_many, accept_origin, fence_raise, fences_of, marked_many }
}

statements! {
    /// What a store runs.
    Statements {
        claim_staged,
        claim_suspects,
        claim_causal,
        extend,
        settle_delivered,
        settle_deleted,
        settle_mixed,
        settle_dead,
        saga_of_held,
        saga_write,
        saga_sweep,
        saga_open,
        saga_show,
        saga_entries,
        saga_audit,
        saga_list,
        saga_counts,
        saga_purge,
        saga_purgeable,
        audit_subject,
        reap,
        stale,
        routes,
        counts,
        counts_blocked,
        count_by: Meant,
        list: Meant,
        readers,
        inventory,
        audit,
        audit_of,
        requeue,
        discard,
        hasten,
        pauses,
        pause_lock,
        pause_set,
        selected: Meant,
        purge,
        purgeable,
        recent_ended,
        recent_accepted,
        waits,
        inbox_purge,
        inbox_purgeable,
        announce,
        withdraw,
        relays,
        lanes_backlog,
        lanes_bury,
        lanes_counts,
        lanes_heads,
        lanes_isolate,
        lanes_live,
        lanes_settled,
        lanes_expired,
        lanes_fetch,
        lanes_hand_over,
        lanes_holders,
        lanes_join,
        lanes_leave,
        lanes_lock,
        lanes_make,
        lanes_mend,
        lanes_mark,
        lanes_note,
        lanes_probe,
        lanes_read,
        lanes_recent,
        lanes_renew,
        lanes_settle_deleted,
        lanes_settle_delivered,
        lanes_settle_mixed,
        lanes_share,
    }
}

/// Every statement by its name, with the names of the tables filled in. For tests of query plans.
#[doc(hidden)]
#[must_use]
pub fn statements(options: &Options) -> Vec<(String, String)> {
    let tables = Tables::new(options);
    let mut all = Staging::new(tables.clone()).named();
    all.extend(Accepting::new(tables.clone()).named());
    all.extend(Statements::new(tables).named());
    all
}
