//! Operating: what an operator changes is noticed by the reader, and what a reader holds is seen by the operator.

use pillarbox_core::port::{
    Admin, AnnounceRequest, Effect, Filter, Head, HeadKind, HeadsRequest, LANES, LaneBacklog, LaneCursor,
    Lanes, PauseChange, PauseRequest, PauseTo, RunId, Selection, SelectionRequest, Skip, Verdict,
};
use pillarbox_core::{CircuitState, Entry, OnDead, Standing, Status};

use super::LanesHarness;
use super::steps::*;

async fn heads_in<H: LanesHarness>(harness: &H, lanes: impl IntoIterator<Item = u8>) -> Vec<Head> {
    let request = HeadsRequest { route: route(ROUTE), lanes: lanes.into_iter().collect() };
    let mut heads = harness.store().heads(request).await.unwrap();
    heads.sort_by_key(|head| head.seq);
    heads
}

/// The lane's number of changes grows, so that its reader looks at what it has passed; the entry is back in its place.
pub async fn a_requeue_is_noticed_by_the_lane<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let read = reader.read_all().await;
    let entries = read.entries;
    let lane = entries[0].lane.unwrap();
    reader.settle(&entries[0], dead(), now).await;
    assert_eq!(reader.passed(&read.cursor).await.seqs, [entries[1].seq]);

    let (own, other) = (reader.revision(lane).await, reader.revision((lane + 1) % LANES).await);
    let dry = SelectionRequest { effect: Effect::DryRun, ..select_ids([1]) };
    assert_eq!(harness.store().requeue(dry).await.unwrap().changed, 1);
    assert_eq!(reader.revision(lane).await, own, "a dry run changes nothing");
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert!(reader.revision(lane).await > own);
    assert_eq!(reader.revision((lane + 1) % LANES).await, other, "another lane has nothing to look for");

    assert_eq!(reader.passed(&read.cursor).await.seqs, [entries[0].seq, entries[1].seq]);
    let back = reader.fetch(vec![entries[0].seq]).await.entries.remove(0);
    assert_eq!((back.event_id, back.status, back.attempts), (id(1), Status::Pending, 0));
    reader.settle(&back, Verdict::Delivered, now).await;
}

/// A dead head that is given up for good no longer holds anything back: the reader of its lane learns of it.
pub async fn a_discard_is_noticed_by_the_lane<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    let lane = entries[0].lane.unwrap();
    reader.settle(&entries[0], dead(), now).await;
    let before = reader.revision(lane).await;
    assert_eq!(heads_in(harness, [lane]).await.len(), 1);
    assert_eq!(harness.store().discard(select_ids([1])).await.unwrap().changed, 1);
    assert!(reader.revision(lane).await > before);
    assert_eq!(heads_in(harness, [lane]).await, []);
    assert_eq!(ids(&reader.entries().await), ids_of([2]));
}

/// Dead entries with a key, of the lanes and the route that were asked for.
pub async fn dead_heads_are_listed_by_lane<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), event(2), keyed(3, "b"), keyed(4, "a")]).await.len(), 4);
    assert_eq!(stage_on(harness, "mails", vec![keyed(5, "a")]).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let mails = Reader::join_on(harness, "mails", 2, now).await;
    mails.settle(&mails.entries().await[0], dead(), now).await;
    let entries = reader.entries().await;
    assert_eq!(heads_in(harness, 0..LANES).await, []);
    for n in [0, 1, 3] {
        reader.settle(&entries[n], dead(), now).await;
    }
    let head = |n: usize| Head {
        seq: entries[n].seq,
        key: "a".into(),
        lane: entries[n].lane.unwrap(),
        kind: HeadKind::Dead,
    };
    assert_eq!(heads_in(harness, 0..LANES).await, [head(0), head(3)]);
    assert_eq!(heads_in(harness, [head(0).lane]).await, [head(0), head(3)]);
    assert_eq!(heads_in(harness, (0..LANES).filter(|lane| *lane != head(0).lane)).await, []);
    assert_eq!(heads_in(harness, []).await, []);
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert_eq!(heads_in(harness, 0..LANES).await, [head(3)]);
}

