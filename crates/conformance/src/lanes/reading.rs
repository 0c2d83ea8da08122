//! Reading: what comes next, what came late, and what was passed.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::port::{LANES, LaneCursor, LaneSettlement, LaneWish, Lanes, Stage, Store, Verdict};
use pillarbox_core::{AuditKind, Entry, Event, FailureKind, RowHint, STEP_CONTENT_TYPE, Status};

use super::LanesHarness;
use super::steps::*;
use crate::Tamper;

/// Longer than a store goes without a look at the writing transactions.
const WHILE: std::time::Duration = std::time::Duration::from_millis(150);

fn seqs(entries: &[Entry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.seq).collect()
}

/// Events of one key, so of one lane.
async fn of_one_key<'a, H: LanesHarness>(harness: &'a H, count: u64) -> (Reader<'a, H>, Vec<Entry>, u8) {
    assert_eq!(stage(harness, (1..=count).map(|n| keyed(n, "a")).collect()).await.len() as u64, count);
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    let entries = reader.entries().await;
    assert_eq!(ids(&entries), ids_of(1..=count));
    let lane = entries[0].lane.unwrap();
    (reader, entries, lane)
}

fn sorted(mut seqs: Vec<i64>) -> Vec<i64> {
    seqs.sort_unstable();
    seqs
}

/// In order of seq within a lane, from the cursor on, up to the limit.
pub async fn a_lane_is_read_in_order_within_the_limit<H: LanesHarness>(harness: &H) {
    let (reader, entries, lane) = of_one_key(harness, 5).await;
    assert!(seqs(&entries).is_sorted_by(|a, b| a < b));
    let mut cursor = LaneCursor::default();
    for expected in [&entries[..2], &entries[2..4], &entries[4..], &[]] {
        let read = reader.read(&cursor, vec![wish(lane, 2)]).await;
        assert_eq!(read.entries, expected);
        assert_eq!(read.lanes.iter().map(|seen| seen.lane).collect::<Vec<_>>(), [lane]);
        assert!(!read.lost && read.behind.iter().all(|seq| *seq <= read.lanes[0].read_to));
        cursor = read.cursor;
    }
    let elsewhere = (0..LANES).filter(|other| *other != lane).map(|other| wish(other, 1));
    assert_eq!(reader.read(&cursor, elsewhere.collect()).await.entries, []);
}

/// Another run through a lane begins at its beginning, and so does a cursor that is not of this store. The others go on.
pub async fn a_run_that_the_cursor_does_not_know_begins_anew<H: LanesHarness>(harness: &H) {
    let (reader, entries, lane) = of_one_key(harness, 3).await;
    let read = reader.read(&LaneCursor::default(), vec![wish(lane, 2)]).await;
    assert_eq!(read.entries, entries[..2]);
    let not_this_time = reader.read(&read.cursor, vec![wish(lane, 0)]).await;
    assert_eq!(not_this_time.entries, []);
    assert_eq!(reader.read(&not_this_time.cursor, vec![wish(lane, 2)]).await.entries, entries[2..]);
    let second = LaneWish { run: 2, ..wish(lane, 2) };
    let anew = reader.read(&read.cursor, vec![second]).await;
    assert_eq!(anew.entries, entries[..2]);
    assert_eq!(reader.read(&anew.cursor, vec![second]).await.entries, entries[2..]);
    let foreign = LaneCursor::new("somewhere else");
    assert_eq!(reader.read(&foreign, vec![wish(lane, 2)]).await.entries, entries[..2]);
}

/// Reading claims nothing: entries come as they are stored, with their lane, and stay as they were.
pub async fn reading_a_lane_changes_no_entry<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a").header("h", "v"), event(2)]).await.len(), 2);
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    let before = all(harness).await;
    let read = reader.entries().await;
    for (read, stored) in read.iter().zip(&before) {
        assert!(read.lane.is_some_and(|lane| lane < LANES));
        let mut stored = stored.clone();
        stored.lane = read.lane;
        assert_eq!(*read, stored);
    }
    assert_eq!(reader.entries().await, read, "what is not settled is read again by who asks again");
    reader.leave().await;
    assert_eq!(all(harness).await, before);
}

