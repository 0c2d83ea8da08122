//! Claims that begin where the last one ended, beside a transaction that is held open.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::EventId;
use pillarbox_core::port::{
    Admin, ClaimOrder, ClaimRequest, Effect, Filter, Selection, SelectionRequest, Store, Verdict,
};
use pillarbox_store_postgres::PostgresStore;
use pillarbox_testkit::eventually;
use sqlx::{PgConnection, Row};

use crate::harness::{Direct, connect};
use crate::plans::{STEER, Statistics, Subject, fill, plan, subject};
use crate::steps::{ROUTE, claim_request, dead, events, ids, settle_request, stage, verdicts};

const LEFT: &str = "select count(*) from {s}.pillarbox_outbox where status <> 'delivered'";
const WITHIN: Duration = Duration::from_secs(60);

/// A transaction that has looked and sits idle: nothing that is there from now on can be removed.
async fn hold(harness: &Direct) -> PgConnection {
    let mut holder = connect().await;
    let look = "begin isolation level repeatable read; select count(*) from {s}.pillarbox_relay";
    sqlx::raw_sql(harness.sql(look)).execute(&mut holder).await.unwrap();
    holder
}

/// Claims and settles one batch.
async fn deliver(store: &PostgresStore, request: ClaimRequest) -> Vec<EventId> {
    let entries = store.claim(request).await.unwrap().entries;
    let settled = store.settle(settle_request(verdicts(&entries, &Verdict::Delivered))).await.unwrap();
    assert_eq!(settled.accepted, entries.len() as u64);
    ids(&entries)
}

#[tokio::test]
async fn beside_a_held_transaction_not_every_claim_passes_over_all_that_was_claimed() {
    const CLAIMS: i64 = 40;
    let harness = Direct::start().await;
    let store = harness.another().await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(20_000)).await;
    let _holder = hold(&harness).await;
    for _ in 0..CLAIMS {
        // The lease is over by the next claim, so that what is left of it lies before what is due then.
        let request = ClaimRequest { lease: Duration::from_millis(1), ..claim_request(500) };
        assert_eq!(deliver(&store, request).await.len(), 500);
    }
    // A server's process counts for all to see when it ends.
    store.close().await;
    let counted = |what: &str| {
        let text = format!(
            "select {what}::bigint from pg_stat_user_indexes \
             where schemaname = '{{s}}' and indexrelname = 'pillarbox_outbox_open'"
        );
        let harness = &harness;
        async move { harness.number(&text).await }
    };
    // Three arms each.
    eventually(WITHIN, || async { counted("idx_scan").await >= 3 * CLAIMS }).await;
    let all: i64 = (0..CLAIMS).map(|before| before * 500).sum();
    // The first claim from the floor comes when 5,000 were passed, and saves as much in the arm of what is due at once, and
    // 4,500 in that of times.
    let read = counted("idx_tup_read").await;
    assert!((20_000..=2 * all + 20_000 - 9_500).contains(&read), "read {read} of {all}");
}

