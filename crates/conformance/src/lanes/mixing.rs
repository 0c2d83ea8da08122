//! Mixing: a route that is changed from rows to lanes and back, also while relays of both kinds run.

use pillarbox_core::port::{
    Claim, ClaimRequest, Company, Head, HeadKind, HeadsRequest, IsolateRequest, LANES, Lanes, Store, Verdict,
};
use pillarbox_core::{CRASHES_IN_COMPANY, Entry, Status, Timestamp};

use super::LanesHarness;
use super::steps::*;

async fn claim_rows<H: LanesHarness>(harness: &H, request: ClaimRequest) -> Claim {
    Store::claim(&*harness.store(), request).await.unwrap()
}

async fn settle_rows<H: LanesHarness>(harness: &H, entries: &[Entry], verdict: Verdict, now: Timestamp) {
    let settlements = entries.iter().map(|entry| (entry.held(), verdict.clone())).collect();
    assert!(settle_all(harness, settlements, now).await.fenced.is_empty());
}

async fn leased_heads<H: LanesHarness>(harness: &H) -> Vec<Head> {
    let request = HeadsRequest { route: route(ROUTE), lanes: (0..LANES).collect() };
    let mut heads = harness.store().heads(request).await.unwrap();
    heads.retain(|head| head.kind == HeadKind::Leased);
    heads.sort_by_key(|head| head.seq);
    heads
}

/// From the first reader of lanes on the order of keys is a promise: a claim by rows would break it.
pub async fn rows_claim_nothing_while_a_route_is_read_by_lanes<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), keyed(2, "a")]).await.len(), 2);
    assert_eq!(stage_on(harness, "mails", vec![event(3)]).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    assert!(claim_rows(harness, claim_request(10, now)).await.entries.is_empty());
    let suspects = ClaimRequest { company: Company::Suspects { beside: 0 }, ..claim_request(10, now) };
    assert!(claim_rows(harness, suspects).await.entries.is_empty());
    let mails = ClaimRequest { route: route("mails"), ..claim_request(10, now) };
    assert_eq!(ids(&claim_rows(harness, mails).await.entries), ids_of([3]), "another route is not concerned");
    assert_eq!(reap(harness, reap_request(now)).await.lane_sessions, 1, "and whoever wonders is told why");
    reader.leave().await;
    assert_eq!(reap(harness, reap_request(now)).await.lane_sessions, 0);
    assert_eq!(claim_rows(harness, claim_request(10, now)).await.entries.len(), 2);
}

/// What a relay by rows has in flight stands before what is behind it, until it is settled or reaped.
pub async fn what_rows_have_in_flight_is_told_as_a_head<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), event(2), keyed(3, "b"), keyed(4, "a")]).await.len(), 4);
    let now = soon(harness).await;
    let claimed = claim_rows(harness, claim_request(3, now)).await.entries;
    assert_eq!(ids(&claimed), ids_of([1, 2, 3]));
    let reader = Reader::join(harness, 1, now).await;
    assert_eq!(ids(&reader.entries().await), ids_of([4]), "what is in flight by rows is not read");
    let heads = leased_heads(harness).await;
    let told: Vec<_> = heads.iter().map(|head| (head.seq, head.key.as_str())).collect();
    assert_eq!(told, [(claimed[0].seq, "a"), (claimed[2].seq, "b")], "only what has a key");
    assert_eq!(reader.fetch(vec![reader.entries().await[0].seq]).await.entries[0].lane, Some(heads[0].lane));
    settle_rows(harness, &claimed[..1], Verdict::Delivered, now).await;
    let lane = heads[1].lane;
    let revision = reader.revision(lane).await;
    settle_rows(harness, &claimed[2..], retry(SECOND), now).await;
    assert_eq!(leased_heads(harness).await, []);
    assert!(reader.revision(lane).await > revision, "it is a reader's now, who has to look for it");
    let mut read = ids(&reader.entries().await);
    read.sort_unstable();
    assert_eq!(read, ids_of([3, 4]));
}

/// A relay by lanes reaps the entries of a dead relay by rows.
pub async fn readers_of_lanes_reap_what_rows_left<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    let now = soon(harness).await;
    assert_eq!(claim_rows(harness, claim_request(1, now)).await.entries.len(), 1);
    let later = now.saturating_add(LEASE);
    let reader = Reader::join(harness, 1, later).await;
    assert_eq!(ids(&reader.entries().await), ids_of([2]));
    let reaped = harness.store().reap_rows(reap_request(later)).await.unwrap();
    assert_eq!((reaped.stale, reaped.released), (1, 1));
    let mut read = reader.entries().await;
    read.sort_by_key(|entry| entry.seq);
    assert_eq!(ids(&read), ids_of([1, 2]), "the one that it left is back in its place");
    assert!(read[0].is_suspect() && !read[1].is_suspect());
}