/// Each session reads its own lanes, whatever it asks for, and together they read everything once.
pub async fn a_session_reads_only_its_own_lanes<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(100)).await.len(), 100);
    let now = soon(harness).await;
    let mut readers = vec![Reader::join(harness, 1, now).await, Reader::join(harness, 2, now).await];
    balance(&mut readers, LANES, now).await;
    let mut seen = BTreeSet::new();
    for reader in &readers {
        let read = reader.read_all().await;
        assert!(!read.entries.is_empty(), "a hundred ids fall into both halves");
        assert!(read.entries.iter().all(|entry| reader.lanes.contains_key(&entry.lane.unwrap())));
        let seqs = seqs(&read.entries);
        assert_eq!(reader.passed(&read.cursor).await.seqs, sorted(seqs.clone()));
        for entry in &read.entries {
            assert!(seen.insert(entry.seq), "one entry was read by two sessions");
        }
        let others: Vec<i64> = seen.iter().copied().filter(|seq| !seqs.contains(seq)).collect();
        assert_eq!(reader.fetch(others).await.entries, []);
    }
    assert_eq!(seen.len(), 100);
}

/// What is beyond a share is read until it is handed over, and not after that.
pub async fn a_lane_that_was_handed_over_is_not_read<H: LanesHarness>(harness: &H) {
    let (reader, entries, lane) = of_one_key(harness, 2).await;
    reader.hand_over(vec![(lane + 1) % LANES]).await;
    assert_eq!(reader.entries().await, entries, "another lane was handed over");
    reader.hand_over(vec![lane]).await;
    let read = reader.read_all().await;
    assert!(!read.lost, "the session is still there");
    assert!(read.entries.is_empty() && read.behind.is_empty());
    assert!(read.lanes.iter().all(|seen| seen.lane != lane), "nothing is said about it");
    let passed = reader.passed(&read.cursor).await;
    assert!(!passed.lost && passed.seqs.is_empty());
    let fetched = reader.fetch(vec![entries[0].seq]).await;
    assert!(!fetched.lost && fetched.entries.is_empty());
}

/// Exactly what is unsettled and not above the cursor, whether it waits or not.
pub async fn passed_is_what_is_unsettled_up_to_the_cursor<H: LanesHarness>(harness: &H) {
    let (reader, entries, lane) = of_one_key(harness, 6).await;
    let now = soon(harness).await;
    let five = reader.read(&LaneCursor::default(), vec![wish(lane, 5)]).await;
    let six = reader.read_on(&five.cursor).await;
    assert_eq!((five.entries.len(), six.entries.len()), (5, 1));
    reader.settle(&entries[1], Verdict::Delivered, now).await;
    reader.settle(&entries[2], dead(), now).await;
    reader.settle(&entries[3], retry(HOUR), now).await;
    let seq = seqs(&entries);
    assert_eq!(reader.passed(&six.cursor).await.seqs, [seq[0], seq[3], seq[4], seq[5]]);
    assert_eq!(reader.passed(&five.cursor).await.seqs, [seq[0], seq[3], seq[4]]);
    assert!(reader.passed(&LaneCursor::default()).await.seqs.is_empty());
}

/// If a lower seq commits after a higher one was read, the next read reports it, and it can be fetched. It
/// does not matter how many reads there were while its transaction was open. It is not reported before its
/// commit.
pub async fn a_lower_seq_that_commits_later_is_told<H: LanesHarness>(harness: &H) {
    several_writers!(harness);
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    tell_a_late_one(harness, &reader, LaneCursor::default(), 0).await;
}

/// The same after a time without writers: a reader that has seen everything no longer knows so once a
/// transaction writes.
pub async fn a_lower_seq_that_commits_after_idle_reads_is_told<H: LanesHarness>(harness: &H) {
    several_writers!(harness);
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    let mut cursor = LaneCursor::default();
    for n in 0..2 {
        for _ in 0..3 {
            cursor = reader.read_on(&cursor).await.cursor;
            tokio::time::sleep(WHILE).await;
        }
        cursor = tell_a_late_one(harness, &reader, cursor, n * 10).await;
    }
}

