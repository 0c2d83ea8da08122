//! The steps that cases are made of, so that a case reads as what it shows.

use std::time::Duration;

use pillarbox_core::port::{
    Admin, Claim, ClaimOrder, ClaimRequest, Company, Effect, Filter, Keep, Leases, ReapRequest, Reaped,
    Selection, SelectionRequest, SettleRequest, Settled, Settlement, Stage, Steps, Store, Verdict,
};
use pillarbox_core::{
    AuditKind, Entry, Event, EventId, Failure, FailureKind, Held, RouteName, Staged, Status, Timestamp,
};

use crate::StoreHarness;

pub(crate) const ROUTE: &str = "orders";
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn route(name: &str) -> RouteName {
    RouteName::new(name).unwrap()
}

/// Names that a person may take for one another, and a database for one: they differ in case, in how an accent is written,
/// or in a space.
pub(crate) const ALIKE: [&str; 8] =
    ["cafe", "Cafe", "caf\u{e9}", "cafe\u{301}", "caf\u{e9} ", " cafe", "cafe ", "cafe\u{a0}"];

/// An id that only depends on `n`, so that a failure can be read.
pub(crate) fn id(n: u64) -> EventId {
    EventId(uuid::Uuid::from_u64_pair(0x0190_0000_0000_7000, 0x8000_0000_0000_0000 | n))
}

/// An event whose id is `id(n)`.
pub(crate) fn event(n: u64) -> Event {
    Event::new("order.placed", format!("{{\"n\":{n}}}")).id(id(n))
}

/// `count` events with the ids 1, 2, …
pub(crate) fn events(count: u64) -> Vec<Event> {
    (1..=count).map(event).collect()
}

/// Stages in a transaction of its own and commits it.
pub(crate) async fn stage_on<H: StoreHarness>(harness: &H, route: &str, events: Vec<Event>) -> Vec<Staged> {
    let mut tx = harness.begin().await;
    let staged = harness.outbox(route).stage_all(&mut tx, events).await.unwrap();
    harness.commit(tx).await;
    staged
}

/// Stages on [`ROUTE`] and commits.
pub(crate) async fn stage<H: StoreHarness>(harness: &H, events: Vec<Event>) -> Vec<Staged> {
    stage_on(harness, ROUTE, events).await
}

/// A time at which everything that was staged so far is due, by whatever clock staged it.
pub(crate) async fn soon<H: StoreHarness>(harness: &H) -> Timestamp {
    harness.now().await.saturating_add(SECOND)
}

pub(crate) fn claim_request(limit: u32, now: Timestamp) -> ClaimRequest {
    ClaimRequest {
        route: route(ROUTE),
        limit,
        lease: LEASE,
        owner: "worker-1".into(),
        max_attempts: 5,
        order: ClaimOrder::Staged,
        company: Company::Open,
        steps: Steps::Leave,
        now: Some(now),
    }
}

/// Claims on [`ROUTE`]; everything must be decodable.
pub(crate) async fn claim<H: StoreHarness>(harness: &H, limit: u32, now: Timestamp) -> Vec<Entry> {
    claim_as(harness, claim_request(limit, now)).await
}

pub(crate) async fn claim_as<H: StoreHarness>(harness: &H, request: ClaimRequest) -> Vec<Entry> {
    let claim = harness.store().claim(request).await.unwrap();
    assert!(claim.undecodable.is_empty(), "{:?}", claim.undecodable);
    claim.entries
}

/// Claims suspects, with this many entries in flight already.
pub(crate) async fn claim_suspects<H: StoreHarness>(harness: &H, beside: u32, now: Timestamp) -> Claim {
    let company = Company::Suspects { beside };
    harness.store().claim(ClaimRequest { company, ..claim_request(1_000, now) }).await.unwrap()
}

/// What another relay gets once leases have expired: it reaps, and claims what came back.
pub(crate) async fn overtake<H: StoreHarness>(harness: &H, request: ClaimRequest) -> Vec<Entry> {
    let now = request.now.expect("a case sets the time");
    let (max_attempts, steps) = (Some(request.max_attempts), request.steps);
    let _ = reap(harness, ReapRequest { max_attempts, steps, ..reap_request(now) }).await;
    claim_as(harness, ClaimRequest { company: Company::Suspects { beside: 0 }, ..request }).await
}

/// Claims exactly one entry.
pub(crate) async fn claim_one<H: StoreHarness>(harness: &H, now: Timestamp) -> Entry {
    let mut entries = claim(harness, 1, now).await;
    assert_eq!(entries.len(), 1, "one entry should be claimable");
    entries.remove(0)
}

pub(crate) fn ids(entries: &[Entry]) -> Vec<EventId> {
    entries.iter().map(|entry| entry.event_id).collect()
}

pub(crate) fn ids_of(numbers: impl IntoIterator<Item = u64>) -> Vec<EventId> {
    numbers.into_iter().map(id).collect()
}

