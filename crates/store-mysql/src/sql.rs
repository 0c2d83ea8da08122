//! The SQL of this crate: one file each, and the one place where a text with names in it becomes a query.

use std::sync::Arc;

use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Error, ErrorKind, Result, Timestamp, statements};
use pillarbox_host::{Call, Changed};
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection};

use crate::bind::{Bind, arguments};
use crate::error::{Phase, classify};
use crate::options::Options;
use crate::row::Cells;
use crate::statement::Value;
use crate::tables::Tables;

/// A statement with the names of the tables filled in, and the number of the value that stands in each of its places.
/// The files number their values, `?1` and so on, and the servers only know `?`.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    text: Arc<str>,
    places: Arc<[u16]>,
}

impl Sql {
    /// Fills the names in. They are the only part that is not a constant of this crate.
    pub(crate) fn new(template: &str, tables: &Tables) -> Self {
        Self::of(&tables.fill(template))
    }

    fn of(filled: &str) -> Self {
        let code = without_comments(filled);
        let (mut text, mut places) = (String::with_capacity(code.len()), Vec::new());
        let mut rest = code.as_str();
        while let Some((before, after)) = rest.split_once('?') {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            places.push(after[..digits].parse().unwrap_or(0));
            text.push_str(before);
            text.push('?');
            rest = &after[digits..];
        }
        text.push_str(rest);
        Self { text: text.into(), places: places.into() }
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Adds the text to those of a list.
    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        texts.push((name.to_owned(), self.text.to_string()));
    }

    /// The statement with its values.
    pub(crate) fn with(&self, bind: Bind) -> Result<Bound> {
        Bound::new(self.call(bind)?)
    }

    /// The same, for any driver.
    pub(crate) fn call(&self, bind: Bind) -> Result<Call<Value>> {
        Ok(Call::new(Arc::clone(&self.text), bind.placed(&self.places)?))
    }
}

/// A statement with its values. It may be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    sql: Arc<str>,
    arguments: MySqlArguments,
}

impl Bound {
    /// The statement of a call, whose text came from [`Sql::call`].
    pub(crate) fn new(call: Call<Value>) -> Result<Self> {
        Ok(Self { arguments: arguments(&call.values)?, sql: call.sql })
    }

    /// As the driver takes it.
    pub(crate) fn query(&self) -> Query<'static, MySql, MySqlArguments> {
        // Safe: the template is a constant and every name in it went through `Ident`.
        sqlx::query_with(AssertSqlSafe(Arc::clone(&self.sql)), self.arguments.clone())
    }

    /// Runs it in a transaction, or by itself.
    pub(crate) async fn execute(&self, connection: &mut MySqlConnection) -> Result<Changed> {
        self.execute_in(connection, Phase::Before).await
    }

    /// The same, where a lost connection means something else.
    pub(crate) async fn execute_in(&self, connection: &mut MySqlConnection, phase: Phase) -> Result<Changed> {
        let done = self.query().execute(connection).await.map_err(|error| classify(error, phase))?;
        Ok(Changed::rows(done.rows_affected()).told(done.last_insert_id()))
    }

    /// Reads its rows.
    pub(crate) async fn rows(&self, connection: &mut MySqlConnection) -> Result<Vec<MySqlRow>> {
        self.rows_in(connection, Phase::Before).await
    }

    pub(crate) async fn rows_in(
        &self,
        connection: &mut MySqlConnection,
        phase: Phase,
    ) -> Result<Vec<MySqlRow>> {
        self.query().fetch_all(connection).await.map_err(|error| classify(error, phase))
    }
}

/// A script of several statements without values, as migrations are.
pub(crate) fn script(text: &str) -> sqlx::RawSql {
    // Safe for the same reason.
    sqlx::raw_sql(AssertSqlSafe(text.to_owned()))
}

/// The text without its comments, which talk about values, too.
pub(crate) fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("-- ").next().unwrap_or_default().trim_end());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

impl Statements {
    /// The pinned time, or the database's.
    pub(crate) async fn now_or(
        &self,
        pinned: Option<Timestamp>,
        connection: &mut MySqlConnection,
    ) -> Result<Timestamp> {
        if let Some(now) = pinned {
            return Ok(now);
        }
        let rows = self.clock.with(Bind::new())?.rows(connection).await?;
        let now = rows.first().map_or(Ok(None), |row| Cells::of(row).time())?;
        now.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the clock of the database is before the year 1970 or after 9999; set the clock of its machine",
            )
        })
    }
}

/// One statement over the entries that an operator means, in a text for each way to find them.
#[derive(Debug)]
pub(crate) struct Meant {
    /// By their ids.
    pub(crate) ids: Sql,
    /// By their numbers, which `meant_lanes.sql` or `meant_back.sql` has told.
    pub(crate) front: Sql,
    /// By the index of live entries: many delivered ones may come before them.
    pub(crate) live: Sql,
    /// By the lanes of the dead, behind the first of each.
    pub(crate) blocked: Sql,
    /// By the index of those at their end, in which the dead are few.
    pub(crate) ended: Sql,
    /// In the order of staging.
    pub(crate) any: Sql,
}

