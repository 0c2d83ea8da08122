//! The clock-stamp promises, one test each.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::{Hlc, HybridClock};
use crate::error::ErrorKind;
use crate::port::Clock;
use crate::time::Timestamp;

const DRIFT_MAX: Duration = Duration::from_secs(60);
const DRIFT_MAX_MILLIS: i64 = 60_000;
const NOON: i64 = 1_763_208_000_000;

/// A wall clock that tests set, in milliseconds.
struct Wall(AtomicI64);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed) * 1000).unwrap()
    }
}

impl Wall {
    fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

fn clock_at(millis: i64) -> (Arc<Wall>, HybridClock) {
    let wall = Arc::new(Wall(AtomicI64::new(millis)));
    (wall.clone(), HybridClock::new(wall, DRIFT_MAX))
}

fn stamp(millis: i64, counter: u16) -> Hlc {
    Hlc::from_raw((millis << 16) | i64::from(counter)).unwrap()
}

#[test]
fn malformed_stamps_are_refused() {
    for text in [
        "",
        "0",
        "000000000000000",
        "00000000000000000",
        "000000000000000G",
        "00000000000000AB",
        "+000000000000000",
        "-000000000000001",
        "0x00000000000000",
        " 000000000000000",
        "8000000000000000",
        "ffffffffffffffff",
        "é00000000000000",
        "00000000-0000000",
    ] {
        let error = text.parse::<Hlc>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text:?}");
        assert!(error.to_string().contains("16 lower-case hexadecimal digits"), "{error}");
    }
    assert_eq!(Hlc::from_raw(-1).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Hlc::from_raw(i64::MIN).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_stamp_shows_its_wall_time_and_counter() {
    let stamp = stamp(NOON, 7);
    assert_eq!((stamp.millis(), stamp.counter()), (NOON, 7));
    assert_eq!(stamp.to_string(), "019a8762f2000007");
    assert_eq!(serde_json::to_string(&stamp).unwrap(), "\"019a8762f2000007\"");
    assert_eq!(serde_json::from_str::<Hlc>("\"019a8762f2000007\"").unwrap(), stamp);
}

#[test]
fn a_stamp_is_the_wall_time_when_nothing_is_ahead_of_it() {
    let (wall, clock) = clock_at(NOON);
    assert_eq!(clock.now(), stamp(NOON, 0));
    assert_eq!(clock.now(), stamp(NOON, 1));
    wall.set(NOON + 5);
    assert_eq!(clock.now(), stamp(NOON + 5, 0));
}

#[test]
fn now_is_strictly_increasing_also_when_the_wall_clock_steps_back() {
    let (wall, clock) = clock_at(NOON);
    let mut last = clock.now();
    for millis in [NOON, NOON - 1, NOON - 86_400_000, 0, NOON + 1, NOON] {
        wall.set(millis);
        let next = clock.now();
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

#[test]
fn the_counter_carries_over_into_the_milliseconds() {
    let (_, clock) = clock_at(NOON);
    clock.resume(stamp(NOON, u16::MAX - 1));
    assert_eq!(clock.now(), stamp(NOON, u16::MAX));
    assert_eq!(clock.now(), stamp(NOON + 1, 0));
    assert_eq!(clock.now(), stamp(NOON + 1, 1));
}

#[test]
fn merge_exceeds_the_remote() {
    let (_, clock) = clock_at(NOON);
    let remote = stamp(NOON + 1000, 3);
    assert_eq!(clock.merge(remote).unwrap(), stamp(NOON + 1000, 4));
    assert!(clock.now() > remote);
    // A remote from the past moves nothing but the counter.
    assert_eq!(clock.merge(stamp(5, 5)).unwrap(), stamp(NOON + 1000, 6));
}

#[test]
fn a_remote_too_far_ahead_is_refused_and_changes_nothing() {
    let (_, clock) = clock_at(NOON);
    assert!(clock.merge(stamp(NOON + DRIFT_MAX_MILLIS, u16::MAX)).is_ok());

    let (_, clock) = clock_at(NOON);
    let error = clock.merge(stamp(NOON + DRIFT_MAX_MILLIS + 1, 0)).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some("hlc_drift")));
    assert!(
        error.to_string().contains("1m1ms ahead of this machine's clock; at most 1m is allowed"),
        "{error}"
    );
    assert_eq!(clock.now(), stamp(NOON, 0));
}

#[test]
fn resume_after_a_restart_exceeds_the_stored_mark() {
    let (_, clock) = clock_at(NOON);
    clock.resume(stamp(NOON - 1000, 9));
    assert_eq!(clock.now(), stamp(NOON, 0), "a mark in the past holds nothing back");
    clock.resume(stamp(NOON, 500));
    assert_eq!(clock.now(), stamp(NOON, 501));
    let far = stamp(NOON + 10 * DRIFT_MAX_MILLIS, 1);
    clock.resume(far);
    assert!(clock.now() > far, "the wall clock may have been set back by more than the drift");
    clock.resume(stamp(NOON, 0));
    assert!(clock.now() > far, "resuming never goes back");
}

#[test]
fn a_forged_huge_value_cannot_overflow() {
    let forged = Hlc::from_raw(i64::MAX).unwrap();
    let (_, clock) = clock_at(NOON);
    assert!(clock.merge(forged).is_err());
    assert_eq!(clock.now(), stamp(NOON, 0));

    clock.resume(forged);
    let stamps: Vec<_> = (0..100_000).map(|_| clock.now()).collect();
    assert!(stamps.is_sorted_by(|a, b| a < b));
    assert!(stamps.iter().all(|stamp| stamp.raw() >= 0));
}

#[test]
fn no_drift_limit_is_no_way_to_overflow() {
    let wall = Arc::new(Wall(AtomicI64::new(Timestamp::MAX.as_millis())));
    let clock = HybridClock::new(wall, Duration::MAX);
    assert!(clock.merge(Hlc::from_raw(i64::MAX).unwrap()).is_err());
    let first = clock.now();
    assert!(clock.merge(first).unwrap() > first);
    assert!(clock.now() > first);
}

#[test]
fn threads_never_share_a_stamp() {
    let (_, clock) = clock_at(NOON);
    let per_thread = 5_000;
    let mut stamps: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let stamps: Vec<_> = (0..per_thread).map(|_| clock.now()).collect();
                    assert!(stamps.is_sorted_by(|a, b| a < b));
                    stamps
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), 4 * per_thread);
}

