//! Claiming under load, behind locks and without fsync.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, ClaimRequest, ExtendRequest, Store, Verdict};
use pillarbox_core::{Entry, ErrorKind, EventId, Retry, Status};
use sqlx::Row;
use tokio::task::JoinSet;

use crate::harness::{Direct, Pooled, PostgresHarness, connect};
use crate::steps::{
    ROUTE, claim, claim_request, dead, events, reap_request, settle_request, stage, verdicts,
};

async fn eight_claimers_share_5_000<const POOLED: bool>(harness: PostgresHarness<POOLED>) {
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(5_000)).await;
    let mut claimers = JoinSet::new();
    for claimer in 0..8 {
        let store = harness.another().await;
        claimers.spawn(async move {
            let mut taken: Vec<EventId> = vec![];
            loop {
                let request = ClaimRequest { owner: format!("worker-{claimer}"), ..claim_request(37) };
                let claim = store.claim(request).await.unwrap();
                if claim.entries.is_empty() {
                    return taken;
                }
                let settlements = verdicts(&claim.entries, &Verdict::Delivered);
                let settled = store.settle(settle_request(settlements)).await.unwrap();
                assert_eq!((settled.accepted, settled.fenced.len()), (claim.entries.len() as u64, 0));
                taken.extend(claim.entries.iter().map(|entry| entry.event_id));
            }
        });
    }
    let taken: Vec<EventId> = claimers.join_all().await.concat();
    // A claimer that comes up empty stops while others hold the rest, so all of them together took all.
    assert_eq!(taken.len(), 5_000, "nothing was handed out twice or left");
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 5_000);
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox where attempts <> 1").await, 0);
    let counts = harness.store().counts(None).await.unwrap();
    assert_eq!(counts[0].of(Status::Delivered), 5_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_claimers_share_5_000_entries_and_no_two_get_the_same() {
    eight_claimers_share_5_000(Direct::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_claimers_through_a_pooler_share_5_000_entries_and_no_two_get_the_same() {
    eight_claimers_share_5_000(Pooled::start().await).await;
}

#[tokio::test]
async fn a_lower_seq_that_commits_late_is_not_skipped() {
    let harness = Direct::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut slow = harness.begin().await;
    let late = outbox.stage(&mut slow, events(1).remove(0)).await.unwrap();
    stage(&outbox, harness.store().pool(), events(3)).await;
    let first = claim(&harness.store(), 10).await;
    assert_eq!(first.len(), 3);
    let settled =
        harness.store().settle(settle_request(verdicts(&first, &Verdict::Delivered))).await.unwrap();
    assert_eq!(settled.accepted, 3);
    slow.commit().await.unwrap();
    let second = claim(&harness.store(), 10).await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].event_id, late.event_id());
    assert!(second[0].seq < first[0].seq);
}

#[tokio::test]
async fn a_locked_table_is_a_typed_error_within_the_lock_timeout_and_no_hang() {
    let harness = Direct::with(Direct::fresh().lock_timeout(Duration::from_millis(100))).await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(2)).await;
    let held = claim(&harness.store(), 1).await;
    let mut locker = connect().await;
    let lock = harness.sql("begin; lock table {s}.pillarbox_outbox in access exclusive mode");
    sqlx::raw_sql(lock).execute(&mut locker).await.unwrap();
    let store = harness.store();
    let refused = [
        store.claim(claim_request(10)).await.unwrap_err(),
        store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap_err(),
        store.reap(reap_request()).await.unwrap_err(),
        store.counts(None).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(
            (error.kind(), error.retry(), error.code()),
            (ErrorKind::Contention, Retry::Later, Some("55P03"))
        );
    }
    sqlx::raw_sql("rollback").execute(&mut locker).await.unwrap();
    assert_eq!(claim(&store, 10).await.len(), 1);
    assert_eq!(store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap().accepted, 1);
}

