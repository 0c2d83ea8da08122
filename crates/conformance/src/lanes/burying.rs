//! Burying: the entries in flight of a session without a heartbeat have spent one attempt, and no other
//! entries have.

use futures_util::future::{join, join_all};
use pillarbox_core::port::{Admin, AttendRequest, Attendance, LaneCursor, LaneSettlement, Lanes, Verdict};
use pillarbox_core::{AuditKind, CRASHES_IN_COMPANY, FailureKind, Status, Timestamp};

use super::LanesHarness;
use super::steps::*;
use crate::Tamper;

/// One attempt, the reason, and due at once; the next session gets the lanes. A heartbeat in time prevents
/// it.
pub async fn what_an_expired_session_had_in_flight_spends_one_attempt<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), keyed(2, "a"), keyed(3, "a")]).await.len(), 3);
    let now = soon(harness).await;
    let dead = Reader::join(harness, 1, now).await;
    assert_eq!(dead.entries().await.len(), 3);
    let before = all(harness).await;

    let (just_alive, expired) = lease_end(now);
    let mut next = Reader::join(harness, 2, just_alive).await;
    assert_eq!(next.lanes.len(), 0, "the lease has not ended");
    assert_eq!(all(harness).await, before);

    let attendance = next.attend(expired).await;
    assert_eq!((attendance.buried, attendance.lanes.len(), attendance.deaths.len()), (1, 64, 0));
    assert!(attendance.surplus.is_empty());
    assert!(next.lanes.iter().all(|(lane, fence)| *fence > dead.lanes[lane]));
    for entry in all(harness).await {
        assert_eq!((entry.status, entry.attempts, entry.due_at), (Status::Retrying, 1, None));
        assert_eq!(entry.last_error.map(|failure| failure.kind), Some(FailureKind::LeaseExpired));
    }
    assert_eq!(audit(harness).await, [], "an expired lease is no death");
    assert_eq!(ids(&next.entries().await), ids_of([1, 2, 3]));
    assert_eq!(next.attend(expired).await.buried, 0, "once");
}

/// A late heartbeat counts as long as no other session has come: the end of the lease alone takes nothing
/// away.
pub async fn a_late_sign_of_life_counts_while_nobody_came<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let mut late = Reader::join(harness, 1, now).await;
    let held = late.lanes.clone();
    let entries = late.entries().await;
    let later = now.saturating_add(LEASE * 3);
    let attendance = late.attend(later).await;
    assert_eq!((attendance.buried, late.lanes.clone()), (0, held));
    late.settle(&entries[0], Verdict::Delivered, later).await;
    assert_eq!(entry(harness, 1).await.attempts, 1);
}

/// What waits behind a head of its key that waits was never handed out; the head itself was not either.
pub async fn followers_of_a_waiting_head_spend_nothing<H: LanesHarness>(harness: &H) {
    let staged = vec![
        keyed(1, "waits"),
        keyed(2, "waits"),
        keyed(3, "goes"),
        event(4),
        keyed(5, "waits"),
        event(6).delay(HOUR),
        keyed(7, "goes"),
    ];
    assert_eq!(stage(harness, staged).await.len(), 7);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let entries = first.entries().await;
    assert_eq!(entries.len(), 7);
    first.settle(&entries[0], retry(HOUR / 2), now).await;
    let later = now.saturating_add(LEASE);
    assert_eq!(buried_by(harness, 2, later).await.deaths, []);
    let attempts: Vec<u32> = all(harness).await.iter().map(|entry| entry.attempts).collect();
    assert_eq!(attempts, [1, 0, 1, 1, 0, 0, 1]);
    let head = entry(harness, 1).await;
    assert_eq!((head.status, head.last_error), (Status::Retrying, Some(failure())));
    assert_eq!(head.due_at, Some(now.saturating_add(HOUR / 2)), "a head that waits goes on waiting");
    let follower = entry(harness, 2).await;
    assert_eq!((follower.status, follower.last_error), (Status::Pending, None));
}

/// What is behind a dead entry of its key was not handed out either, where the dead are not skipped.
pub async fn followers_of_a_dead_head_spend_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "b")]).await.len(), 3);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let entries = first.entries().await;
    let head = entries.iter().find(|entry| entry.event_id == id(1)).unwrap();
    first.settle(head, Verdict::dead(failure()), now).await;
    assert_eq!(buried_by(harness, 2, now.saturating_add(LEASE)).await.deaths, []);
    let attempts: Vec<u32> = all(harness).await.iter().map(|entry| entry.attempts).collect();
    assert_eq!(attempts, [1, 0, 1]);
}