/// A relay by rows buries a dead relay by lanes: the entries that it had in flight are suspects.
pub async fn a_reap_by_rows_buries_sessions_of_lanes<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), event(2)]).await.len(), 2);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    assert_eq!(reader.entries().await.len(), 2);
    let (just_alive, expired) = lease_end(now);
    assert_eq!(reap(harness, reap_request(just_alive)).await.lane_sessions, 1);
    let reaped = reap(harness, reap_request(expired)).await;
    assert_eq!((reaped.lane_sessions, reaped.dead.len(), reaped.suspects), (0, 0, true));
    for entry in all(harness).await {
        assert_eq!((entry.status, entry.attempts, entry.crashes), (Status::Retrying, 1, 1));
    }
    assert_eq!(claim_suspects(harness, 0, expired).await.entries.len(), 2);
    assert!(reader.read_all().await.lost, "whoever was buried is told");
}

/// Who says what it has in flight is accused of nothing else: so an entry can be alone in a lane.
pub async fn a_session_that_says_what_it_has_is_taken_at_its_word<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "b"), keyed(3, "c")]).await.len(), 3);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let mut entries = reader.entries().await;
    entries.sort_by_key(|entry| entry.seq);
    let only = Some(vec![entries[1].seq]);
    let isolate = IsolateRequest { route: route(ROUTE), session: session(1), only };
    assert!(harness.store().isolate(isolate.clone()).await.unwrap());
    let later = now.saturating_add(LEASE);
    let next = Reader::join(harness, 2, later).await;
    let crashes: Vec<u32> = all(harness).await.iter().map(|entry| entry.crashes).collect();
    assert_eq!(crashes, [0, 1, 0]);
    assert!(!harness.store().isolate(isolate.clone()).await.unwrap(), "whoever was buried is told");

    // Back to everything that was read and is no suspect.
    assert_eq!(next.entries().await.len(), 3);
    for only in [Some(vec![]), None] {
        let isolate = IsolateRequest { session: session(2), only, ..isolate.clone() };
        assert!(harness.store().isolate(isolate).await.unwrap());
    }
    let _third = Reader::join(harness, 3, later.saturating_add(LEASE)).await;
    let crashes: Vec<u32> = all(harness).await.iter().map(|entry| entry.crashes).collect();
    assert_eq!(crashes, [1, 1, 1]);
}

/// Suspects are handed out only by a session that has said so. A relay that is killed again and again before it gets to them
/// is no reason to hold anything against them, nor against what is behind them.
pub async fn a_session_that_says_nothing_is_not_accused_of_suspects<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "b")]).await.len(), 2);
    let mut now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    assert_eq!(first.entries().await.len(), 2);
    now = now.saturating_add(LEASE);
    let second = Reader::join(harness, 2, now).await;
    assert_eq!(stage(harness, vec![keyed(3, "a"), keyed(4, "c")]).await.len(), 2);
    assert_eq!(second.entries().await.len(), 4);
    let _third = Reader::join(harness, 3, now.saturating_add(LEASE)).await;
    let crashes: Vec<u32> = all(harness).await.iter().map(|entry| entry.crashes).collect();
    assert_eq!(crashes, [1, 1, 0, 1], "the third is behind the first, which is a suspect");
}

/// However few attempts are allowed: only a crash that an entry had alone is its own, by lanes as by rows.
pub async fn a_burial_in_company_is_not_held_against_an_entry<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a").max_attempts(1)]).await.len(), 1);
    let mut now = soon(harness).await;
    for crash in 0..=CRASHES_IN_COMPANY {
        let reader = Reader::join(harness, u64::from(crash) + 1, now).await;
        let read = reader.takes_all().await;
        assert_eq!((read.len(), read[0].crashes), (1, crash));
        now = now.saturating_add(LEASE);
    }
    let mut last = attend_request(9, now);
    last.joins = true;
    let attendance = harness.store().attend(last).await.unwrap();
    assert_eq!(attendance.deaths.iter().map(|death| death.event_id).collect::<Vec<_>>(), ids_of([1]));
}

/// After the database's clock was set back, a dead session would hold its lanes as long as the step.
pub async fn a_session_whose_lease_begins_later_than_it_is_long_is_over<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let _ahead = Reader::join(harness, 1, now.saturating_add(HOUR)).await;
    let mut next = Reader::join(harness, 2, now.saturating_add(HOUR - LEASE)).await;
    assert_eq!(next.lanes.len(), 0, "a small step back takes nothing from who is alive");
    assert_eq!(next.attend(now).await.lanes.len(), 64);
}
