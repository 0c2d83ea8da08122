//! What a process provides to the pure core: a wall clock, fresh ids, and one source of clock stamps. It also holds
//! what every outbox does with them, [`Staging`] and [`outbox!`], how it uses the application's transaction: [`Operation`]
//! and [`transactions!`], and how an inbox marks several events: [`accept_all`](accept_all()). [`Tracer`] is the seam
//! for traces. Transports share [`Lazy`], which keeps their connection, and [`Returned`], which keeps what a consumer
//! gave back.
//!
//! The core takes these as arguments, so that tests can control them. Production code takes them from here.

mod accept_all;
mod driver;
mod lazy;
mod outbox;
mod returned;
mod staging;
mod trace;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillarbox_core::port::{Clock, Entropy};
use pillarbox_core::{EventId, HybridClock, Timestamp};
use uuid::Uuid;

pub use accept_all::{BatchMarks, accept_all};
pub use driver::{
    Blocking, Call, Changed, Next, Operation, Pending, Row, Waiting, run_blocking, run_waiting,
};
pub use lazy::{Lazy, error_of_all};
pub use returned::Returned;
pub use staging::{Staging, Trace};
pub use trace::{Creation, TraceContext, Tracer};

/// How far the stamp of a consumed event may be ahead of this process's wall clock. A stamp further ahead is
/// refused.
///
/// Five minutes is far more than the difference between synchronised machines. It is little enough that one machine
/// with a wrong clock cannot drag the stamps of all others with it.
pub const DRIFT_MAX: Duration = Duration::from_secs(5 * 60);

/// The wall clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the `Clock` that everything else takes")]
    fn now(&self) -> Timestamp {
        // A clock set before 1970 reads as 1970, one set after 9999 as 9999: stamps still grow.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN.saturating_add(since_epoch)
    }
}

/// A source of fresh event ids. They are UUIDs of version 7, so they grow with time. Their randomness comes from
/// the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn event_id(&self) -> EventId {
        EventId(Uuid::now_v7())
    }
}

/// The one source of clock stamps in this process, based on its wall clock and with [`DRIFT_MAX`].
///
/// All parts of a process share it. A stamp is above every stamp that the process has seen only if one clock has
/// seen them all.
///
/// ```
/// let clock = pillarbox_host::process_clock();
/// assert!(clock.now() < clock.now());
/// ```
pub fn process_clock() -> &'static HybridClock {
    static CLOCK: OnceLock<HybridClock> = OnceLock::new();
    CLOCK.get_or_init(|| HybridClock::new(Arc::new(SystemClock), DRIFT_MAX))
}

/// A random number for jitter and seeds. Not for secrets.
#[must_use]
pub fn random_u64() -> u64 {
    // Every `RandomState` has other keys than the last, and the first has them from the operating system.
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_past_the_day_this_was_written() {
        let written = "2025-11-15T00:00:00Z".parse::<Timestamp>().unwrap();
        assert!(SystemClock.now() > written);
    }

    #[test]
    fn fresh_ids_are_v7_and_grow() {
        let ids: Vec<_> = (0..1000).map(|_| OsEntropy.event_id()).collect();
        assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
        assert!(ids.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_process_has_one_clock_for_all_threads() {
        let per_thread = 1000;
        let mut stamps: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..per_thread).map(|_| process_clock().now()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 4 * per_thread);
        assert!(std::ptr::eq(process_clock(), process_clock()));
    }

    #[test]
    fn a_stamp_is_close_to_the_wall_clock() {
        let before = SystemClock.now();
        let stamp = HybridClock::new(Arc::new(SystemClock), DRIFT_MAX).now();
        assert!(stamp.millis() >= before.as_millis() && stamp.millis() <= SystemClock.now().as_millis());
    }

    #[test]
    fn random_numbers_differ() {
        let mut numbers: Vec<_> = (0..1000).map(|_| random_u64()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() > 990);
    }
}