impl Meant {
    fn new(template: &str, tables: &Tables) -> Self {
        let by = |scope: &str| Sql::of(&tables.fill(&tables.fill(template).replace("{scope}", scope)));
        let stored = "entry.status + 0 in (select seq from {seqs:2} as wanted)";
        Self {
            ids: by("json_table(?11, '$[*]' columns (id varchar(36) {text} path '$')) as named \
                 straight_join {outbox} as entry force index ({event_index}) on entry.event_id = unhex(replace(named.id, '-', ''))"),
            front: by(&format!(
                "json_table(?11, '$[*]' columns (seq bigint path '$')) as front \
                 straight_join {{outbox}} as entry force index (primary) on entry.seq = front.seq and {stored}"
            )),
            // Not a join with the statuses: with a million rows MySQL would begin with that, and read the index once for each.
            live: by("{outbox} as entry force index ({open_index}) inner join (select 1 as one) as one \
                 on entry.part in (1, 2) and json_contains(?2, cast(entry.status + 0 as char))"),
            blocked: by(&format!(
                "(select route, lane, min(seq) as seq from heads group by route, lane) as part \
                 straight_join {{outbox}} as entry force index ({{lane_index}}) \
                 on entry.live_lane = part.lane and entry.route = part.route and entry.seq > part.seq and {stored}"
            )),
            ended: by("{seqs:2} as wanted straight_join {outbox} as entry force index ({open_index}) \
                 on entry.part = wanted.seq"),
            any: by(&format!("{{outbox}} as entry inner join (select 1 as one) as one on {stored}")),
        }
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        for (way, sql) in [
            ("ids", &self.ids),
            ("front", &self.front),
            ("live", &self.live),
            ("blocked", &self.blocked),
            ("ended", &self.ended),
            ("any", &self.any),
        ] {
            sql.name(&format!("{name}.{way}"), texts);
        }
    }
}

/// One look in two texts.
#[derive(Debug)]
pub(crate) struct Lockable {
    /// Only looks.
    pub(crate) look: Sql,
    /// Keeps the rows until the transaction ends. What another transaction has locked is waited for, or left out if that
    /// transaction would not let go of it before its own end.
    pub(crate) lock: Sql,
}

impl Lockable {
    fn new(template: &str, tables: &Tables) -> Self {
        // A reap leaves alone what a relay is just settling; a saga is waited for.
        let lock = if template.contains("union all") { "\nfor update skip locked" } else { "\nfor update" };
        let with = |lock: &str| Sql::new(&template.replace("{lock}", lock), tables);
        Self { look: with(""), lock: with(lock) }
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        self.look.name(name, texts);
        self.lock.name(&format!("{name}.lock"), texts);
    }
}

/// A look at some lanes at once, in a text for each number of them: powers of two, so that few are prepared.
#[derive(Debug)]
pub(crate) struct PerLane([Sql; 7]);

impl PerLane {
    fn new(template: &str, tables: &Tables) -> Self {
        let arm = without_comments(&tables.fill(template));
        let values = Sql::of(&arm).places.iter().copied().max().map_or(0, usize::from);
        Self([0, 1, 2, 3, 4, 5, 6].map(|power| {
            let arms: Vec<String> = (0..1_usize << power)
                .map(|lane| {
                    let numbered = |text: String, value: usize| {
                        text.replace(&format!("?{value}"), &format!("?{{{}}}", lane * values + value))
                    };
                    (1..=values).fold(arm.clone(), numbered).replace(['{', '}'], "")
                })
                .collect();
            Sql::of(&arms.join("\nunion all\n"))
        }))
    }

    /// The text for at least this many lanes, and for how many it is.
    pub(crate) fn of(&self, lanes: usize) -> (&Sql, usize) {
        let power = usize::try_from(lanes.next_power_of_two().trailing_zeros()).unwrap_or(0);
        let power = power.min(self.0.len() - 1);
        (&self.0[power], 1 << power)
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        self.0[0].name(name, texts);
    }
}

/// A statement about rows or lanes by their numbers, in a text for each number of them: powers of two, so that few are prepared. The
/// numbers are values of the statement, because a join with a list takes the server half as long again.
#[derive(Debug)]
pub(crate) struct Listed([Sql; 12]);

/// Where the numbers stand in a text.
const LIST: &str = "{list}";

