//! Sharing: which session holds which lane, and how lanes change hands while all sessions are alive.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use pillarbox_core::port::{AttendRequest, Attendance, LANES, LaneCursor, Lanes, PassedRequest, ReadRequest};
use pillarbox_core::{ErrorKind, Fence, Status};

use super::LanesHarness;
use super::steps::*;

/// Alone, a session has every lane of its route, under a fence each.
pub async fn joining_takes_all_lanes<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut alone = Reader::join(harness, 1, now).await;
    assert_eq!(alone.lanes.keys().copied().collect::<Vec<_>>(), (0..LANES).collect::<Vec<_>>());
    assert!(alone.lanes.values().all(|fence| *fence > Fence::NONE));
    assert!(alone.surplus.is_empty());
    let held = alone.lanes.clone();
    let renewed = alone.attend(now.saturating_add(SECOND)).await;
    assert_eq!((renewed.buried, renewed.deaths), (0, vec![]));
    assert_eq!(alone.lanes, held, "a sign of life changes no fence");
}

/// A join whose answer was lost is sent again: it is the same session, with the same lanes.
pub async fn joining_twice_is_one_session<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut alone = Reader::join(harness, 1, now).await;
    let held = alone.lanes.clone();
    let again = alone.attend_as(AttendRequest { joins: true, ..alone.request(now) }).await;
    assert!(!again.lost && again.surplus.is_empty() && again.buried == 0);
    assert_eq!(alone.lanes, held);
}

/// A session that never joined, or has left, learns so from the answer, and gets nothing.
pub async fn a_session_that_is_not_there_is_lost<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let stranger = attend_request(7, now);
    let lost = Attendance { lost: true, ..Attendance::default() };
    assert_eq!(harness.store().attend(stranger.clone()).await.unwrap(), lost);
    let mut gone = Reader::join(harness, 1, now).await;
    gone.leave().await;
    assert_eq!(gone.attend_as(gone.request(now)).await, lost);
    assert_eq!(harness.store().attend(stranger).await.unwrap(), lost);
}

/// The second session takes nothing away: the first learns which lanes are beyond its share, and hands them
/// over.
pub async fn two_sessions_share_evenly_after_a_hand_over<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut first = Reader::join(harness, 1, now).await;
    let mut second = Reader::join(harness, 2, now.saturating_add(SECOND)).await;
    assert_eq!((second.lanes.len(), second.surplus.len()), (0, 0), "nothing was free");

    let now = now.saturating_add(SECOND * 2);
    let _ = first.attend(now).await;
    assert_eq!((first.lanes.len(), first.surplus.len()), (64, 32));
    let told = first.surplus.clone();
    let _ = first.attend(now).await;
    assert_eq!(first.surplus, told, "the same lanes until they are handed over");
    let _ = second.attend(now).await;
    assert_eq!(second.lanes.len(), 0);

    first.hand_over(told.clone()).await;
    let _ = second.attend(now).await;
    assert_eq!(second.lanes.keys().copied().collect::<BTreeSet<_>>(), told.iter().copied().collect());
    let _ = first.attend(now).await;
    assert_eq!(shares_of(&[first, second]), [32, 32]);
}

/// As evenly as 64 lanes allow, and evenly again when one has left.
pub async fn three_sessions_share_evenly<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut readers = vec![];
    for number in 1..=3 {
        readers.push(Reader::join(harness, number, now.saturating_add(SECOND)).await);
        balance(&mut readers, LANES, now.saturating_add(SECOND)).await;
    }
    let mut shares = shares_of(&readers);
    shares.sort_unstable();
    assert_eq!(shares, [21, 21, 22]);
    readers.remove(0).leave().await;
    balance(&mut readers, LANES, now.saturating_add(SECOND)).await;
    assert_eq!(shares_of(&readers), [32, 32]);
}

