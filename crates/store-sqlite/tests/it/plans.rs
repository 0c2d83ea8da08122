//! The query plans, at a backlog of 200,000: what runs for every batch must not depend on how much waits.
//!
//! Asked with no statistics, with stale ones (from when the table was nearly empty) and with fresh ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillarbox_core::port::{
    Admin as _, AttendRequest, ClaimOrder, ClaimRequest, LANES, LaneCursor, LaneWish, Lanes, ReadRequest,
    SessionId, Store,
};
use pillarbox_core::{RouteName, Status};
use pillarbox_store_sqlite::{Options, SqliteStore, statements};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Row};
use tempfile::TempDir;

use crate::steps::{ROUTE, wish};

const BACKLOG: &str = "insert into pillarbox_outbox (route, type, payload, hlc, lane) \
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 200000) \
    select iif(i % 10, 'orders', 'mails'), 't', '0', i, i % 64 from n";

/// A migrated store with one connection, because each has read the statistics at a time of its own; and its
/// statements.
struct Planned {
    store: SqliteStore,
    statements: BTreeMap<String, String>,
}

impl Planned {
    async fn new(directory: &TempDir) -> Self {
        let file = directory.path().join("plans.db");
        let connect = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(connect).await.unwrap();
        let options = Options::default().causal_order(true);
        let store = SqliteStore::new(pool, options.clone()).unwrap();
        let _ = store.migrate().await.unwrap();
        Self { store, statements: statements(&options).into_iter().collect() }
    }

    async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(self.store.pool()).await.unwrap();
    }

    /// What the planner says it will do, a line a step.
    async fn plan(&self, name: &str) -> Vec<String> {
        let sql = ["explain query plan ", &self.statements[name]].concat();
        // Unbound parameters are null; the plan does not look at them.
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(self.store.pool()).await.unwrap();
        rows.iter().map(|row| row.get_unchecked(3)).collect()
    }
}

/// Every look at the outbox or at sagas goes by one of these; nothing is sorted unless `sorts` says so.
async fn check(planned: &Planned, when: &str, name: &str, wanted: &[&str], sorts: bool) {
    let plan = planned.plan(name).await;
    let shown = format!("{name}:\n{}", plan.join("\n"));
    for step in plan.iter().filter(|step| is_of_outbox(step)) {
        assert!(wanted.iter().any(|wanted| step.contains(wanted)), "{when}: {step:?} in {shown}");
        assert!(!step.starts_with("SCAN") || step.contains("INDEX"), "{when}: {step:?} in {shown}");
    }
    for wanted in wanted {
        assert!(plan.iter().any(|step| step.contains(wanted)), "{when}: {wanted:?} is not in {shown}");
    }
    assert!(sorts || !shown.contains("TEMP B-TREE"), "{when}: sorts in {shown}");
}

/// Whether a step looks at the outbox or at sagas; who holds which lane is another table of a few rows.
fn is_of_outbox(step: &str) -> bool {
    let few = ["pillarbox_lane", "pillarbox_route_state", " held ", " reader "]
        .iter()
        .any(|table| step.contains(table));
    let word = |word: &str| step.split(' ').any(|other| other == word);
    !few && (step.contains("pillarbox_") || word("entry") || word("saga"))
}

