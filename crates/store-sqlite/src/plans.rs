//! The query plans, at a backlog of 200,000: what runs for every batch must not depend on how much waits.
//!
//! Asked with no statistics, with stale ones (from when the table was nearly empty) and with fresh ones.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::sync::Arc;

use pillarbox_core::port::Schema;
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tempfile::TempDir;

use crate::sql::query;
use crate::{Options, SqliteStore};

const BACKLOG: &str = "insert into pillarbox_outbox (route, type, payload, hlc, lane) \
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 200000) \
    select iif(i % 10, 'orders', 'mails'), 't', '0', i, i % 64 from n";

/// A migrated store with one connection, because each has read the statistics at a time of its own.
async fn single(directory: &TempDir) -> SqliteStore {
    let options =
        SqliteConnectOptions::new().filename(directory.path().join("plans.db")).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let store = SqliteStore::new(pool, Options::default().causal_order(true)).unwrap();
    let _ = store.migrate().await.unwrap();
    store
}

/// What the planner says it will do, a line a step.
async fn plan(store: &SqliteStore, sql: &str) -> Vec<String> {
    let sql: Arc<str> = ["explain query plan ", sql].concat().into();
    // Unbound parameters are null; the plan does not look at them.
    let rows = query(&sql).fetch_all(store.pool()).await.unwrap();
    rows.iter().map(|row| row.get_unchecked(3)).collect()
}

/// Every look at the outbox or at sagas goes by one of these; nothing is sorted unless `sorts` says so.
async fn check(store: &SqliteStore, when: &str, sql: &Arc<str>, wanted: &[&str], sorts: bool) {
    let plan = plan(store, sql).await;
    let shown = plan.join("\n");
    for step in plan.iter().filter(|step| is_of_outbox(step)) {
        assert!(wanted.iter().any(|wanted| step.contains(wanted)), "{when}: {step:?} in\n{shown}");
        assert!(!step.starts_with("SCAN") || step.contains("INDEX"), "{when}: {step:?} in\n{shown}");
    }
    for wanted in wanted {
        assert!(plan.iter().any(|step| step.contains(wanted)), "{when}: {wanted:?} is not in\n{shown}");
    }
    assert!(sorts || !shown.contains("TEMP B-TREE"), "{when}: sorts in\n{shown}");
}

/// Whether a step looks at the outbox or at sagas; who holds which lane is another table of a few rows.
fn is_of_outbox(step: &str) -> bool {
    let few = ["pillarbox_lane", "pillarbox_route_state", " held ", " reader "]
        .iter()
        .any(|table| step.contains(table));
    let word = |word: &str| step.split(' ').any(|other| other == word);
    !few && (step.contains("pillarbox_") || word("entry") || word("saga"))
}

async fn check_all(store: &SqliteStore, when: &str) {
    let s = &store.statements;
    let (row, ready, due) = (
        "USING INTEGER PRIMARY KEY (rowid=?)",
        "USING INDEX pillarbox_outbox_ready (route=?)",
        "USING COVERING INDEX pillarbox_outbox_due (route=? AND due_at",
    );
    let causal = "USING INDEX pillarbox_outbox_causal (route=?)";
    check(store, when, &s.claim_staged, &[row, ready, due], false).await;
    check(store, when, &s.claim_causal, &[row, causal, due], false).await;
    check(store, when, &s.claimable, &["USING INDEX pillarbox_outbox_", due], false).await;
    check_sagas(store, when).await;
    for sql in [
        &s.extend,
        &s.claim_suspects,
        &s.settle_mixed,
        &s.settle_dead,
        &s.settle_delivered,
        &s.settle_deleted,
        &s.reap,
        &s.purge,
    ] {
        check(store, when, sql, &[row], false).await;
    }
    let stuck = "USING INDEX pillarbox_outbox_stuck (route=?)";
    check(store, when, &s.stale, &[row, stuck, due, "USING INDEX pillarbox_outbox_due (route=?"], false)
        .await;
    check(store, when, &s.suspects, &[stuck], false).await;
    check(store, when, &s.routes, &["pillarbox_outbox_due", "pillarbox_outbox_stuck"], true).await;
    let ended = "USING COVERING INDEX pillarbox_outbox_ended (status=? AND settled_at";
    check(store, when, &s.purgeable, &[ended], false).await;
    let age = "USING COVERING INDEX pillarbox_inbox_age (accepted_at<?)";
    check(store, when, &s.inbox_purgeable, &[age], false).await;
    let mark = "USING PRIMARY KEY (consumer=? AND event_id=?)";
    check(store, when, &s.inbox_purge, &[age, mark], false).await;
    check(store, when, &s.marked, &[mark], false).await;
    check(store, when, &s.fence_of, &["USING PRIMARY KEY (consumer=? AND lane=?)"], false).await;
    // Counting goes over an index and never over rows; grouping it takes a little tree of routes.
    check(store, when, &s.count_ready, &["USING COVERING INDEX pillarbox_outbox_ready"], true).await;
    check(store, when, &s.count_due, &["USING COVERING INDEX pillarbox_outbox_due"], true).await;
    check(store, when, &s.count_ended, &["USING COVERING INDEX pillarbox_outbox_ended"], true).await;
    // What an operator means is found by its ids or by the index of its status. It is put in its order, and compared with
    // the few dead entries that block a key, and with the saga of a step.
    let event = "USING INDEX sqlite_autoindex_pillarbox_outbox_1 (event_id=?)";
    let (dead, saga) = ("INDEX pillarbox_outbox_ended (status=?", "USING PRIMARY KEY (id=?)");
    check(store, when, &s.list.ids, &[event, dead, row], true).await;
    check(store, when, &s.list.ended, &[dead, row], true).await;
    check(store, when, &s.selected.ids, &[event, dead, saga], true).await;
    check(store, when, &s.selected.ended, &[dead, saga], true).await;
    let live = ["INDEX pillarbox_outbox_ready", "INDEX pillarbox_outbox_due", dead, row];
    check(store, when, &s.list.live, &live, true).await;
    let behind = "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq>?)";
    check(store, when, &s.count_blocked, &[dead, behind, row], true).await;
    check_lanes(store, when).await;
    check(store, when, &s.audit_of, &["USING INDEX pillarbox_audit_event (event_id=?)"], false).await;
}