/// Stages `n + 1`, which is open while `n + 2` is committed and read, and commits it.
async fn tell_a_late_one<H: LanesHarness>(
    harness: &H,
    reader: &Reader<'_, H>,
    cursor: LaneCursor,
    n: u64,
) -> LaneCursor {
    let mut late = harness.begin().await;
    let staged = harness.outbox(ROUTE).stage_all(&mut late, vec![keyed(n + 1, "a")]).await.unwrap();
    assert_eq!(staged.len(), 1);
    assert_eq!(stage(harness, vec![keyed(n + 2, "a")]).await.len(), 1);
    let mut read = reader.read_on(&cursor).await;
    assert_eq!(ids(&read.entries), ids_of([n + 2]));
    let known = read.entries[0].seq;
    for _ in 0..4 {
        read = reader.read_on(&read.cursor).await;
        assert!(
            read.entries.is_empty() && read.behind.iter().all(|seq| *seq >= known),
            "it is not there yet"
        );
        tokio::time::sleep(WHILE / 3).await;
    }
    let before = reader.passed(&read.cursor).await.seqs;
    harness.commit(late).await;
    let after = reader.read_on(&read.cursor).await;
    assert_eq!(after.entries, [], "it is behind the cursor");
    let unknown = after.behind.iter().copied().filter(|seq| *seq < known && !before.contains(seq));
    let unknown: Vec<i64> = unknown.collect();
    assert_eq!(unknown.len(), 1, "{:?} are told", after.behind);
    assert_eq!(ids(&reader.fetch(unknown).await.entries), ids_of([n + 1]));
    after.cursor
}

/// By seq and in that order; what is settled, gone or never was is left out.
pub async fn a_fetch_returns_what_is_unsettled_by_seq<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    reader.settle(&entries[1], Verdict::Delivered, now).await;
    reader.settle(&entries[2], dead(), now).await;
    reader.settle(&entries[3], retry(HOUR), now).await;
    let mut seqs: Vec<i64> = entries.iter().rev().map(|entry| entry.seq).collect();
    seqs.push(entries[4].seq + 1_000);
    let fetched = reader.fetch(seqs).await;
    assert!(!fetched.lost && fetched.undecodable.is_empty());
    assert_eq!(ids(&fetched.entries), ids_of([1, 4, 5]));
    assert_eq!(fetched.entries[0], entries[0]);
    let waiting = &fetched.entries[1];
    assert_eq!((waiting.status, waiting.attempts, waiting.lane), (Status::Retrying, 1, entries[3].lane));
    assert_eq!((waiting.due_at, &waiting.last_error), (Some(now.saturating_add(HOUR)), &Some(failure())));
    assert_eq!(reader.fetch(vec![]).await.entries, []);
}

/// A row that cannot be read comes with its lane and a proof that settles it, and the others come with it.
pub async fn an_undecodable_row_of_a_lane_is_told<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "a")]).await.len(), 3);
    tamper!(harness, Tamper::SpoilHeaders(id(2)));
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let read = reader.read_all().await;
    assert_eq!((ids(&read.entries), read.undecodable.len()), (ids_of([1, 3]), 1));
    let row = &read.undecodable[0];
    assert_eq!((Some(row.lane), row.row.event_id), (read.entries[0].lane, Some(id(2))));
    assert_eq!(row.row.failure.kind, FailureKind::Undecodable);
    assert_eq!(row.row.held.fence, reader.lanes[&row.lane]);
    assert!(reader.passed(&read.cursor).await.seqs.contains(&row.row.held.seq));
    let fetched = reader.fetch(vec![row.row.held.seq]).await;
    assert_eq!((fetched.entries, fetched.undecodable.len()), (vec![], 1));
    assert_eq!(fetched.undecodable[0].row.held, row.row.held);

    let verdict = Verdict::dead(row.row.failure.clone());
    let death =
        LaneSettlement { held: row.row.held, lane: row.lane, hint: RowHint::default(), attempts: 1, verdict };
    assert_eq!(reader.settle_all(vec![death], now).await.accepted, 1);
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(2)))]);
    assert!(reader.read_all().await.undecodable.is_empty());
}