async fn check_all(planned: &Planned, when: &str) {
    let (row, ready, due) = (
        "USING INTEGER PRIMARY KEY (rowid=?)",
        "USING INDEX pillarbox_outbox_ready (route=?)",
        "USING COVERING INDEX pillarbox_outbox_due (route=? AND due_at",
    );
    let causal = "USING INDEX pillarbox_outbox_causal (route=?)";
    check(planned, when, "claim.staged", &[row, ready, due], false).await;
    check(planned, when, "claim.causal", &[row, causal, due], false).await;
    check(planned, when, "claimable", &["USING INDEX pillarbox_outbox_", due], false).await;
    check_sagas(planned, when).await;
    for sql in [
        "extend",
        "claim_suspects",
        "settle_mixed",
        "settle_dead",
        "settle_delivered",
        "settle_deleted",
        "reap",
    ] {
        check(planned, when, sql, &[row], false).await;
    }
    let stuck = "USING INDEX pillarbox_outbox_stuck (route=?)";
    check(planned, when, "stale", &[row, stuck, due, "USING INDEX pillarbox_outbox_due (route=?"], false)
        .await;
    check(planned, when, "suspects", &[stuck], false).await;
    check(planned, when, "routes", &["pillarbox_outbox_due", "pillarbox_outbox_stuck"], true).await;
    let ended = "USING COVERING INDEX pillarbox_outbox_ended (status=? AND settled_at";
    check(planned, when, "purgeable", &[ended], false).await;
    check(planned, when, "purge", &[ended, row], false).await;
    let age = "USING COVERING INDEX pillarbox_inbox_age (accepted_at<?)";
    check(planned, when, "inbox_purgeable", &[age], false).await;
    let mark = "USING PRIMARY KEY (consumer=? AND event_id=?)";
    check(planned, when, "inbox_purge", &[age, mark], false).await;
    check(planned, when, "marked", &[mark], false).await;
    check(planned, when, "fence_of", &["USING PRIMARY KEY (consumer=? AND lane=?)"], false).await;
    // Counting goes over an index and never over rows; grouping it takes a little tree of routes.
    check(planned, when, "count_ready", &["USING COVERING INDEX pillarbox_outbox_ready"], true).await;
    check(planned, when, "count_due", &["USING COVERING INDEX pillarbox_outbox_due"], true).await;
    check(planned, when, "count_ended", &["USING COVERING INDEX pillarbox_outbox_ended"], true).await;
    let counted = planned.plan("count_ended").await;
    assert!(
        !counted.iter().any(|step| step.contains("ORDER BY")),
        "{when}: the newest are sorted: {counted:?}"
    );
    // What ended or was accepted lately is found by its time.
    let ended = "USING COVERING INDEX pillarbox_outbox_ended (status=? AND settled_at>?)";
    check(planned, when, "recent_ended", &[ended], true).await;
    let newest = "USING COVERING INDEX pillarbox_outbox_ended (status=? AND settled_at>? AND settled_at<?)";
    check(planned, when, "waits", &[newest, row], false).await;
    let accepted = "INDEX pillarbox_inbox_age (accepted_at>?)";
    check(planned, when, "recent_accepted", &[accepted], true).await;
    // What an operator means is found by its ids, by the index of its status, or lane by lane, so that a page costs as
    // much whatever waits behind it. Each entry is compared with the dead ones of its key, and with the saga of a step.
    let event = "USING INDEX sqlite_autoindex_pillarbox_outbox_1 (event_id=?)";
    let (failed, saga) = ("USING COVERING INDEX pillarbox_outbox_failed", "USING PRIMARY KEY (id=?)");
    let head = "USING COVERING INDEX pillarbox_outbox_dead (route=? AND lane=? AND key=? AND seq<?)";
    check(planned, when, "list.ids", &[event, head, row], true).await;
    check(planned, when, "list.failed", &[failed, head, row], false).await;
    // Groups of what failed need its index alone.
    check(planned, when, "count_by.failed", &[failed, head], true).await;
    check(planned, when, "selected.ids", &[event, head, saga], true).await;
    check(planned, when, "selected.failed", &[failed, head, row, saga], true).await;
    let waiting = [
        "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq>? AND seq<?)",
        "SEARCH pillarbox_outbox USING INDEX pillarbox_outbox_lane",
        "USING COVERING INDEX pillarbox_outbox_dead (route=? AND lane=? AND key>?)",
        "INDEX pillarbox_outbox_stuck",
        "INDEX pillarbox_outbox_due",
        head,
        row,
    ];
    check(planned, when, "list.waiting", &waiting, false).await;
    check(planned, when, "selected.waiting", &[&waiting[..], &[saga]].concat(), false).await;
    // Either index of dead entries will do.
    let dead = "SEARCH dead USING";
    let behind = "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq>?)";
    check(planned, when, "count_blocked", &[dead, behind, row], true).await;
    check_lanes(planned, when).await;
    check(planned, when, "audit_of", &["USING INDEX pillarbox_audit_event (event_id=?)"], false).await;
    check(planned, when, "audit", &["pillarbox_audit USING INTEGER PRIMARY KEY (rowid<?)"], false).await;
}