pub(crate) fn failure() -> Failure {
    Failure::new(FailureKind::Failed, "busy", "the other side is busy")
}

pub(crate) fn retry(after: Duration) -> Verdict {
    Verdict::retry(after, failure())
}

pub(crate) fn dead() -> Verdict {
    Verdict::dead(Failure::new(FailureKind::Rejected, "unroutable", "nobody takes it"))
}

pub(crate) fn release() -> Verdict {
    Verdict::release(None)
}

pub(crate) fn settle_request(settlements: Vec<(Held, Verdict)>, now: Timestamp) -> SettleRequest {
    SettleRequest {
        owner: "worker-1".into(),
        settlements: settlements.into_iter().map(|(held, verdict)| Settlement { held, verdict }).collect(),
        keep: Keep::UntilPurged,
        now: Some(now),
    }
}

pub(crate) async fn settle_all<H: StoreHarness>(
    harness: &H,
    settlements: Vec<(Held, Verdict)>,
    now: Timestamp,
) -> Settled {
    harness.store().settle(settle_request(settlements, now)).await.unwrap()
}

/// Settles one entry that is still held.
pub(crate) async fn settle<H: StoreHarness>(harness: &H, entry: &Entry, verdict: Verdict, now: Timestamp) {
    let settled = settle_all(harness, vec![(entry.held(), verdict)], now).await;
    assert_eq!(settled, Settled { accepted: 1, fenced: vec![] });
}

/// Stages the event `n` and leaves it dead.
pub(crate) async fn bury<H: StoreHarness>(harness: &H, numbers: impl IntoIterator<Item = u64>) {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let staged = stage(harness, numbers.iter().map(|n| event(*n)).collect()).await;
    assert_eq!(staged.len(), numbers.len());
    let now = soon(harness).await;
    let entries = claim(harness, u32::try_from(numbers.len()).unwrap(), now).await;
    assert_eq!(ids(&entries), ids_of(numbers), "only what is to be buried may be claimable");
    let settlements = entries.iter().map(|entry| (entry.held(), dead())).collect();
    assert!(settle_all(harness, settlements, now).await.fenced.is_empty());
}

pub(crate) fn reap_request(now: Timestamp) -> ReapRequest {
    ReapRequest {
        route: Some(route(ROUTE)),
        limit: 1000,
        max_attempts: Some(5),
        leases: Leases::Ended,
        steps: Steps::Leave,
        owner: "reaper".into(),
        effect: Effect::Apply,
        now: Some(now),
    }
}

pub(crate) async fn reap<H: StoreHarness>(harness: &H, request: ReapRequest) -> Reaped {
    harness.store().reap(request).await.unwrap()
}

pub(crate) fn select(selection: Selection) -> SelectionRequest {
    SelectionRequest { selection, limit: None, actor: "ops".into(), effect: Effect::Apply, now: None }
}

pub(crate) fn select_ids(numbers: impl IntoIterator<Item = u64>) -> SelectionRequest {
    select(Selection::Ids(ids_of(numbers)))
}

/// The one entry of this event.
pub(crate) async fn entry<H: StoreHarness>(harness: &H, n: u64) -> Entry {
    let mut stories = harness.store().show(id(n)).await.unwrap();
    assert_eq!(stories.len(), 1, "event {n} should be carried by one route");
    stories.remove(0).entry
}

/// Everything in the store, oldest first.
pub(crate) async fn all<H: StoreHarness>(harness: &H) -> Vec<Entry> {
    harness.store().list(Filter::default().limit(10_000)).await.unwrap()
}

/// Entries of [`ROUTE`] with this status.
pub(crate) async fn count<H: StoreHarness>(harness: &H, status: Status) -> u64 {
    let counts = harness.store().counts(None).await.unwrap();
    counts.iter().find(|counts| counts.route.as_str() == ROUTE).map_or(0, |counts| counts.of(status))
}

/// The audit trail as kinds and events, oldest first.
pub(crate) async fn audit<H: StoreHarness>(harness: &H) -> Vec<(AuditKind, Option<EventId>)> {
    let trail = harness.store().audit(10_000).await.unwrap();
    assert!(trail.is_sorted_by_key(|record| record.seq), "the trail is oldest first");
    trail.into_iter().map(|record| (record.kind, record.event_id)).collect()
}

/// Ends the case, and says so, where the store cannot be tampered with in this way.
macro_rules! tamper {
    ($harness:expr, $tamper:expr) => {
        if !$harness.tamper($tamper).await {
            $crate::case::skip(concat!("the store cannot ", stringify!($tamper)));
            return;
        }
    };
}
pub(crate) use tamper;

/// Ends the case, and says so, where the store has one writer at a time.
macro_rules! several_writers {
    ($harness:expr) => {
        if !$harness.concurrent_writers() {
            $crate::case::skip("the store has one writer at a time");
            return;
        }
    };
}
pub(crate) use several_writers;