#[derive(Clone, Debug)]
enum Move {
    Now,
    Merge(i64),
    Resume(i64),
    Wall(i64),
}

fn moves() -> impl Strategy<Value = Move> {
    let near = (NOON - 200_000) << 16..(NOON + 200_000) << 16;
    prop_oneof![
        3 => Just(Move::Now),
        2 => near.clone().prop_map(Move::Merge),
        1 => (0..=i64::MAX).prop_map(Move::Merge),
        1 => near.prop_map(Move::Resume),
        2 => (NOON - 200_000..NOON + 200_000).prop_map(Move::Wall),
        1 => (0..=Timestamp::MAX.as_millis()).prop_map(Move::Wall),
    ]
}

proptest! {
    #[test]
    fn pack_and_text_round_trip(raw in 0..=i64::MAX) {
        let hlc = Hlc::from_raw(raw).unwrap();
        prop_assert_eq!(hlc.raw(), raw);
        prop_assert_eq!(stamp(hlc.millis(), hlc.counter()), hlc);
        prop_assert_eq!(hlc.to_string().parse::<Hlc>().unwrap(), hlc);
    }

    #[test]
    fn packing_keeps_order_and_text_sorts(
        a in (0..1_i64 << 47, any::<u16>()),
        b in (0..1_i64 << 47, any::<u16>()),
    ) {
        let (left, right) = (stamp(a.0, a.1), stamp(b.0, b.1));
        prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        prop_assert_eq!(left.to_string().cmp(&right.to_string()), a.cmp(&b));
    }

    #[test]
    fn arbitrary_interleavings_stay_monotonic(moves in prop::collection::vec(moves(), 1..60)) {
        let (wall, clock) = clock_at(NOON);
        let mut floor = -1;
        for step in moves {
            let given = match step {
                Move::Now => Some(clock.now()),
                Move::Merge(raw) => {
                    let remote = Hlc::from_raw(raw).unwrap();
                    let merged = clock.merge(remote).ok();
                    prop_assert!(merged.is_none_or(|merged| merged > remote));
                    merged
                }
                Move::Resume(raw) => {
                    clock.resume(Hlc::from_raw(raw).unwrap());
                    floor = floor.max(raw);
                    None
                }
                Move::Wall(millis) => {
                    wall.set(millis);
                    None
                }
            };
            if let Some(given) = given {
                prop_assert!(given.raw() > floor, "{given} is not above {floor:x}");
                floor = given.raw();
            }
        }
    }
}