/// What runs for every step of a saga, and for every sweep.
async fn check_sagas(planned: &Planned, when: &str) {
    let row = "USING INTEGER PRIMARY KEY (rowid=?)";
    let saga = "USING PRIMARY KEY (id=?)";
    let generation =
        "INDEX sqlite_autoindex_pillarbox_saga_2 (name=? AND subject_kind=? AND subject_value=?)";
    let event = "USING INDEX sqlite_autoindex_pillarbox_outbox_1 (event_id=?)";
    let dead_step = "INDEX pillarbox_outbox_dead_step";
    check(planned, when, "saga_held", &[row, saga], false).await;
    check(planned, when, "saga_entry", &[row], false).await;
    check(planned, when, "saga_deleted", &[row], false).await;
    check(planned, when, "saga_move", &[saga], false).await;
    check(planned, when, "saga_show", &[saga], false).await;
    // The few entries of one saga are put in their order.
    check(planned, when, "saga_entries", &[event], true).await;
    let sweep = [dead_step, "pillarbox_saga_dead", "pillarbox_saga_due", saga];
    check(planned, when, "saga_sweep", &sweep, true).await;
    check(planned, when, "saga_open", &["INDEX pillarbox_saga_open (route=?)"], false).await;
    check(planned, when, "saga_stage", &[generation], false).await;
    let age = "INDEX pillarbox_saga_ended (ended_at";
    check(planned, when, "saga_purgeable", &[age], false).await;
    check(planned, when, "saga_purge", &[age, saga], false).await;
}

async fn check_lanes(planned: &Planned, when: &str) {
    let row = "USING INTEGER PRIMARY KEY (rowid=?)";
    let next = "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq>?)";
    let in_flight = "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq<?)";
    check(planned, when, "lanes_next", &[row, next], false).await;
    check(planned, when, "lanes_passed", &[in_flight], false).await;
    check(planned, when, "lanes_in_flight", &[in_flight], false).await;
    check(planned, when, "lanes_backlog", &["INDEX pillarbox_outbox_lane (route=? AND lane=?)"], false).await;
    // The lanes and sessions of a route are few.
    let dead = "USING COVERING INDEX pillarbox_outbox_dead (route=? AND lane=? AND key=? AND seq<?)";
    check(planned, when, "count_handed", &[in_flight, dead], true).await;
    for sql in
        ["lanes_fetch", "lanes_settleable", "lanes_settle_delivered", "lanes_settle_deleted", "lanes_revise"]
    {
        check(planned, when, sql, &[row], false).await;
    }
    for sql in ["lanes_settle_failed", "lanes_settle_released", "lanes_spend"] {
        check(planned, when, sql, &[row], false).await;
    }
    let heads = [
        "USING COVERING INDEX pillarbox_outbox_dead (route=? AND lane=?",
        "USING INDEX pillarbox_outbox_due (route=?",
    ];
    check(planned, when, "lanes_heads", &heads, false).await;
}

#[tokio::test]
async fn no_call_scans_or_sorts_the_backlog_whatever_the_statistics_say() {
    let directory = TempDir::new().unwrap();
    let planned = Planned::new(&directory).await;
    let execute = async |sql| planned.execute(sql).await;
    execute(BACKLOG).await;
    check_all(&planned, "without statistics").await;
    execute("analyze").await;
    check_all(&planned, "with fresh statistics").await;
    // Some of everything, as a busy outbox has it.
    execute(
        "update pillarbox_outbox set status = 'delivered', settled_at = 1 where seq <= 60000; \
         update pillarbox_outbox set status = 'retrying', attempts = 1, due_at = seq where seq between 60001 and 90000; \
         update pillarbox_outbox set status = 'dead', settled_at = 1 where seq between 90001 and 90100; \
         update pillarbox_outbox set status = 'retrying', attempts = 2 where seq between 90101 and 90200",
    )
    .await;
    check_all(&planned, "with stale statistics").await;
    execute("analyze").await;
    check_all(&planned, "with fresh statistics of a mixture").await;
    execute("delete from pillarbox_outbox; analyze").await;
    execute(BACKLOG).await;
    check_all(&planned, "with the statistics of an empty table").await;
}

/// 1,000,000 of them.
const SETTLED: &str = "insert into pillarbox_outbox (route, type, payload, hlc, lane, status, attempts, settled_at) \
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000000) \
    select 'orders', 't', '0', i, i % 64, 'delivered', 1, i from n";
const BATCH: u32 = 100;

