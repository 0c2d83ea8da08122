//! Every statement, with its names filled in once; and the one place that vouches for SQL text that was built
//! at run time.

use std::sync::Arc;

use pillarbox_core::{Error, ErrorKind, Result, Timestamp};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Row, Sqlite, SqliteConnection};

use crate::error::classify;
use crate::options::Options;
use crate::tables::Tables;

/// A statement ready to bind values to.
///
/// Safe: the text is a constant of this crate in which only quoted identifiers were filled in.
pub(crate) fn query(sql: &Arc<str>) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
}

/// A script of several statements without values, as migrations are.
///
/// Safe for the same reason as [`query`].
pub(crate) fn script(sql: &Arc<str>) -> sqlx::RawSql {
    sqlx::raw_sql(AssertSqlSafe(Arc::clone(sql)))
}

impl Statements {
    /// The database's clock.
    pub(crate) async fn now(&self, connection: &mut SqliteConnection) -> Result<Timestamp> {
        let row = query(&self.clock).fetch_one(connection).await.map_err(classify)?;
        timestamp(row.try_get_unchecked(0).map_err(classify)?)
    }
}

/// A time that the database's clock has shown.
pub(crate) fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_micros(micros).ok_or_else(|| {
        Error::new(ErrorKind::Internal, "the clock of the database is before 1970 or after 9999")
    })
}

/// One statement over the entries that an operator means, in a text for each way to find them: SQLite uses a partial
/// index only where its very condition is in the text.
#[derive(Debug)]
pub(crate) struct Meant {
    /// By their ids.
    pub(crate) ids: Arc<str>,
    /// By the indexes of live entries: many delivered ones may come before them.
    pub(crate) live: Arc<str>,
    /// By the index of those at their end, in which the dead are few.
    pub(crate) ended: Arc<str>,
    /// In the order of staging.
    pub(crate) any: Arc<str>,
}

impl Meant {
    fn new(template: &str, tables: &Tables) -> Self {
        let by = |scope: &str| tables.fill(&tables.fill(template).replace("{scope}", scope));
        let stored = "status in (select value from json_each(?2))";
        Self {
            ids: by("event_id in (select value from json_each(?11))"),
            live: by(&format!(
                "seq in (select seq from {{outbox}} where due_at is null and {{live}} and {stored} \
                 union all select seq from {{outbox}} where due_at is not null and {stored})"
            )),
            ended: by(&format!("{{ended}} and {stored}")),
            any: by(stored),
        }
    }
}

macro_rules! statements {
    ($($name:ident),+ $(,)?; $($returning:ident = $base:ident),+ $(,)?) => {
        /// The statements of one outbox. Each is the file of its name under `sql/`; the last ones are such a file
        /// that also tells which rows it changed.
        #[derive(Debug)]
        pub(crate) struct Statements {
            pub(crate) tables: Tables,
            $(pub(crate) $name: Arc<str>,)+
            $(pub(crate) $returning: Arc<str>,)+
            pub(crate) list: Meant,
            pub(crate) count_by: Meant,
            pub(crate) selected: Meant,
        }

        impl Statements {
            /// Fills in the names that these settings mean.
            pub(crate) fn new(options: &Options) -> Self {
                let tables = Tables::new(options);
                Self {
                    $($name: tables.fill(include_str!(concat!("sql/", stringify!($name), ".sql"))),)+
                    $($returning: tables.fill(concat!(
                        include_str!(concat!("sql/", stringify!($base), ".sql")),
                        "returning seq, fence\n",
                    )),)+
                    list: Meant::new(include_str!("sql/list.sql"), &tables),
                    count_by: Meant::new(include_str!("sql/count_by.sql"), &tables),
                    selected: Meant::new(include_str!("sql/selected.sql"), &tables),
                    tables,
                }
            }
        }
    };
}

statements! {
    accept,
    announce,
    audit,
    audit_of,
    audit_subject,
    change_audit,
    claim_causal,
    claim_staged,
    claim_suspects,
    claimable,
    clock,
    announce_route,
    count_blocked,
    count_due,
    count_ended,
    count_handed,
    count_ready,
    created,
    discard,
    extend,
    hasten,
    fence_of,
    fence_purge,
    fence_raise,
    inbox_purge,
    inbox_purge_audit,
    inbox_purgeable,
    inventory,
    lanes_heads,
    lanes_expired,
    lanes_fetch,
    lanes_free,
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
    marked,
    pause,
    pause_audit,
    pauses,
    purge,
    purge_audit,
    purgeable,
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
    serialize,
    settle_dead,
    settle_deleted,
    settle_delivered,
    settle_mixed,
    stage_many,
    stage_newest,
    stage_one,
    stale,
    suspects,
    sweep,
    withdraw;
    settle_deleted_told = settle_deleted,
    settle_delivered_told = settle_delivered,
}
