//! Claiming: who may take what, when, and under which proof.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::limits::{ATTEMPTS_MAX, BATCH_MAX, LEASE_MAX};
use pillarbox_core::port::{Admin, ClaimRequest, ExtendRequest, ReapRequest, Stage, Store, Verdict};
use pillarbox_core::{CRASHES_IN_COMPANY, Entry, ErrorKind, EventId, Status};
use tokio::task::JoinSet;

use super::steps::*;
use crate::case::skip;
use crate::{StoreHarness, Tamper};

/// Oldest first, and no more than asked for.
pub async fn entries_are_claimed_oldest_first_within_the_limit<H: StoreHarness>(harness: &H) {
    for n in 1..=5 {
        assert_eq!(stage(harness, vec![event(n)]).await.len(), 1);
    }
    let now = soon(harness).await;
    assert_eq!(ids(&claim(harness, 2, now).await), ids_of([1, 2]));
    assert_eq!(ids(&claim(harness, 2, now).await), ids_of([3, 4]));
    assert_eq!(ids(&claim(harness, 2, now).await), ids_of([5]));
    assert!(claim(harness, 2, now).await.is_empty());
}

/// Priority first, the order of staging breaks ties.
pub async fn a_lower_priority_number_is_claimed_first<H: StoreHarness>(harness: &H) {
    let priorities = [(1, 100), (2, 5), (3, 100), (4, -3), (5, 5), (6, i16::MAX)];
    let staged = priorities.map(|(n, priority)| event(n).priority(priority)).to_vec();
    assert_eq!(stage(harness, staged).await.len(), 6);
    let now = soon(harness).await;
    assert_eq!(ids(&claim(harness, 3, now).await), ids_of([4, 2, 5]));
    assert_eq!(ids(&claim(harness, 10, now).await), ids_of([1, 3, 6]));
}

/// What a claim returns is the row as it now is.
pub async fn claimed_entries_show_their_state_after_the_claim<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let claimed = claim(harness, 10, now).await;
    for entry in &claimed {
        assert_eq!((entry.status, entry.attempts), (Status::InFlight, 1));
        assert_eq!(entry.due_at, Some(now.saturating_add(LEASE)));
        assert_eq!(entry.last_attempt_at, Some(now));
        assert_eq!(entry.owner.as_deref(), Some("worker-1"));
        assert!(entry.fence.0 >= now.as_micros(), "{:?}", entry.fence);
        assert_eq!(entry.settled_at, None);
    }
    assert_eq!(all(harness).await, claimed);
}

/// Due means that the time has come, to the microsecond.
pub async fn an_entry_due_at_exactly_now_is_claimable<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, retry(SECOND), now).await;
    let due = now.saturating_add(SECOND);
    assert!(claim(harness, 10, due.saturating_sub(Duration::from_micros(1))).await.is_empty());
    assert_eq!(ids(&claim(harness, 10, due).await), [id(1)]);
}

/// Until the lease ends no other claim gets it, under any name.
pub async fn an_entry_under_a_live_lease_is_not_claimable<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    let last = now.saturating_add(LEASE).saturating_sub(Duration::from_micros(1));
    for owner in ["worker-1", "worker-2"] {
        let request = ClaimRequest { owner: owner.into(), ..claim_request(10, last) };
        assert!(claim_as(harness, request).await.is_empty());
    }
    assert_eq!(entry(harness, 1).await, held);
}

/// Delivered, dead and discarded entries stay where they are.
pub async fn a_terminal_entry_is_not_claimable<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    assert_eq!(harness.store().discard(select_ids([2])).await.unwrap().changed, 1);
    assert_eq!(stage(harness, vec![event(3)]).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, Verdict::Delivered, now).await;
    let statuses: Vec<_> = all(harness).await.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [Status::Dead, Status::Discarded, Status::Delivered]);
    assert!(all(harness).await.iter().all(|entry| entry.due_at.is_none()));
    assert!(claim(harness, 10, now.saturating_add(HOUR * 24 * 365)).await.is_empty());
}

/// A relay only sees its own route.
pub async fn a_claim_leaves_other_routes_alone<H: StoreHarness>(harness: &H) {
    assert_eq!(stage_on(harness, "mails", vec![event(1)]).await.len(), 1);
    assert_eq!(stage(harness, vec![event(2)]).await.len(), 1);
    let now = soon(harness).await;
    assert_eq!(ids(&claim(harness, 10, now).await), [id(2)]);
    assert_eq!(entry(harness, 1).await.status, Status::Pending);
    let request = ClaimRequest { route: route("nobody"), ..claim_request(10, now) };
    assert!(claim_as(harness, request).await.is_empty());
}