/// What is not due yet is read with its time: the reader decides when it goes.
pub async fn a_delayed_entry_is_read_with_its_time<H: LanesHarness>(harness: &H) {
    let before = harness.now().await;
    assert_eq!(stage(harness, vec![event(1).delay(HOUR), event(2)]).await.len(), 2);
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    let entries = reader.entries().await;
    assert_eq!(ids(&entries), ids_of([1, 2]));
    assert!(entries[0].due_at.is_some_and(|due| due > before.saturating_add(HOUR / 2)));
    assert_eq!(entries[1].due_at, None);
}

/// Neither before the commit nor after a rollback.
pub async fn a_rolled_back_entry_is_never_read<H: LanesHarness>(harness: &H) {
    several_writers!(harness);
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    let mut tx = harness.begin().await;
    assert_eq!(harness.outbox(ROUTE).stage_all(&mut tx, vec![keyed(1, "a")]).await.unwrap().len(), 1);
    assert_eq!(stage(harness, vec![keyed(2, "a")]).await.len(), 1);
    let read = reader.read_all().await;
    assert_eq!(ids(&read.entries), ids_of([2]));
    harness.rollback(tx).await;
    assert_eq!(reader.entries().await, read.entries);
    let after = reader.read_on(&read.cursor).await;
    assert!(after.entries.is_empty() && after.behind.iter().all(|seq| *seq == read.entries[0].seq));
    assert_eq!(reader.passed(&read.cursor).await.seqs, [read.entries[0].seq]);
}

/// A key has one lane, however it is staged and read; keys and bare ids are spread over the lanes.
pub async fn keys_keep_their_lane<H: LanesHarness>(harness: &H) {
    let key = |n: u64| format!("o-{}", n % 50);
    assert_eq!(stage(harness, (0..50).map(|n| keyed(n, &key(n))).collect()).await.len(), 50);
    assert_eq!(stage(harness, (100..150).map(event).collect()).await.len(), 50);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let read = first.entries().await;
    let lanes: BTreeMap<_, _> = read.iter().map(|entry| (entry.event_id, entry.lane)).collect();
    let of_keys: BTreeMap<String, _> =
        read.iter().filter_map(|entry| Some((entry.key.clone()?, entry.lane))).collect();
    assert_eq!(of_keys.len(), 50);
    for some in [of_keys.values().collect::<BTreeSet<_>>(), lanes.values().collect()] {
        assert!(some.len() > 16, "fifty keys or ids in {} lanes", some.len());
    }
    first.leave().await;
    assert_eq!(stage(harness, (200..250).map(|n| keyed(n, &key(n))).collect()).await.len(), 50);
    assert_eq!(stage_on(harness, "mails", vec![keyed(300, &key(7))]).await.len(), 1);
    let second = Reader::join(harness, 2, now).await;
    for entry in second.entries().await {
        let same = entry.key.as_ref().map_or(lanes.get(&entry.event_id), |key| of_keys.get(key));
        assert_eq!(Some(&entry.lane), same, "{:?}", entry.key);
    }
}