/// Where the dead are skipped it may have been: else an entry that kills its relay every time would never end.
pub async fn followers_of_a_dead_head_that_is_skipped_spend_one_attempt<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "b")]).await.len(), 3);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let entries = first.entries().await;
    let head = entries.iter().find(|entry| entry.event_id == id(1)).unwrap();
    first.settle(head, Verdict::dead(failure()), now).await;
    let later = now.saturating_add(LEASE);
    let join = AttendRequest { joins: true, skips_dead: true, ..attend_request(2, later) };
    assert_eq!(attend(harness, join).await.deaths, []);
    let attempts: Vec<u32> = all(harness).await.iter().map(|entry| entry.attempts).collect();
    assert_eq!(attempts, [1, 1, 1]);
    assert_eq!(entry(harness, 1).await.status, Status::Dead, "the dead one stays as it is");
}

/// A head whose time has come may have been handed out, and what is behind it too.
pub async fn a_head_that_is_due_again_may_have_been_in_flight<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let entries = first.entries().await;
    first.settle(&entries[0], retry(SECOND), now).await;
    assert_eq!(buried_by(harness, 2, now.saturating_add(LEASE)).await.deaths, []);
    let after = all(harness).await;
    assert_eq!(after.iter().map(|entry| entry.attempts).collect::<Vec<_>>(), [2, 1]);
    assert!(after.iter().all(|entry| entry.due_at.is_none() && entry.status == Status::Retrying));
}

/// What was never read was never in flight.
pub async fn entries_that_were_not_read_spend_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "a")]).await.len(), 3);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let one_each = first.read(&LaneCursor::default(), everywhere(1)).await;
    assert_eq!(ids(&one_each.entries), ids_of([1]));
    assert_eq!(stage(harness, vec![event(4)]).await.len(), 1);
    assert_eq!(buried_by(harness, 2, now.saturating_add(LEASE)).await.deaths, []);
    let attempts: Vec<u32> = all(harness).await.iter().map(|entry| entry.attempts).collect();
    assert_eq!(attempts, [1, 0, 0, 0]);
}

/// What became visible below where a session reads is fetched by its seq, and is in flight as what it has read.
pub async fn what_was_fetched_spends_one_attempt<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "b"), event(3)]).await.len(), 3);
    let seqs: Vec<i64> = all(harness).await.iter().map(|entry| entry.seq).collect();
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    assert_eq!(ids(&first.fetch(seqs[..2].to_vec()).await.entries), ids_of([1, 2]));
    assert_eq!(buried_by(harness, 2, now.saturating_add(LEASE)).await.deaths, []);
    let attempts: Vec<u32> = all(harness).await.iter().map(|entry| entry.attempts).collect();
    assert_eq!(attempts, [1, 1, 0]);
}

/// A session that has read nothing costs nothing.
pub async fn a_session_that_read_nothing_spends_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let now = soon(harness).await;
    let _idle = Reader::join(harness, 1, now).await;
    let before = all(harness).await;
    assert_eq!(buried_by(harness, 2, now.saturating_add(LEASE)).await.deaths, []);
    assert_eq!(all(harness).await, before);
}

/// What is settled, or in a lane that was handed over in time, is no longer in flight.
pub async fn what_was_settled_or_handed_over_spends_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "b"), event(3), keyed(4, "b")]).await.len(), 4);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let entries = first.entries().await;
    first.settle(&entries[0], Verdict::Delivered, now).await;
    first.settle(&entries[2], dead(), now).await;
    first.hand_over(vec![entries[1].lane.unwrap()]).await;
    let before = all(harness).await;
    assert_eq!(buried_by(harness, 2, now.saturating_add(LEASE)).await.deaths, []);
    assert_eq!(all(harness).await, before);
}