/// With one share the second waits with empty hands, and has everything as soon as the first leaves.
pub async fn with_one_share_the_second_session_stands_by<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut readers = vec![Reader::join(harness, 1, now).await];
    readers.push(Reader::join(harness, 2, now.saturating_add(SECOND)).await);
    let now = now.saturating_add(SECOND);
    balance(&mut readers, 1, now).await;
    assert_eq!(shares_of(&readers), [64, 0]);
    readers.remove(0).leave().await;
    balance(&mut readers, 1, now).await;
    assert_eq!(shares_of(&readers), [64]);
}

/// The setting may change while relays run, and be different in two of them for a while.
pub async fn the_number_of_shares_can_change_while_running<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut readers = vec![Reader::join(harness, 1, now).await];
    readers.push(Reader::join(harness, 2, now.saturating_add(SECOND)).await);
    let now = now.saturating_add(SECOND);
    balance(&mut readers, LANES, now).await;
    assert_eq!(shares_of(&readers), [32, 32]);

    let lowered = AttendRequest { shares: 1, ..readers[1].request(now) };
    let told = readers[1].attend_as(lowered).await;
    assert_eq!((told.lanes.len(), told.surplus.len()), (32, 32), "it has no share any more");
    balance(&mut readers, 1, now).await;
    assert_eq!(shares_of(&readers), [64, 0]);
    balance(&mut readers, 2, now).await;
    assert_eq!(shares_of(&readers), [32, 32]);
}

/// Old and new relays run side by side while the setting is rolled out: the lowest of theirs counts for all, and
/// every lane has an owner, also after one of them has left.
pub async fn sessions_that_differ_in_shares_leave_no_lane_unread<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    for (base, settings, held) in [
        (10, vec![LANES, 1], vec![64, 0]),
        (20, vec![1, LANES], vec![64, 0]),
        (30, vec![LANES, LANES, 2], vec![32, 32, 0]),
        (40, vec![2, LANES, 3], vec![32, 32, 0]),
    ] {
        let mut readers = vec![];
        for (number, shares) in (base..).zip(&settings) {
            readers.push(Reader::join_with(harness, number, *shares, now).await);
        }
        balance_own(&mut readers, now).await;
        assert_eq!(shares_of(&readers), held, "{settings:?}");
        while let Some(gone) = readers.pop() {
            gone.leave().await;
            balance_own(&mut readers, now).await;
            let all = if readers.is_empty() { 0 } else { 64 };
            assert_eq!(shares_of(&readers).iter().sum::<usize>(), all, "{settings:?}");
            readers.reverse();
        }
    }
}

/// Every new owner of a lane has a higher fence, also when the clock steps back.
pub async fn the_fence_of_a_lane_grows_with_every_owner<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut fences = vec![];
    for (number, at) in [now, now, now.saturating_sub(HOUR), now.saturating_add(HOUR)].into_iter().enumerate()
    {
        let reader = Reader::join(harness, number as u64 + 1, at).await;
        assert_eq!(reader.lanes.len(), 64);
        fences.push(reader.lanes.values().copied().collect::<Vec<_>>());
        reader.leave().await;
    }
    for owners in fences.windows(2) {
        assert!(owners[0].iter().zip(&owners[1]).all(|(old, new)| old < new), "{owners:?}");
    }
}

/// A lane that comes back to its first owner comes back under a new fence.
pub async fn a_lane_that_comes_back_has_a_new_fence<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut alone = Reader::join(harness, 1, now).await;
    let before = alone.lanes.clone();
    alone.hand_over(vec![7]).await;
    let _ = alone.attend(now).await;
    assert_eq!(alone.lanes.len(), 64, "nobody else wanted it");
    assert!(alone.lanes[&7] > before[&7]);
    assert!(alone.lanes.iter().all(|(lane, fence)| *lane == 7 || before[lane] == *fence));
}

/// A clean end: the next one has the lanes at once, and nothing of what was read has cost an attempt.
pub async fn leaving_frees_lanes_at_once_and_spends_nothing<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), keyed(2, "a"), keyed(3, "a")]).await.len(), 3);
    let now = soon(harness).await;
    let first = Reader::join(harness, 1, now).await;
    let before = all(harness).await;
    assert_eq!(first.entries().await.len(), 3);
    first.leave().await;
    let second = Reader::join(harness, 2, now).await;
    assert_eq!(second.lanes.len(), 64);
    assert_eq!(all(harness).await, before);
    assert!(before.iter().all(|entry| (entry.status, entry.attempts) == (Status::Pending, 0)));
    assert_eq!(ids(&second.entries().await), ids_of([1, 2, 3]));
    assert_eq!(audit(harness).await, []);
}