async fn what_lies_below_is_claimed(order: ClaimOrder) {
    let harness = Direct::start().await;
    let store = harness.store();
    let outbox = harness.outbox(ROUTE);
    let request = |limit| ClaimRequest { order, ..claim_request(limit) };
    stage(&outbox, store.pool(), events(1)).await;
    let requeued = store.claim(request(1)).await.unwrap().entries;
    assert_eq!(store.settle(settle_request(verdicts(&requeued, &dead()))).await.unwrap().accepted, 1);
    let mut slow = harness.begin().await;
    let late = outbox.stage(&mut slow, events(1).remove(0)).await.unwrap().event_id();
    let _holder = hold(&harness).await;
    stage(&outbox, store.pool(), events(12_000)).await;
    for _ in 0..16 {
        assert_eq!(deliver(&store, request(500)).await.len(), 500);
    }

    slow.commit().await.unwrap();
    let selection = Selection::Matching(Filter::dead());
    let requeue = SelectionRequest {
        selection,
        limit: None,
        actor: "operator".into(),
        effect: Effect::Apply,
        now: None,
    };
    assert_eq!(store.requeue(requeue).await.unwrap().changed, 1);
    let plain = "insert into {s}.pillarbox_outbox (route, type, payload, priority, due_at) \
         values ('orders', 'order.placed', '1', 1, null), \
             ('orders', 'order.placed', '1', 100, now() - interval '1 hour') returning event_id";
    let plain = harness.rows(plain).await;
    let mut awaited: BTreeSet<EventId> = plain.iter().map(|row| EventId(row.get(0))).collect();
    awaited.extend([late, requeued[0].event_id]);
    // In causal order what has no stamp is the last of all.
    let last: BTreeSet<EventId> = match order {
        ClaimOrder::Staged => BTreeSet::new(),
        ClaimOrder::Causal => BTreeSet::from([EventId(plain[0].get(0))]),
    };

    // There is always more above, so that no claim comes up empty.
    let found = async {
        while !awaited.is_subset(&last) {
            stage(&outbox, store.pool(), events(20)).await;
            for id in deliver(&store, request(20)).await {
                awaited.remove(&id);
            }
        }
    };
    tokio::time::timeout(WITHIN, found).await.unwrap();

    // A claim that finds nothing above looks below before it says that there is nothing.
    while !awaited.is_empty() || harness.number(LEFT).await > 0 {
        for id in deliver(&store, request(500)).await {
            awaited.remove(&id);
        }
    }
    for _ in 0..20 {
        let mut slow = harness.begin().await;
        let late = outbox.stage(&mut slow, events(1).remove(0)).await.unwrap().event_id();
        stage(&outbox, store.pool(), events(100)).await;
        assert_eq!(deliver(&store, request(100)).await.len(), 100);
        slow.commit().await.unwrap();
        assert_eq!(deliver(&store, request(100)).await, [late]);
    }
}

#[tokio::test]
async fn what_comes_late_requeued_urgent_or_overdue_is_claimed_although_claims_begin_above_it() {
    what_lies_below_is_claimed(ClaimOrder::Staged).await;
}

#[tokio::test]
async fn what_comes_late_requeued_or_overdue_is_claimed_although_causal_claims_begin_above_it() {
    what_lies_below_is_claimed(ClaimOrder::Causal).await;
}

/// Claims, and what the server must find by an index and not by looking at entries.
fn from_a_floor() -> [(Subject, &'static [&'static str]); 2] {
    let claim = "'orders', null, 5, 250, 500, 'worker', 30000000, now() - interval '1 second'";
    let staged = subject!(
        "claim_staged",
        "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, bigint, boolean",
        format!("{claim}, 100, 150000, false"),
        ["outbox_open", "outbox_pkey"]
    );
    let causal = subject!(
        "claim_causal",
        "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, boolean",
        format!("{claim}, 150000, false"),
        ["outbox_causal", "outbox_open", "outbox_pkey"]
    );
    [
        (staged, &["(due_at >= ", "(status = 'retrying'", "ROW(priority, seq) >= "]),
        (causal, &["(due_at >= ", "(COALESCE(hlc, "]),
    ]
}

#[tokio::test]
async fn a_claim_from_a_floor_goes_there_by_an_index_and_sorts_nothing() {
    let harness = Direct::start().await;
    fill(&harness).await;
    let mut steered = connect().await;
    sqlx::raw_sql(harness.sql(&STEER.replace("set local", "set"))).execute(&mut steered).await.unwrap();
    let mut plain = connect().await;
    for statistics in [Statistics::Stale, Statistics::Fresh] {
        if statistics == Statistics::Fresh {
            harness.execute("analyze {s}.pillarbox_outbox").await;
        }
        for mode in ["force_custom_plan", "force_generic_plan"] {
            for connection in [&mut steered, &mut plain] {
                let set = format!("set plan_cache_mode = {mode}");
                sqlx::raw_sql(harness.sql(&set)).execute(&mut *connection).await.unwrap();
                for (subject, bounds) in from_a_floor() {
                    let plan = plan(connection, &harness, &subject).await;
                    let what = format!("{} with {statistics:?} statistics, {mode}:\n{plan}", subject.name);
                    assert!(!plan.contains("Seq Scan on") && !plan.contains("Sort"), "{what}");
                    assert!(
                        subject.by.iter().all(|index| plan.contains(&format!("pillarbox_{index}"))),
                        "{what}"
                    );
                    let by_index = |bound: &str| {
                        plan.lines().any(|line| line.contains("Index Cond") && line.contains(bound))
                    };
                    assert!(bounds.iter().all(|bound| by_index(bound)), "{what}");
                }
            }
        }
    }
}