/// What runs for every step of a saga, and for every sweep.
async fn check_sagas(store: &SqliteStore, when: &str) {
    let s = &store.statements;
    let row = "USING INTEGER PRIMARY KEY (rowid=?)";
    let saga = "USING PRIMARY KEY (id=?)";
    let generation =
        "INDEX sqlite_autoindex_pillarbox_saga_2 (name=? AND subject_kind=? AND subject_value=?)";
    let event = "USING INDEX sqlite_autoindex_pillarbox_outbox_1 (event_id=?)";
    let dead_step = "INDEX pillarbox_outbox_dead_step";
    check(store, when, &s.saga_held, &[row, saga], false).await;
    check(store, when, &s.saga_entry, &[row], false).await;
    check(store, when, &s.saga_deleted, &[row], false).await;
    check(store, when, &s.saga_move, &[saga], false).await;
    check(store, when, &s.saga_show, &[saga], false).await;
    // The few entries of one saga are put in their order.
    check(store, when, &s.saga_entries, &[event], true).await;
    let sweep = [dead_step, "pillarbox_saga_dead", "pillarbox_saga_due", saga];
    check(store, when, &s.saga_sweep, &sweep, true).await;
    check(store, when, &s.saga_open, &["INDEX pillarbox_saga_open (route=?)"], false).await;
    check(store, when, &s.saga_stage, &[generation], false).await;
    let age = "INDEX pillarbox_saga_ended (ended_at";
    check(store, when, &s.saga_purgeable, &[age], false).await;
    check(store, when, &s.saga_purge, &[age, saga], false).await;
}

async fn check_lanes(store: &SqliteStore, when: &str) {
    let s = &store.statements;
    let row = "USING INTEGER PRIMARY KEY (rowid=?)";
    let next = "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq>?)";
    let in_flight = "USING INDEX pillarbox_outbox_lane (route=? AND lane=? AND seq<?)";
    check(store, when, &s.lanes_next, &[row, next], false).await;
    check(store, when, &s.lanes_passed, &[in_flight], false).await;
    check(store, when, &s.lanes_in_flight, &[in_flight], false).await;
    // The lanes and sessions of a route are few.
    let dead = "INDEX pillarbox_outbox_ended (status=?";
    check(store, when, &s.count_handed, &[in_flight, dead], true).await;
    for sql in [
        &s.lanes_fetch,
        &s.lanes_settleable,
        &s.lanes_settle_delivered,
        &s.lanes_settle_deleted,
        &s.lanes_revise,
    ] {
        check(store, when, sql, &[row], false).await;
    }
    for sql in [&s.lanes_settle_failed, &s.lanes_settle_released, &s.lanes_spend] {
        check(store, when, sql, &[row], false).await;
    }
    let heads = ["USING INDEX pillarbox_outbox_ended (status=?", "USING INDEX pillarbox_outbox_due (route=?"];
    check(store, when, &s.lanes_heads, &heads, false).await;
}

#[tokio::test]
async fn no_call_scans_or_sorts_the_backlog_whatever_the_statistics_say() {
    let directory = TempDir::new().unwrap();
    let store = single(&directory).await;
    let execute = async |sql: &'static str| {
        sqlx::raw_sql(sql).execute(store.pool()).await.unwrap();
    };
    execute(BACKLOG).await;
    check_all(&store, "without statistics").await;
    execute("analyze").await;
    check_all(&store, "with fresh statistics").await;
    // Some of everything, as a busy outbox has it.
    execute(
        "update pillarbox_outbox set status = 'delivered', settled_at = 1 where seq <= 60000; \
         update pillarbox_outbox set status = 'retrying', attempts = 1, due_at = seq where seq between 60001 and 90000; \
         update pillarbox_outbox set status = 'dead', settled_at = 1 where seq between 90001 and 90100; \
         update pillarbox_outbox set status = 'retrying', attempts = 2 where seq between 90101 and 90200",
    )
    .await;
    check_all(&store, "with stale statistics").await;
    execute("analyze").await;
    check_all(&store, "with fresh statistics of a mixture").await;
    execute("delete from pillarbox_outbox; analyze").await;
    execute(BACKLOG).await;
    check_all(&store, "with the statistics of an empty table").await;
}

#[tokio::test]
async fn among_10_000_sagas_no_step_scans_them_or_the_outbox() {
    let directory = TempDir::new().unwrap();
    let store = single(&directory).await;
    let execute = async |sql: &'static str| {
        sqlx::raw_sql(sql).execute(store.pool()).await.unwrap();
    };
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
    check_sagas(&store, "with the statistics of empty tables").await;
    execute("analyze").await;
    check_sagas(&store, "with fresh statistics").await;
}
