//! Settling, reaping and operators: what the suite does not ask because only a server with rows locks can.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::limits::AUDIT_TOLD_MAX;
use pillarbox_core::port::{
    Admin, Effect, ExtendRequest, Filter, PurgeRequest, Selection, SelectionRequest, Store, Verdict,
};
use pillarbox_core::{ErrorKind, Fence, Held, Status};
use tokio::task::JoinSet;

use crate::harness::{Direct, connect};
use crate::steps::{ROUTE, claim, dead, events, settle_request, stage, verdicts};

fn requeue_all() -> SelectionRequest {
    SelectionRequest {
        limit: None,
        selection: Selection::Matching(Filter::dead()),
        actor: "operator".into(),
        effect: Effect::Apply,
        now: None,
    }
}

#[tokio::test]
async fn an_entry_named_twice_in_a_batch_is_settled_once() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(2)).await;
    let held = claim(&store, 2).await;
    let mut twice = verdicts(&held, &Verdict::Delivered);
    twice.extend(verdicts(&held[..1], &Verdict::Delivered));
    twice.push(pillarbox_core::port::Settlement {
        held: Held { seq: held[1].seq, fence: Fence(1) },
        verdict: Verdict::Delivered,
    });
    let settled = store.settle(settle_request(twice)).await.unwrap();
    assert_eq!(settled.accepted, 2);
    let mut fenced = settled.fenced;
    fenced.sort_unstable();
    assert_eq!(fenced, [held[0].held(), Held { seq: held[1].seq, fence: Fence(1) }]);
}

#[tokio::test]
async fn a_lease_taken_over_while_its_settle_waits_for_the_row_is_fenced() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(2)).await;
    let held = claim(&store, 2).await;
    // The new owner's claim, not yet committed.
    let mut other = connect().await;
    let take = harness.sql("begin; update {s}.pillarbox_outbox set fence = fence + 1 where seq = (select min(seq) from {s}.pillarbox_outbox)");
    sqlx::raw_sql(take).execute(&mut other).await.unwrap();
    let mut settles = JoinSet::new();
    for verdict in [Verdict::Delivered, dead()] {
        let (store, batch) = (Arc::clone(&store), verdicts(&held[..1], &verdict));
        settles.spawn(async move { store.settle(settle_request(batch)).await.unwrap() });
    }
    let waiting =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%{s}%'";
    while harness.number(waiting).await < 2 {
        tokio::task::yield_now().await;
    }
    sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    for settled in settles.join_all().await {
        assert_eq!((settled.accepted, settled.fenced), (0, vec![held[0].held()]));
    }
    assert!(store.audit(10).await.unwrap().is_empty(), "nothing died, so nothing is audited");
    assert_eq!(store.settle(settle_request(verdicts(&held[1..], &dead()))).await.unwrap().accepted, 1);
}

#[tokio::test]
async fn two_operators_at_once_requeue_once_and_neither_fails() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(50)).await;
    let held = claim(&store, 50).await;
    assert_eq!(store.settle(settle_request(verdicts(&held, &dead()))).await.unwrap().accepted, 50);
    let mut operators = JoinSet::new();
    for _ in 0..4 {
        let store = harness.another().await;
        operators.spawn(async move { store.requeue(requeue_all()).await.unwrap() });
    }
    let changed = operators.join_all().await;
    assert_eq!(changed.iter().map(|changed| changed.changed).sum::<u64>(), 50);
    for changed in changed {
        assert_eq!(
            changed.skipped, changed.fenced,
            "what another operator changed first is told: {changed:?}"
        );
        assert_eq!(changed.audit.len() as u64, changed.changed.min(AUDIT_TOLD_MAX.into()));
    }
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_audit where kind = 'requeued'").await, 50);
    let counts = store.counts(None).await.unwrap();
    assert_eq!((counts[0].of(Status::Pending), counts[0].of(Status::Dead)), (50, 0));
}

#[tokio::test]
async fn a_purge_passes_locked_rows_by() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(3)).await;
    let held = claim(&store, 3).await;
    assert_eq!(store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap().accepted, 3);
    assert!(harness.tamper(pillarbox_conformance::Tamper::LockEntry(held[0].event_id)).await);
    let request = || PurgeRequest {
        older_than: Duration::ZERO,
        limit: 100,
        actor: "retention".into(),
        effect: Effect::Apply,
        now: None,
    };
    assert_eq!(store.purge(request()).await.unwrap().purged, 2);
    assert!(harness.tamper(pillarbox_conformance::Tamper::UnlockEntries).await);
    assert_eq!(store.purge(request()).await.unwrap().purged, 1);
    let over = PurgeRequest { limit: 10_001, ..request() };
    assert_eq!(store.purge(over).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_relay_goes_on_while_the_application_exhausts_the_pool() {
    let options = Direct::fresh().connections(1).acquire_timeout(Duration::from_millis(200));
    let harness = Direct::with(options).await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(2)).await;
    let held = claim(&store, 2).await;
    let hog = store.pool().acquire().await.unwrap();
    let error = store.list(Filter::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Timeout, Some("pool_timed_out")));
    assert!(claim(&store, 1).await.is_empty());
    let extend = ExtendRequest {
        held: held.iter().map(|entry| entry.held()).collect(),
        lease: Duration::from_secs(60),
        now: None,
    };
    assert!(store.extend(extend).await.unwrap().fenced.is_empty());
    assert_eq!(store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap().accepted, 2);
    drop(hog);
}