/// Nothing is stored when an entry is handed out; what a lane has handed out and not settled is still counted.
pub async fn counts_show_what_lanes_have_handed_out<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "a")]).await.len(), 3);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    assert_eq!(counted(harness).await, [3, 0, 0]);
    let read = reader.read(&LaneCursor::default(), everywhere(2)).await.entries;
    assert_eq!(read.len(), 2);
    assert_eq!(counted(harness).await, [1, 2, 0]);
    reader.settle(&read[0], Verdict::Delivered, now).await;
    assert_eq!(counted(harness).await, [1, 1, 1]);
    reader.leave().await;
    assert_eq!(counted(harness).await, [2, 0, 1], "what nobody holds is in nobody's hands");
}

async fn counted<H: LanesHarness>(harness: &H) -> [u64; 3] {
    let mut counts = [0; 3];
    for (count, status) in counts.iter_mut().zip([Status::Pending, Status::InFlight, Status::Delivered]) {
        *count = crate::store::steps::count(harness, status).await;
    }
    counts
}

async fn backlogs<H: LanesHarness>(harness: &H) -> Vec<LaneBacklog> {
    harness.store().lanes_of(&route(ROUTE)).await.unwrap()
}

/// The lanes in which these entries wait.
fn wanted(entries: &[Entry], owner: impl Fn(u8) -> Option<String>) -> Vec<LaneBacklog> {
    let waiting = |lane: u8| entries.iter().filter(|entry| entry.lane == Some(lane)).count() as u64;
    (0..LANES).map(|lane| LaneBacklog { lane, waiting: waiting(lane), owner: owner(lane) }).collect()
}

/// Every lane by number, with what is unsettled in it and the relay that holds it, if one does.
pub async fn lanes_tell_what_waits_and_who_holds_them<H: LanesHarness>(harness: &H) {
    let staged = vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "b"), event(4), event(5).delay(HOUR)];
    assert_eq!(stage(harness, staged).await.len(), 5);
    assert_eq!(stage_on(harness, "mails", vec![keyed(6, "a")]).await.len(), 1);
    assert_eq!(backlogs(harness).await, [], "no relay has read them");
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let mut entries = reader.entries().await;
    assert_eq!(entries.len(), 5);
    assert_eq!(backlogs(harness).await, wanted(&entries, |_| Some("worker-1".into())));
    reader.settle(&entries.remove(0), Verdict::Delivered, now).await;
    assert_eq!(backlogs(harness).await, wanted(&entries, |_| Some("worker-1".into())));
    let mut readers = [reader, Reader::join(harness, 2, now).await];
    balance(&mut readers, LANES, now).await;
    let holder = |lane: u8| readers.iter().position(|reader| reader.lanes.contains_key(&lane));
    let shared = wanted(&entries, |lane| Some(format!("worker-{}", holder(lane)? + 1)));
    assert_eq!(backlogs(harness).await, shared);
    for reader in &readers {
        reader.leave().await;
    }
    assert_eq!(backlogs(harness).await, wanted(&entries, |_| None), "they wait, whoever holds them");
    assert_eq!(harness.store().lanes_of(&route("mails")).await.unwrap(), [], "another route is read by rows");
}

/// The entries listed as in flight, blocked or pending are those that are counted so, whichever session has
/// read them.
pub async fn a_listing_agrees_with_the_counts_of_lanes<H: LanesHarness>(harness: &H) {
    let Some(presence) = harness.presence() else {
        crate::case::skip("the store keeps no presence of relays");
        return;
    };
    let staged =
        vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "b"), keyed(4, "a"), event(5), event(6).delay(HOUR)];
    assert_eq!(stage(harness, staged).await.len(), 6);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    assert_eq!(stage(harness, vec![keyed(7, "b")]).await.len(), 1);
    let agree = async |wanted: [(Standing, &[u64]); 4]| {
        let counts = harness.store().counts(None).await.unwrap().remove(0);
        for (standing, wanted) in wanted {
            let listed = harness.store().list(Filter::default().status(standing)).await.unwrap();
            assert_eq!(ids(&listed), ids_of(wanted.iter().copied()), "{standing}");
            let counted = match standing {
                Standing::Is(status) => counts.of(status),
                Standing::Blocked => counts.blocked,
            };
            assert_eq!(counted, wanted.len() as u64, "{standing}");
            let seen = all(harness).await;
            let seen = seen.iter().filter(|entry| entry.standing() == standing).count();
            assert_eq!(seen, wanted.len(), "{standing}, in a listing of everything");
        }
    };
    let is = Standing::Is;
    let (pending, in_flight) = (is(Status::Pending), is(Status::InFlight));
    let dead_ones = is(Status::Dead);
    agree([(pending, &[6, 7]), (in_flight, &[1, 2, 3, 4, 5]), (Standing::Blocked, &[]), (dead_ones, &[])])
        .await;
    assert_eq!(entry(harness, 3).await.status, Status::InFlight, "the story says it too");
    reader.settle(&entries[0], dead(), now).await;
    presence.announce(blocking()).await.unwrap();
    agree([(pending, &[6, 7]), (in_flight, &[3, 5]), (Standing::Blocked, &[2, 4]), (dead_ones, &[1])]).await;
    reader.leave().await;
    agree([(pending, &[3, 5, 6, 7]), (in_flight, &[]), (Standing::Blocked, &[2, 4]), (dead_ones, &[1])])
        .await;
}