/// The last attempt allowed is a death, audited and told in the same step; an entry's own limit wins.
pub async fn the_last_attempt_of_a_buried_session_is_a_death<H: LanesHarness>(harness: &H) {
    let staged = vec![keyed(1, "a"), keyed(2, "a").max_attempts(2), event(3), event(4).max_attempts(1)];
    assert_eq!(stage(harness, staged).await.len(), 4);
    let now = crash_in_company(harness).await;
    let last = CRASHES_IN_COMPANY + 1;
    let first = Reader::join(harness, 1, now).await;
    assert_eq!(first.takes_all().await.len(), 4);
    let later = now.saturating_add(LEASE);
    let join = AttendRequest { joins: true, max_attempts: 1, ..attend_request(2, later) };
    let mut attendance = attend(harness, join).await;
    attendance.deaths.sort_by_key(|death| death.event_id);
    assert_eq!(attendance.deaths.iter().map(|death| death.event_id).collect::<Vec<_>>(), ids_of([1, 3, 4]));
    for death in &attendance.deaths {
        assert_eq!((death.route.as_str(), death.event_type.as_str()), (ROUTE, "order.placed"));
        assert_eq!((death.attempts, death.failure.kind), (last, FailureKind::LeaseExpired));
    }
    for n in [1, 3, 4] {
        let buried = entry(harness, n).await;
        assert_eq!((buried.status, buried.attempts, buried.due_at), (Status::Dead, last, None));
        assert_eq!(buried.settled_at, Some(later));
        assert_eq!(buried.last_error.map(|failure| failure.kind), Some(FailureKind::LeaseExpired));
    }
    let trail = harness.store().audit(10).await.unwrap();
    assert_eq!(trail.len(), 3);
    for record in trail {
        assert_eq!((record.kind, record.actor.as_str(), record.at), (AuditKind::Dead, "worker-2", later));
        assert_eq!(record.route.as_ref().map(|route| route.as_str()), Some(ROUTE));
    }
    let spared = entry(harness, 2).await;
    assert_eq!((spared.status, spared.attempts), (Status::Retrying, last), "its own limit allows one more");
}

/// No audit, no death: the burial is refused as a whole, and done when the trail can be written again.
pub async fn a_burial_that_cannot_be_audited_changes_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), event(2).max_attempts(1)]).await.len(), 2);
    let now = crash_in_company(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let entries = first.takes_all().await;
    assert_eq!(entries.len(), 2);
    let before = all(harness).await;
    tamper!(harness, Tamper::FailAudit);
    let later = now.saturating_add(LEASE);
    let join = AttendRequest { joins: true, ..attend_request(2, later) };
    assert!(harness.store().attend(join).await.is_err());
    assert_eq!(all(harness).await, before);
    first.settle(&entries[0], release(), later).await;
    assert!(harness.tamper(Tamper::RepairAudit).await);
    assert_eq!(buried_by(harness, 2, later).await.deaths.len(), 1);
    assert_eq!(entry(harness, 1).await.attempts, CRASHES_IN_COMPANY + 1);
}

/// A session that was buried learns so from every call, and changes nothing.
pub async fn a_buried_session_is_lost<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a"), event(2), event(3), event(4)]).await.len(), 4);
    let now = soon(harness).await;
    let mut buried = Reader::join(harness, 1, now).await;
    let entries = buried.entries().await;
    let verdicts = [Verdict::Delivered, retry(SECOND), dead(), release()];
    let late: Vec<_> =
        entries.iter().zip(verdicts).map(|(entry, verdict)| buried.verdict(entry, verdict)).collect();
    let later = now.saturating_add(LEASE);
    let mut next = Reader::join(harness, 2, later).await;
    let (before, held) = (all(harness).await, next.lanes.clone());

    let settled = buried.settle_all(late.clone(), later).await;
    let fenced: Vec<_> = late.iter().map(|settlement| settlement.held).collect();
    assert_eq!((settled.accepted, settled.fenced), (0, fenced));
    // Nor when it names the attempts that the burial counted.
    let again = late.into_iter().map(|one| LaneSettlement { attempts: 2, ..one });
    assert_eq!(buried.settle_all(again.collect(), later).await.accepted, 0);
    let read = buried.read_all().await;
    assert!(read.lost && read.entries.is_empty() && read.behind.is_empty());
    assert!(buried.passed(&LaneCursor::default()).await.lost);
    let fetched = buried.fetch(entries.iter().map(|entry| entry.seq).collect()).await;
    assert!(fetched.lost && fetched.entries.is_empty());
    buried.hand_over((0..64).collect()).await;
    buried.leave().await;
    let attendance = buried.attend_as(buried.request(later)).await;
    assert_eq!(attendance, Attendance { lost: true, ..Attendance::default() });
    let _ = next.attend(later).await;
    assert_eq!((all(harness).await, next.lanes), (before, held));
    assert_eq!(audit(harness).await, []);
}