/// A session that does not own a lane cannot free it.
pub async fn only_an_owner_hands_a_lane_over<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let gone = Reader::join(harness, 1, now).await;
    gone.leave().await;
    let mut owner = Reader::join(harness, 2, now).await;
    let held = owner.lanes.clone();
    gone.hand_over((0..LANES).collect()).await;
    gone.leave().await;
    let waiting = Reader::join(harness, 3, now).await;
    waiting.hand_over((0..LANES).collect()).await;
    let _ = owner.attend(now).await;
    assert_eq!(owner.lanes, held);
    assert_eq!(waiting.lanes.len(), 0);
}

/// However many come at the same moment: no lane has two owners, and all lanes have one in the end.
pub async fn sessions_that_join_at_once_share_no_lane<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let mut readers = join_all((1..=8).map(|number| Reader::join(harness, number, now))).await;
    assert_eq!(shares_of(&readers).iter().sum::<usize>(), 64);
    balance(&mut readers, LANES, now).await;
    assert_eq!(shares_of(&readers), [8; 8]);
}

/// Lanes of two routes have nothing to do with each other.
pub async fn two_routes_do_not_share_lanes<H: LanesHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![keyed(1, "a")]).await.len(), 1);
    assert_eq!(stage_on(harness, "mails", vec![keyed(2, "a")]).await.len(), 1);
    let now = soon(harness).await;
    let orders = Reader::join(harness, 1, now).await;
    let mut mails = Reader::join_on(harness, "mails", 2, now).await;
    assert_eq!((orders.lanes.len(), mails.lanes.len()), (64, 64));
    assert_eq!(ids(&orders.entries().await), ids_of([1]));
    let own = mails.entries().await;
    assert_eq!(ids(&own), ids_of([2]));
    assert_eq!(orders.fetch(vec![own[0].seq]).await.entries, []);
    orders.leave().await;
    let later = now.saturating_add(LEASE);
    let next = Reader::join(harness, 3, later).await;
    assert_eq!(next.lanes.len(), 64);
    assert_eq!(mails.attend(later).await.lanes.len(), 64, "a burial on another route is not its own");
}

/// What no store can mean is a typed error.
pub async fn what_no_lane_can_mean_is_refused<H: LanesHarness>(harness: &H) {
    let now = soon(harness).await;
    let store = harness.store();
    let join = AttendRequest { joins: true, ..attend_request(1, now) };
    for request in [
        AttendRequest { lease: std::time::Duration::ZERO, ..join.clone() },
        AttendRequest { shares: 0, ..join.clone() },
        AttendRequest { shares: LANES + 1, ..join.clone() },
        AttendRequest { max_attempts: 0, ..join.clone() },
        AttendRequest { owner: String::new(), ..join.clone() },
    ] {
        assert_eq!(store.attend(request).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(store.attend(attend_request(1, now)).await.unwrap().lost, "no session was made of it");

    let reader = Reader::join(harness, 1, now).await;
    let cursor = LaneCursor::default();
    for lanes in [vec![wish(LANES, 1)], vec![wish(0, 5_001), wish(1, 5_000)]] {
        let (route, session, cursor) = (route(ROUTE), session(1), cursor.clone());
        let request = ReadRequest { route, session, lanes, cursor };
        assert_eq!(store.read(request).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let (route, session, lanes) = (route(ROUTE), session(1), vec![wish(LANES, 0)]);
    let request = PassedRequest { route, session, lanes, cursor: cursor.clone() };
    assert_eq!(store.passed(request).await.unwrap_err().kind(), ErrorKind::Invalid);
    let most = reader.read(&cursor, vec![wish(0, 5_000), wish(1, 5_000)]).await;
    assert!(!most.lost && most.entries.is_empty());
}