/// The claim is the attempt: what a dead worker left is handed out again with the spent attempt counted.
pub async fn an_expired_lease_is_claimed_again_and_counts_as_an_attempt<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let first = claim_one(harness, now).await;
    let later = now.saturating_add(LEASE);
    assert!(claim(harness, 10, later).await.is_empty(), "it has to be reaped first");
    let request = ClaimRequest { owner: "worker-2".into(), ..claim_request(10, later) };
    let second = overtake(harness, request).await.remove(0);
    assert_eq!(second.crashes, 1);
    assert_eq!((second.event_id, second.attempts, second.status), (id(1), 2, Status::InFlight));
    assert_eq!(second.owner.as_deref(), Some("worker-2"));
    assert_eq!(second.last_attempt_at, Some(later));
    assert!(second.fence > first.fence);
}

/// An entry that kills its worker every time ends as dead, audited: after the crashes that it may have had in company, and
/// exactly the allowed attempts on its own.
pub async fn a_crash_loop_runs_out_of_attempts<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let mut now = soon(harness).await;
    assert_eq!(claim_one(harness, now).await.attempts, 1);
    let last = CRASHES_IN_COMPANY + 3;
    for attempt in 2..=last {
        now = now.saturating_add(LEASE);
        let request = ClaimRequest { max_attempts: 3, ..claim_request(10, now) };
        let entry = overtake(harness, request).await.remove(0);
        assert_eq!((entry.attempts, entry.crashes), (attempt, attempt - 1));
    }
    now = now.saturating_add(LEASE);
    let reaped = reap(harness, ReapRequest { max_attempts: Some(3), ..reap_request(now) }).await;
    assert_eq!(
        reaped.dead.iter().map(|death| (death.event_id, death.attempts)).collect::<Vec<_>>(),
        [(id(1), last)]
    );
    assert_eq!((entry(harness, 1).await.status, entry(harness, 1).await.attempts), (Status::Dead, last));
}

/// An entry's own number goes over the route's, in both directions.
pub async fn an_entrys_own_limit_of_attempts_wins<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1).max_attempts(1), event(2).max_attempts(3)]).await.len(), 2);
    let now = soon(harness).await;
    for wanted in [ids_of([1, 2]), ids_of([2]), ids_of([2]), vec![]] {
        let request = ClaimRequest { max_attempts: 2, ..claim_request(10, now) };
        let claimed = claim_as(harness, request).await;
        let mut claimed_ids = ids(&claimed);
        claimed_ids.sort_unstable();
        assert_eq!(claimed_ids, wanted);
        for entry in &claimed {
            settle(harness, entry, retry(Duration::ZERO), now).await;
        }
    }
}

/// Four claimers take 400 entries at the same time: each entry goes to one of them, none is left.
pub async fn two_concurrent_claimers_never_share_an_entry<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(400)).await.len(), 400);
    let now = soon(harness).await;
    let mut claimers = JoinSet::new();
    for claimer in 0..4 {
        let store = harness.store();
        claimers.spawn(async move {
            let mut taken: Vec<EventId> = vec![];
            // A claimer may come up empty while others hold the locks of what is left, so an empty claim
            // does not end it; the number of rounds does.
            for _ in 0..60 {
                let owner = format!("worker-{claimer}");
                let claim = store.claim(ClaimRequest { owner, ..claim_request(7, now) }).await.unwrap();
                assert!(claim.entries.len() <= 7);
                taken.extend(claim.entries.iter().map(|entry| entry.event_id));
                tokio::task::yield_now().await;
            }
            taken
        });
    }
    let mut times: BTreeMap<EventId, u32> = BTreeMap::new();
    for taken in claimers.join_all().await {
        for id in taken {
            *times.entry(id).or_default() += 1;
        }
    }
    for entry in claim(harness, 400, now).await {
        *times.entry(entry.event_id).or_default() += 1;
    }
    assert_eq!(times.len(), 400, "every entry was handed out");
    assert!(times.values().all(|times| *times == 1), "an entry was handed out twice");
    assert!(all(harness).await.iter().all(|entry| entry.attempts == 1));
}

/// A claim skips a row that another transaction has locked, and finds it again when the lock is released.
pub async fn a_claim_skips_locked_rows_without_waiting<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    tamper!(harness, Tamper::LockEntry(id(2)));
    let now = soon(harness).await;
    assert_eq!(ids(&claim(harness, 10, now).await), ids_of([1, 3]));
    assert!(harness.tamper(Tamper::UnlockEntries).await);
    assert_eq!(ids(&claim(harness, 10, now).await), ids_of([2]));
}