/// An entry that kills its relay every time ends as dead, and not before its own attempts are spent.
pub async fn a_crash_loop_by_lanes_runs_out_of_attempts<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a").max_attempts(3)]).await.len(), 1);
    let mut now = soon(harness).await;
    let last = CRASHES_IN_COMPANY + 3;
    for crash in 1..=last + 1 {
        let reader = Reader::join(harness, u64::from(crash), now).await;
        let entry = entry(harness, 1).await;
        assert_eq!(entry.attempts, crash - 1);
        assert_eq!(reader.takes_all().await.len(), usize::from(crash <= last));
        assert_eq!(entry.status == Status::Dead, crash > last);
        now = now.saturating_add(LEASE);
    }
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(1)))]);
}

/// The next heartbeat of any session buries all dead sessions, and each entry counts once.
pub async fn two_dead_sessions_are_buried_at_once<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, events(40)).await.len(), 40);
    let now = soon(harness).await;
    let mut readers = vec![Reader::join(harness, 1, now).await];
    readers.push(Reader::join(harness, 2, now).await);
    balance(&mut readers, 64, now).await;
    assert_eq!(readers[0].entries().await.len() + readers[1].entries().await.len(), 40);
    let attendance = buried_by(harness, 3, now.saturating_add(LEASE)).await;
    assert_eq!((attendance.buried, attendance.lanes.len()), (2, 64));
    assert!(all(harness).await.iter().all(|entry| entry.attempts == 1));
}

/// However many come to bury it, a dead session is buried once, and what it had in flight counts once.
pub async fn of_many_who_bury_at_once_one_does<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), keyed(2, "a"), event(3).max_attempts(1)]).await.len(), 3);
    let now = crash_in_company(harness).await;
    let first = Reader::join(harness, 1, now).await;
    assert_eq!(first.takes_all().await.len(), 3);
    let later = now.saturating_add(LEASE);
    let request = |number| AttendRequest { joins: true, ..attend_request(number, later) };
    let answers = join_all((2..=6).map(|number| attend(harness, request(number)))).await;
    assert_eq!(answers.iter().map(|attendance| attendance.buried).sum::<u32>(), 1);
    assert_eq!(answers.iter().map(|attendance| attendance.lanes.len()).sum::<usize>(), 64);
    assert_eq!(answers.iter().map(|attendance| attendance.deaths.len()).sum::<usize>(), 1);
    assert!(all(harness).await.iter().all(|entry| entry.attempts == CRASHES_IN_COMPANY + 1));
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(3)))]);
}

/// A settle and a burial at the same moment: one comes first, and the other goes by it.
pub async fn a_settle_and_a_burial_at_once_agree<H: LanesHarness>(harness: &H) {
    let mut now = soon(harness).await;
    for round in 1..=10_u64 {
        let numbers = round * 100..round * 100 + 20;
        assert_eq!(stage(harness, numbers.clone().map(event).collect()).await.len(), 20);
        let old = Reader::join(harness, round * 2, now).await;
        let batch = old.entries().await.iter().map(|entry| old.verdict(entry, Verdict::Delivered)).collect();
        now = now.saturating_add(LEASE);
        let bury = Reader::join(harness, round * 2 + 1, now);
        let (settled, next) = join(old.settle_all(batch, now), bury).await;
        let came_first = settled.accepted > 0;
        assert_eq!((settled.accepted, settled.fenced.len()), if came_first { (20, 0) } else { (0, 20) });
        let expected = if came_first { Status::Delivered } else { Status::Retrying };
        for n in numbers {
            let entry = entry(harness, n).await;
            assert_eq!((entry.status, entry.attempts), (expected, 1), "round {round}");
        }
        for left in next.entries().await {
            next.settle(&left, Verdict::Delivered, now).await;
        }
        next.leave().await;
    }
}

/// Joins as this session and buries dead sessions.
async fn buried_by<H: LanesHarness>(harness: &H, number: u64, now: Timestamp) -> Attendance {
    let request = AttendRequest { joins: true, ..attend_request(number, now) };
    let attendance = attend(harness, request).await;
    assert!(attendance.buried > 0, "somebody was to be buried");
    attendance
}

async fn attend<H: LanesHarness>(harness: &H, request: AttendRequest) -> Attendance {
    harness.store().attend(request).await.unwrap()
}