/// What a claim in each order and a read of all lanes cost: steps of the database's machine, in tens.
async fn costs(planned: &Planned) -> [u64; 3] {
    let steps = Arc::new(AtomicU64::new(0));
    let mut connection = planned.store.pool().acquire().await.unwrap();
    let count = Arc::clone(&steps);
    connection.lock_handle().await.unwrap().set_progress_handler(10, move || {
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    drop(connection);
    let taken = || steps.swap(0, Ordering::Relaxed);
    let (store, route) = (&planned.store, RouteName::new(ROUTE).unwrap());
    let mut costs = [0; 3];
    for (cost, order) in costs.iter_mut().zip([ClaimOrder::Staged, ClaimOrder::Causal]) {
        taken();
        let claimed = store.claim(ClaimRequest { order, ..wish(BATCH) }).await.unwrap();
        assert_eq!(claimed.entries.len(), 100);
        *cost = taken();
    }
    let session = SessionId::of_random(7, 1);
    let attend = AttendRequest {
        route: route.clone(),
        session,
        joins: true,
        owner: "worker".into(),
        lease: Duration::from_secs(60),
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    assert_eq!(store.attend(attend).await.unwrap().lanes.len(), usize::from(LANES));
    let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit: 8 }).collect();
    taken();
    let read = ReadRequest { route, session, lanes, cursor: LaneCursor::default() };
    assert_eq!(store.read(read).await.unwrap().entries.len(), 64 * 8);
    costs[2] = taken();
    costs
}

#[tokio::test]
async fn beside_1_000_000_settled_entries_a_batch_reads_little_more_than_itself() {
    let (directory, small) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let planned = Planned::new(&small).await;
    planned.execute(BACKLOG).await;
    planned.execute("delete from pillarbox_outbox where seq > 2000; analyze").await;
    let few = costs(&planned).await;
    let planned = Planned::new(&directory).await;
    planned.execute(SETTLED).await;
    planned.execute(BACKLOG).await;
    check_all(&planned, "without statistics").await;
    planned.execute("analyze").await;
    check_all(&planned, "with fresh statistics").await;
    let many = costs(&planned).await;
    for (many, few) in many.iter().zip(few) {
        assert!(*many <= few + few / 5, "{many} steps where {few} are enough");
    }
}

#[tokio::test]
async fn among_10_000_sagas_no_step_scans_them_or_the_outbox() {
    let directory = TempDir::new().unwrap();
    let planned = Planned::new(&directory).await;
    let execute = async |sql| planned.execute(sql).await;
    execute("analyze").await;
    execute(BACKLOG).await;
    execute(
        "insert into pillarbox_saga (id, name, route, subject_kind, subject_value, generation, status, dead, body) \
         with recursive n (i) as (select 1 union all select i + 1 from n where i < 10000) \
         select 's-' || i, 'erase', 'sagas', 'person', 'p-' || i, 1, 'running', i % 10 = 0, '{}' from n; \
         insert into pillarbox_outbox (route, type, payload, group_id, status) \
         select 'sagas', 'erase', '0', saga.id, iif(saga.dead and step.value = 1, 'dead', 'pending') \
         from pillarbox_saga as saga, json_each('[1, 2, 3]') as step",
    )
    .await;
    check_sagas(&planned, "with the statistics of empty tables").await;
    execute("analyze").await;
    check_sagas(&planned, "with fresh statistics").await;
}

#[tokio::test]
async fn of_what_is_kept_for_days_only_the_newest_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let planned = Planned::new(&directory).await;
    for (at_least, counted) in [(false, 99_999), (true, 100_000)] {
        sqlx::raw_sql(
            "insert into pillarbox_outbox (route, type, payload, status, settled_at) \
             with recursive n (i) as (select 1 union all select i + 1 from n where i < 99999) \
             select iif(i % 2, 'orders', 'mails'), 't', '0', 'delivered', i from n",
        )
        .execute(planned.store.pool())
        .await
        .unwrap();
        let counts = planned.store.counts(None).await.unwrap();
        assert_eq!(counts.iter().map(|counts| counts.of(Status::Delivered)).sum::<u64>(), counted);
        let all = counts.iter().map(|counts| counts.at_least.contains(&Status::Delivered));
        assert_eq!(all.collect::<Vec<_>>(), [at_least; 2], "{counts:?}");
    }
}