#[tokio::test]
async fn a_locked_table_behind_a_pooler_is_a_typed_error_too() {
    let harness = Pooled::with(Pooled::fresh().lock_timeout(Duration::from_millis(100))).await;
    let mut locker = connect().await;
    let lock = harness.sql("begin; lock table {s}.pillarbox_outbox in access exclusive mode");
    sqlx::raw_sql(lock).execute(&mut locker).await.unwrap();
    let error = harness.store().claim(claim_request(10)).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Contention, Some("55P03")));
    sqlx::raw_sql("rollback").execute(&mut locker).await.unwrap();
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn a_call_over_the_statement_timeout_is_a_timeout() {
    let options =
        Direct::fresh().lock_timeout(Duration::from_secs(60)).statement_timeout(Duration::from_millis(100));
    let harness = Direct::with(options).await;
    let mut locker = connect().await;
    let lock = harness.sql("begin; lock table {s}.pillarbox_outbox in access exclusive mode");
    sqlx::raw_sql(lock).execute(&mut locker).await.unwrap();
    let error = harness.store().claim(claim_request(10)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry(), error.code()),
        (ErrorKind::Timeout, Retry::Later, Some("57014"))
    );
    sqlx::raw_sql("rollback").execute(&mut locker).await.unwrap();
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn a_transaction_left_open_elsewhere_does_not_hold_entries_back() {
    let harness = Direct::start().await;
    let mut idle = connect().await;
    sqlx::raw_sql("begin isolation level repeatable read; select txid_current()")
        .execute(&mut idle)
        .await
        .unwrap();
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(5)).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 5);
    sqlx::raw_sql("rollback").execute(&mut idle).await.unwrap();
}

/// What `synchronous_commit` was inside each statement on the outbox.
async fn watch_commits<const POOLED: bool>(harness: &PostgresHarness<POOLED>) {
    harness
        .execute(
            "create table {s}.seen (what text, setting text); \
             create function {s}.watch() returns trigger language plpgsql as $$ begin \
             insert into {s}.seen values (tg_op, current_setting('synchronous_commit')); return null; end $$; \
             create trigger watch after insert or update or delete on {s}.pillarbox_outbox \
             for each statement execute function {s}.watch()",
        )
        .await;
}

async fn seen<const POOLED: bool>(harness: &PostgresHarness<POOLED>) -> Vec<(String, String)> {
    let rows = harness.rows("select distinct what, setting from {s}.seen order by 1, 2").await;
    harness.execute("truncate {s}.seen").await;
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn only_the_dead_wait_for_the_disk<const POOLED: bool>(harness: PostgresHarness<POOLED>) {
    let store: Arc<_> = harness.store();
    watch_commits(&harness).await;
    let pair = |what: &str, setting: &str| (what.to_owned(), setting.to_owned());
    stage(&harness.outbox(ROUTE), store.pool(), events(6)).await;
    assert_eq!(
        seen(&harness).await,
        [pair("INSERT", "on")],
        "staging is as durable as the application wants it"
    );
    let held = claim(&store, 6).await;
    let extend = ExtendRequest {
        held: held.iter().map(|entry| entry.held()).collect(),
        lease: Duration::from_secs(60),
        now: None,
    };
    assert!(store.extend(extend).await.unwrap().fenced.is_empty());
    assert_eq!(
        store.settle(settle_request(verdicts(&held[..1], &Verdict::Delivered))).await.unwrap().accepted,
        1
    );
    let mut mixed = verdicts(&held[1..2], &Verdict::Delivered);
    mixed.extend(verdicts(&held[2..3], &Verdict::release(None)));
    assert_eq!(store.settle(settle_request(mixed)).await.unwrap().accepted, 2);
    let mut gone = settle_request(verdicts(&held[3..4], &Verdict::Delivered));
    gone.keep = pillarbox_core::port::Keep::No;
    assert_eq!(store.settle(gone).await.unwrap().accepted, 1);
    let off = [pair("DELETE", "off"), pair("UPDATE", "off")];
    assert!(seen(&harness).await.iter().all(|seen| off.contains(seen)));
    assert_eq!(store.settle(settle_request(verdicts(&held[4..5], &dead()))).await.unwrap().accepted, 1);
    assert_eq!(seen(&harness).await, [pair("UPDATE", "on")], "a death is durable before anybody hears of it");
    let pool = store.pool().clone();
    let after = sqlx::raw_sql("show synchronous_commit").fetch_one(&pool).await.unwrap();
    assert_eq!(after.get::<String, _>(0), "on", "the setting ends with the call");
}

#[tokio::test]
async fn only_staging_and_death_wait_for_the_disk() {
    only_the_dead_wait_for_the_disk(Direct::start().await).await;
}

#[tokio::test]
async fn only_staging_and_death_wait_for_the_disk_through_a_pooler() {
    only_the_dead_wait_for_the_disk(Pooled::start().await).await;
}

async fn relay_calls_are_steered<const POOLED: bool>(harness: PostgresHarness<POOLED>) {
    let store = harness.store();
    harness
        .execute(
            "create table {s}.seen (setting text); \
             create function {s}.watch() returns trigger language plpgsql as $$ begin \
             insert into {s}.seen values (current_setting('enable_sort') || current_setting('enable_seqscan') \
             || current_setting('lock_timeout') || current_setting('transaction_isolation')); return null; end $$; \
             create trigger watch after update on {s}.pillarbox_outbox \
             for each statement execute function {s}.watch()",
        )
        .await;
    stage(&harness.outbox(ROUTE), store.pool(), events(1)).await;
    let held = claim(&store, 1).await;
    assert_eq!(store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap().accepted, 1);
    let seen = harness.rows("select distinct setting from {s}.seen").await;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].get::<String, _>(0), "offoff5sread committed");
    let pool = store.pool().clone();
    let application = sqlx::raw_sql("show enable_sort").fetch_one(&pool).await.unwrap();
    assert_eq!(application.get::<String, _>(0), "on", "the application's plans are its own");
}