impl Listed {
    fn new(template: &str, tables: &Tables) -> Self {
        let text = without_comments(&tables.fill(template));
        // The numbers follow the other values.
        let values = Sql::of(&text).places.iter().copied().max().unwrap_or(0);
        Self([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(|power| {
            let list: Vec<String> = (1..=1_u16 << power).map(|n| format!("?{}", values + n)).collect();
            Sql::of(&text.replace(LIST, &list.join(", ")))
        }))
    }

    /// The statement for these rows, lowest first, so that two transactions do not wait for each other. Several, if there are
    /// more than one takes.
    pub(crate) fn with(&self, bind: &Bind, mut seqs: Vec<i64>) -> Result<Vec<Bound>> {
        seqs.sort_unstable();
        let most = 1 << (self.0.len() - 1);
        let bound = |seqs: &[i64]| {
            let power = usize::try_from(seqs.len().next_power_of_two().trailing_zeros()).unwrap_or(0);
            // What is left of the text's places names the last row again.
            let last = seqs.last().into_iter().cycle().take((1 << power) - seqs.len());
            self.0[power].with(seqs.iter().chain(last).fold(bind.clone(), |bind, seq| bind.number(*seq)))
        };
        seqs.chunks(most).map(bound).collect()
    }

    /// Runs it for these rows, and tells how many it changed.
    pub(crate) async fn execute(
        &self,
        bind: &Bind,
        seqs: Vec<i64>,
        connection: &mut MySqlConnection,
    ) -> Result<u64> {
        let mut rows = 0;
        for bound in self.with(bind, seqs)? {
            rows += bound.execute(connection).await?.rows;
        }
        Ok(rows)
    }

    fn name(&self, name: &str, texts: &mut Vec<(String, String)>) {
        self.0[2].name(name, texts);
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
        claim_back,
        claim_back_causal,
        claim_causal,
        claim_due,
        claim_lock,
        claim_staged,
        claim_suspects,
        claim_take: Listed,
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
        fence_lock,
        fence_of,
        fence_purge,
        fence_raise,
        fences_of,
        hasten,
        held,
        inbox_purge,
        inbox_purge_audit,
        inbox_purgeable,
        inventory,
        key_lane,
        lanes_all: Listed,
        lanes_alone,
        lanes_certify,
        lanes_expired,
        lanes_fetch: Listed,
        lanes_free,
        lanes_heads,
        lanes_held,
        lanes_holders,
        lanes_in_flight,
        lanes_isolate,
        lanes_join,
        lanes_leave,
        lanes_lock,
        lanes_make,
        lanes_note,
        lanes_of,
        lanes_open: PerLane,
        lanes_owners,
        lanes_renew,
        lanes_revise,
        lanes_sessions,
        lanes_sessions_count,
        lanes_settle_deleted: Listed,
        lanes_settle_delivered: Listed,
        lanes_settle_failed,
        lanes_settle_released,
        lanes_settleable,
        lanes_share,
        lanes_spend,
        lanes_take,
        lanes_waiting: PerLane,
        list: Meant,
        marked,
        marked_many,
        meant_back,
        meant_lanes: PerLane,
        pause,
        pause_audit,
        pause_of,
        packet,
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
        route_make,
        routes,
        saga_audit,
        saga_audit_write,
        saga_counts,
        saga_deleted,
        saga_entries: Lockable,
        saga_entry,
        saga_held,
        saga_known,
        saga_list,
        saga_move,
        saga_open,
        saga_purge,
        saga_purge_audit,
        saga_purgeable,
        saga_show: Lockable,
        saga_stage,
        saga_sweep,
        selected: Meant,
        selected_lock,
        serialize,
        serialize_end,
        settle_dead,
        settle_deleted: Listed,
        settle_delivered: Listed,
        settle_mixed,
        stage_fresh,
        stage_many,
        stage_one,
        stale: Lockable,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_values_become_places() {
        let sql = Sql::of("-- ?9 is talk\nselect ?2, ?1 -- ?3\nfrom t where a = ?2 and b = ?12");
        assert_eq!(sql.as_str(), "select ?, ?\nfrom t where a = ? and b = ?");
        assert_eq!(*sql.places, [2, 1, 2, 12]);
    }

    #[test]
    fn rows_are_named_by_powers_of_two() {
        let take = Statements::new(Tables::new(&Options::default())).claim_take;
        let bind = Bind::new().number(1).number(2).text("relay");
        // The other values stand before the numbers, some of them more than once.
        let values = take.0[0].places.len() - 1;
        let places = |seqs: usize| -> Vec<usize> {
            let bound = take.with(&bind, (0..).take(seqs).collect()).unwrap();
            bound.iter().map(|bound| bound.sql.matches('?').count() - values).collect()
        };
        assert_eq!((places(0), places(1), places(3)), (vec![], vec![1], vec![4]));
        assert_eq!(places(4200), [2048, 2048, 128]);
    }

    #[test]
    fn lanes_are_looked_at_by_powers_of_two() {
        let open = Statements::new(Tables::new(&Options::default())).lanes_open;
        for (lanes, arms) in [(1, 1), (3, 4), (64, 64)] {
            let (sql, found) = open.of(lanes);
            assert_eq!((found, sql.places.len()), (arms, arms * 3));
            let wanted: Vec<u16> =
                (1..=sql.places.len()).map(|place| u16::try_from(place).unwrap()).collect();
            assert_eq!(*sql.places, *wanted);
        }
    }
}