/// A relay by lanes that a dead entry blocks.
fn blocking() -> AnnounceRequest {
    AnnounceRequest {
        run: RunId(1),
        route: route(ROUTE),
        owner: "worker-1".into(),
        mode: "run".into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit: CircuitState::Closed,
        outage: None,
        lease: LEASE,
        on_dead: Some(OnDead::Block),
        now: None,
    }
}

async fn set_pause<H: LanesHarness>(harness: &H, to: PauseTo) {
    let request =
        PauseRequest { route: route(ROUTE), to, actor: "ops".into(), reason: String::new(), now: None };
    assert_eq!(harness.store().set_pause(request).await.unwrap(), PauseChange::Changed);
}

/// While a route is paused, its sessions must give up all their lanes, and no session gets any.
pub async fn a_paused_route_leaves_no_lane_to_anybody<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a")]).await.len(), 1);
    let now = soon(harness).await;
    let mut reader = Reader::join(harness, 1, now).await;
    assert_eq!(reader.lanes.len(), usize::from(LANES));
    let before = reader.lanes.clone();
    set_pause(harness, PauseTo::Paused).await;
    let _ = reader.attend(now).await;
    assert_eq!((reader.lanes.len(), reader.surplus.len()), (64, 64), "what is in flight may be finished");
    reader.hand_over(reader.surplus.clone()).await;
    let _ = reader.attend(now).await;
    assert!(reader.lanes.is_empty());
    let other = Reader::join(harness, 2, now).await;
    assert!(other.lanes.is_empty(), "who joins gets none either");
    other.leave().await;
    set_pause(harness, PauseTo::Running).await;
    let _ = reader.attend(now).await;
    assert_eq!((reader.lanes.len(), reader.surplus.len()), (64, 0));
    assert!(reader.lanes.iter().all(|(lane, fence)| *fence > before[lane]));
    assert_eq!(ids(&reader.entries().await), ids_of([1]));
}

/// The session that holds the lane may have read the entry: it is skipped with that reason, by id and by a
/// filter. Once no session holds the lane it is cancelled, and never read.
pub async fn an_entry_of_a_held_lane_is_not_cancelled<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    for selection in [Selection::Ids(ids_of([1])), Selection::Matching(Filter::default().key("a"))] {
        let changed = harness.store().cancel(select(selection)).await.unwrap();
        assert_eq!(changed.changed, 0);
        assert!(changed.skipped > 0 && changed.skips.iter().all(|skip| skip.why == Skip::LaneHeld));
    }
    reader.leave().await;
    assert_eq!(harness.store().cancel(select_ids([1])).await.unwrap().changed, 1);
    let reader = Reader::join(harness, 2, now).await;
    assert_eq!(ids(&reader.entries().await), ids_of([2]));
}

/// The lane's number of changes grows, so that its reader looks at what it knows to wait.
pub async fn a_hastened_entry_is_noticed_by_the_lane<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a")]).await.len(), 1);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    let lane = entries[0].lane.unwrap();
    reader.settle(&entries[0], retry(HOUR), now).await;
    let before = reader.revision(lane).await;
    assert_eq!(harness.store().hasten(select_ids([1])).await.unwrap().changed, 1);
    assert!(reader.revision(lane).await > before);
    let due = reader.fetch(vec![entries[0].seq]).await.entries.remove(0);
    assert_eq!((due.status, due.attempts, due.due_at), (Status::Retrying, 1, None));
}