/// Progress is never "the last seq I saw": what commits late is still found.
pub async fn a_lower_seq_that_commits_later_is_still_claimed<H: StoreHarness>(harness: &H) {
    several_writers!(harness);
    let outbox = harness.outbox(ROUTE);
    let mut slow = harness.begin().await;
    assert_eq!(outbox.stage_all(&mut slow, vec![event(1)]).await.unwrap().len(), 1);
    assert_eq!(stage(harness, vec![event(2)]).await.len(), 1);
    let now = soon(harness).await;
    let newer = claim_one(harness, now).await;
    assert_eq!(newer.event_id, id(2));
    settle(harness, &newer, Verdict::Delivered, now).await;
    harness.commit(slow).await;
    let older = claim_one(harness, soon(harness).await).await;
    assert_eq!(older.event_id, id(1));
    assert!(older.seq < newer.seq, "the case needs a lower seq that commits later");
}

/// At the database's own time, and after so many that a store may begin where its last claim ended. What is put before that
/// place is claimed all the same, although there is always more behind it.
pub async fn what_comes_before_the_last_claim_is_claimed_at_the_databases_time<H: StoreHarness>(harness: &H) {
    const PASSED: u64 = 6_000;
    const URGENT: u64 = 1_000_000;
    let deliver = async |limit| {
        let request = ClaimRequest { now: None, ..claim_request(limit, harness_now()) };
        let entries = claim_as(harness, request).await;
        let verdicts = entries.iter().map(|entry| (entry.held(), Verdict::Delivered)).collect();
        assert!(settle_all(harness, verdicts, harness.now().await).await.fenced.is_empty());
        ids(&entries)
    };
    bury(harness, [1]).await;
    assert_eq!(stage(harness, (2..2 + PASSED).map(event).collect()).await.len() as u64, PASSED);
    for _ in 0..PASSED / 500 {
        assert_eq!(deliver(500).await.len(), 500);
    }
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert_eq!(stage(harness, vec![event(URGENT).priority(1)]).await.len(), 1);
    let mut awaited = ids_of([1, URGENT]);
    let mut next = 2 + PASSED;
    while !awaited.is_empty() {
        assert_eq!(stage(harness, (next..next + 20).map(event).collect()).await.len(), 20);
        next += 20;
        let delivered = deliver(20).await;
        assert_eq!(delivered.len(), 20);
        awaited.retain(|id| !delivered.contains(id));
    }
}

/// Zero is a number.
pub async fn a_limit_of_zero_claims_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    assert!(claim(harness, 0, soon(harness).await).await.is_empty());
    assert_eq!(entry(harness, 1).await.attempts, 0);
}

/// No database error has to say it.
pub async fn what_is_out_of_range_is_refused_with_a_typed_error<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let good = || claim_request(10, harness_now());
    let bad = [
        ClaimRequest { limit: BATCH_MAX + 1, ..good() },
        ClaimRequest { lease: Duration::ZERO, ..good() },
        ClaimRequest { lease: LEASE_MAX + SECOND, ..good() },
        ClaimRequest { max_attempts: 0, ..good() },
        ClaimRequest { max_attempts: ATTEMPTS_MAX + 1, ..good() },
        ClaimRequest { owner: String::new(), ..good() },
    ];
    let store = harness.store();
    for request in bad {
        let error = store.claim(request.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{request:?}: {error}");
    }
    let extend = ExtendRequest { held: vec![], lease: Duration::ZERO, now: None };
    assert_eq!(store.extend(extend).await.unwrap_err().kind(), ErrorKind::Invalid);
    let mut over = reap_request(harness_now());
    over.limit = BATCH_MAX + 1;
    assert_eq!(store.reap(over).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(entry(harness, 1).await.attempts, 0);
}

/// Any time: a refused request never gets as far as looking at it.
fn harness_now() -> pillarbox_core::Timestamp {
    pillarbox_core::Timestamp::MIN
}

/// Due times and leases follow the database, not the worker: here the database is an hour ahead.
pub async fn without_a_pinned_time_the_databases_clock_decides<H: StoreHarness>(harness: &H) {
    let staged = vec![event(1), event(2).delay(HOUR / 2), event(3).delay(HOUR * 2)];
    assert_eq!(stage(harness, staged).await.len(), 3);
    let ahead = harness.tamper(Tamper::AdvanceClock(HOUR)).await;
    if !ahead {
        skip("the database's clock is the worker's own");
    }
    let before = harness.now().await;
    let request = ClaimRequest { now: None, ..claim_request(10, before) };
    let mut claimed = claim_as(harness, request).await;
    let after = harness.now().await;
    claimed.sort_by_key(|entry| entry.event_id);
    assert_eq!(ids(&claimed), ids_of(if ahead { 1..=2 } else { 1..=1 }), "due by the database's clock");
    for entry in &claimed {
        let began = entry.last_attempt_at.expect("a claimed entry knows when its attempt began");
        assert!(before <= began && began <= after, "{before} <= {began} <= {after}");
        assert_eq!(entry.due_at, Some(began.saturating_add(LEASE)));
    }

    let store = harness.store();
    let held = claimed.iter().map(Entry::held).collect();
    let before = harness.now().await.saturating_add(HOUR);
    let extended = store.extend(ExtendRequest { held, lease: HOUR, now: None }).await.unwrap();
    assert!(extended.fenced.is_empty());
    let after = harness.now().await.saturating_add(HOUR);
    let until = entry(harness, 1).await.due_at.expect("a lease has an end");
    assert!(before <= until && until <= after, "{before} <= {until} <= {after}");
    if ahead {
        // By the worker's clock the leases have an hour to go yet.
        assert!(harness.tamper(Tamper::AdvanceClock(HOUR)).await);
        let reaped = store.reap(ReapRequest { now: None, ..reap_request(after) }).await.unwrap();
        assert_eq!(reaped.stale, 2, "expired by the database's clock");
    }
}

/// The number that proves a claim grows through retries, releases, expired leases and requeues.
pub async fn the_fence_grows_with_every_claim<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let mut now = soon(harness).await;
    let mut last = claim_one(harness, now).await;
    for verdict in [Some(retry(Duration::ZERO)), Some(release()), None, Some(dead())] {
        match verdict {
            Some(Verdict::Dead { failure, .. }) => {
                settle(harness, &last, Verdict::dead(failure), now).await;
                assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
            }
            Some(verdict) => settle(harness, &last, verdict, now).await,
            None => {
                now = now.saturating_add(LEASE);
                assert_eq!(reap(harness, reap_request(now)).await.released, 1);
            }
        }
        // What came back from an expired lease comes as a suspect.
        let mut next = claim(harness, 1, now).await;
        next.append(&mut claim_suspects(harness, 0, now).await.entries);
        let next = next.remove(0);
        assert!(next.fence > last.fence, "{:?} after {:?}", next.fence, last.fence);
        last = next;
    }
}

