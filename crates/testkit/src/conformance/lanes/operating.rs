//! Operating: what an operator changes is noticed by the reader, and what a reader holds is seen by the operator.

use pillarbox_core::Status;
use pillarbox_core::port::{
    Admin, Effect, Head, HeadKind, HeadsRequest, LANES, LanePosition, Lanes, SelectionRequest, Verdict,
};

use super::LanesHarness;
use super::steps::*;

async fn heads_in<H: LanesHarness>(harness: &H, lanes: impl IntoIterator<Item = u8>) -> Vec<Head> {
    let request = HeadsRequest { route: route(ROUTE), lanes: lanes.into_iter().collect() };
    let mut heads = harness.store().heads(request).await.unwrap();
    heads.sort_by_key(|head| head.seq);
    heads
}

/// The lane's number of changes grows, so that its reader looks below its floor; the entry is back in its place.
pub async fn a_requeue_is_noticed_by_the_lane<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    let lane = entries[0].lane.unwrap();
    reader.settle(&entries[0], dead(), now).await;
    let here = vec![LanePosition { lane, floor: 0, cursor: entries[1].seq, limit: 0 }];
    assert_eq!(reader.read_at(here.clone()).await.present, [entries[1].seq]);

    let (own, other) = (reader.revision(lane).await, reader.revision((lane + 1) % LANES).await);
    let dry = SelectionRequest { effect: Effect::DryRun, ..select_ids([1]) };
    assert_eq!(harness.store().requeue(dry).await.unwrap().changed, 1);
    assert_eq!(reader.revision(lane).await, own, "a dry run changes nothing");
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert!(reader.revision(lane).await > own);
    assert_eq!(reader.revision((lane + 1) % LANES).await, other, "another lane has nothing to look for");

    let mut present = reader.read_at(here).await.present;
    present.sort_unstable();
    assert_eq!(present, [entries[0].seq, entries[1].seq]);
    let back = reader.fetch(vec![entries[0].seq]).await.entries.remove(0);
    assert_eq!((back.event_id, back.status, back.attempts), (id(1), Status::Pending, 0));
    reader.settle(&back, Verdict::Delivered, now).await;
}

/// A dead head that is given up for good no longer holds anything back: its lane is told.
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
    let two = reader.lanes.keys().map(|lane| LanePosition { lane: *lane, floor: 0, cursor: 0, limit: 2 });
    let read = reader.read_at(two.collect()).await.entries;
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
        *count = crate::conformance::store::steps::count(harness, status).await;
    }
    counts
}