/// An application in any language gets the lane that the library would have given.
pub async fn plain_staging_gets_the_same_lane<H: LanesHarness>(harness: &H) {
    let keys = ["a", "o-1", "customer/42", "na\u{ef}ve", "\u{65e5}\u{672c}", "a key with spaces"];
    let staged = keys.iter().zip(1..).map(|(key, n)| keyed(n, key)).collect();
    assert_eq!(stage(harness, staged).await.len(), keys.len());
    for key in keys {
        tamper!(
            harness,
            Tamper::StageKeyed {
                route: ROUTE.into(),
                event_type: "order.placed".into(),
                key: key.into(),
                payload: b"{}".to_vec(),
            }
        );
    }
    let reader = Reader::join(harness, 1, soon(harness).await).await;
    let entries = reader.entries().await;
    for key in keys {
        let lanes: Vec<_> = entries
            .iter()
            .filter(|entry| entry.key.as_deref() == Some(key))
            .map(|entry| entry.lane)
            .collect();
        assert_eq!(lanes.len(), 2, "{key}: staged by the library and by plain means");
        assert_eq!(lanes[0], lanes[1], "{key}");
    }
}

/// A plain staging without a key has a lane as well.
pub async fn plain_staging_without_a_key_is_read<H: LanesHarness>(harness: &H) {
    for _ in 0..3 {
        tamper!(
            harness,
            Tamper::StagePlain {
                route: ROUTE.into(),
                event_type: "order.placed".into(),
                payload: b"{}".to_vec(),
            }
        );
    }
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let entries = reader.entries().await;
    assert_eq!(entries.len(), 3);
    for entry in entries {
        reader.settle(&entry, Verdict::Delivered, now).await;
    }
    assert_eq!(count(harness, Status::Delivered).await, 3);
}

/// What was claimed as a row belongs to its claim until it is reaped.
pub async fn a_row_that_was_claimed_is_not_read_before_it_is_reaped<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    let now = soon(harness).await;
    let claimed = Store::claim(&*harness.store(), claim_request(1, now)).await.unwrap().entries;
    assert_eq!(ids(&claimed), ids_of([1]));
    let reader = Reader::join(harness, 1, now).await;
    let read = reader.read_all().await;
    assert_eq!(ids(&read.entries), ids_of([2]));
    assert_eq!(reader.passed(&read.cursor).await.seqs, [read.entries[0].seq]);
    assert_eq!(reader.fetch(vec![claimed[0].seq]).await.entries, []);
    let later = now.saturating_add(LEASE);
    assert_eq!(harness.store().reap_rows(reap_request(later)).await.unwrap().released, 1);
    assert_eq!(ids(&reader.entries().await), ids_of([1, 2]));
}

/// Neither read nor fetched, counted or spent: steps are for relays with sagas, and are in the way of no
/// other entry.
pub async fn steps_of_sagas_are_in_no_lane<H: LanesHarness>(harness: &H) {
    let step = |event: Event| event.group_id(uuid::Uuid::nil().to_string()).content_type(STEP_CONTENT_TYPE);
    // With a key too: whatever stands behind a step of its key does not wait for it.
    let events = vec![
        step(event(1)),
        keyed(2, "a"),
        step(keyed(3, "a")),
        keyed(4, "a"),
        event(5).group_id("a group"),
        event(6).content_type(STEP_CONTENT_TYPE),
    ];
    stage(harness, events).await;
    let now = soon(harness).await;
    let reader = Reader::join(harness, 1, now).await;
    let read = reader.read_all().await;
    let mut entries = read.entries;
    entries.sort_by_key(|entry| entry.seq);
    assert_eq!(ids(&entries), ids_of([2, 4, 5, 6]));
    let steps = [entry(harness, 1).await, entry(harness, 3).await];
    assert!(reader.fetch(steps.iter().map(|step| step.seq).collect()).await.entries.is_empty());
    assert_eq!(reader.passed(&read.cursor).await.seqs, seqs(&entries));
    assert_eq!(count(harness, Status::InFlight).await, 4, "what was read is in flight, and they were not");
    // Its session is buried: what it read has spent an attempt, and no step has.
    let later = now.saturating_add(LEASE * 2);
    let other = Reader::join(harness, 2, later).await;
    for n in [1, 3] {
        let step = entry(harness, n).await;
        assert_eq!((step.status, step.attempts), (Status::Pending, 0), "{n}");
    }
    assert_eq!(entry(harness, 5).await.attempts, 1);
    assert_eq!(ids(&other.entries().await), ids_of([2, 4, 5, 6]));
}