/// Also where the database's clock was set back, or came back from a failover with an older one.
pub async fn the_fence_grows_when_the_clock_steps_back<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let first = claim_one(harness, now.saturating_add(HOUR)).await;
    settle(harness, &first, release(), now).await;
    let second = claim_one(harness, now).await;
    assert!(second.fence > first.fence);
    let settled = settle_all(harness, vec![(first.held(), Verdict::Delivered)], now).await;
    assert_eq!((settled.accepted, settled.fenced), (0, vec![first.held()]));
}

/// Neither a heap of retries nor a heap of fresh entries keeps the others waiting.
pub async fn retries_and_fresh_entries_share_a_batch<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(10)).await.len(), 10);
    let now = soon(harness).await;
    let failed = claim(harness, 10, now).await;
    let settlements = failed.iter().map(|entry| (entry.held(), retry(SECOND))).collect();
    assert_eq!(settle_all(harness, settlements, now).await.accepted, 10);
    assert_eq!(stage(harness, (11..=20).map(event).collect()).await.len(), 10);
    let batch = claim(harness, 6, now.saturating_add(HOUR)).await;
    let fresh = batch.iter().filter(|entry| entry.attempts == 1).count();
    assert_eq!(batch.len(), 6);
    assert_eq!(fresh, 3, "half of the batch is for fresh entries");
}

/// A long handler keeps what it holds.
pub async fn a_lease_can_be_extended<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let later = now.saturating_add(LEASE - SECOND);
    let request = ExtendRequest { held: vec![held[0].held()], lease: LEASE, now: Some(later) };
    assert!(harness.store().extend(request).await.unwrap().fenced.is_empty());
    let extended = entry(harness, 1).await;
    assert_eq!(extended.due_at, Some(later.saturating_add(LEASE)));
    assert_eq!((extended.attempts, extended.fence), (1, held[0].fence));
    assert_eq!(ids(&overtake(harness, claim_request(10, now.saturating_add(LEASE))).await), [id(2)]);
}

/// What is settled, lost to another owner or gone is reported, and keeps its state.
pub async fn a_stale_fence_extends_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let now = soon(harness).await;
    let old = claim(harness, 3, now).await;
    settle(harness, &old[0], Verdict::Delivered, now).await;
    let later = now.saturating_add(LEASE);
    let new = overtake(harness, claim_request(1, later)).await;
    assert_eq!(ids(&new), [id(2)]);
    let before = all(harness).await;
    let gone = pillarbox_core::Held { seq: i64::MAX, ..old[0].held() };
    let held = vec![old[0].held(), old[1].held(), gone];
    let request = ExtendRequest { held: held.clone(), lease: HOUR, now: Some(later) };
    let mut fenced = Arc::clone(&harness.store()).extend(request).await.unwrap().fenced;
    fenced.sort_unstable();
    let mut wanted = held;
    wanted.sort_unstable();
    assert_eq!(fenced, wanted);
    assert_eq!(all(harness).await, before);
}