#[tokio::test]
async fn a_relays_calls_are_steered_to_the_indexes_and_nobody_elses() {
    relay_calls_are_steered(Direct::start().await).await;
}

#[tokio::test]
async fn a_relays_calls_through_a_pooler_are_steered_to_the_indexes_and_nobody_elses() {
    relay_calls_are_steered(Pooled::start().await).await;
}

#[tokio::test]
async fn retries_take_at_most_half_of_a_claim() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(10)).await;
    harness
        .execute("update {s}.pillarbox_outbox set status = 'retrying', attempts = 1, due_at = now() where seq <= 5")
        .await;
    let claimed = claim(&store, 4).await;
    assert_eq!(claimed.iter().filter(|entry| entry.attempts == 2).count(), 2);
    let odd = claim(&store, 1).await;
    assert_eq!(odd[0].attempts, 2, "a claim of one takes the retry first");
    assert_eq!(claim(&store, 10).await.len(), 5, "what is left is less than a batch");
    assert!(claim(&store, 10).await.is_empty());
}

#[tokio::test]
async fn what_somebody_had_and_is_due_at_once_is_claimed_before_what_nobody_had() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(10)).await;
    let had = "update {s}.pillarbox_outbox set status = 'retrying', attempts = 1, due_at = null where seq > 5; \
               update {s}.pillarbox_outbox set attempts = 1000 where seq = 9";
    harness.execute(had).await;
    let seqs = |entries: &[Entry]| entries.iter().map(|entry| entry.seq).collect::<Vec<_>>();
    assert_eq!(seqs(&claim(&store, 3).await), [6, 7, 8]);
    assert_eq!(seqs(&claim(&store, 3).await), [1, 2, 10], "no more than are left of it");
    assert_eq!(seqs(&claim(&store, 10).await), [3, 4, 5], "and not what has spent its attempts");
    assert_eq!(store.reap(reap_request()).await.unwrap().dead.len(), 1);
}

#[tokio::test]
async fn a_time_that_no_clock_shows_makes_one_entry_undecodable_and_no_more() {
    let harness = Direct::start().await;
    let store = harness.store();
    stage(&harness.outbox(ROUTE), store.pool(), events(3)).await;
    harness.execute("update {s}.pillarbox_outbox set occurred_at = 'infinity' where seq = 2").await;
    let claim = store.claim(claim_request(10)).await.unwrap();
    assert_eq!((claim.entries.len(), claim.undecodable.len()), (2, 1));
    assert_eq!(claim.undecodable[0].failure.code(), "occurred_at");
    assert_eq!(store.list(pillarbox_core::port::Filter::default()).await.unwrap().len(), 3);
}
