//! Where a claim begins.
//!
//! While some transaction is held open, anywhere on the server, the database removes nothing that was there when it began or
//! came later. A claim from the very beginning of an index, a *sweep*, then passes over all that was claimed before it, and
//! every claim takes longer than the last. So a claim may begin where the last one ended, at the *floor*.
//!
//! Nothing is left behind by that. Entries below the floor (a lower seq that was committed late, what was requeued or released,
//! what is more urgent) are found by the next sweep, and there is one whenever a claim from the floor finds nothing, and
//! at the latest when [`PAYS`] times as long has passed as the last one took more than a claim from the floor, or [`SWEEP_INTERVAL_MAX`]. If nobody holds a
//! transaction open it takes nothing more, and at least every second claim is a sweep.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pillarbox_core::RouteName;

use crate::row::At;

/// Entries that a store must have claimed of a route before a floor is worth it: a claim passes over this
/// many in a millisecond or two. A store that claimed fewer takes the oldest with every claim.
const PASSED_MIN: u64 = 5_000;
/// The wait between two sweeps, as a multiple of the cost of a sweep: sweeps take at most this part of the
/// time.
const PAYS: u32 = 10;
/// The longest until the next sweep, whatever it costs: what is urgent does not wait for ever.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// Routes that are remembered. Beyond that all are forgotten, which costs each a sweep.
const ROUTES_MAX: usize = 1_000;

/// A place in each of the two orders of a claim, by time and of what is pending: the first that it looks at. What was returned
/// and is due at once has none: it is never much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) due: Option<At>,
    /// Priority and seq, or the clock stamp alone.
    pub(crate) ready: [i64; 2],
}

impl Floor {
    /// The very beginning.
    pub(crate) const NONE: Self = Self { due: None, ready: [i64::MIN; 2] };
}

/// What a claim is to be remembered by.
pub(crate) struct Claimed {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// How many were asked for, and how many came.
    pub(crate) asked: u32,
    pub(crate) taken: usize,
    /// Where it ended among the times, and in the other order; `None` if it took nothing there.
    pub(crate) due_end: Option<At>,
    pub(crate) ready_end: Option<[i64; 2]>,
}

/// The floors of all routes in one order.
#[derive(Default)]
pub(crate) struct Floors(Mutex<HashMap<RouteName, Past>>);

/// What is remembered of a route.
struct Past {
    /// Entries that were claimed.
    passed: u64,
    floor: Floor,
    /// How long the last claim from the floor took.
    near: Option<Duration>,
    /// When the next sweep is due; `None`: at once.
    sweep_at: Option<Instant>,
}

impl Floors {
    /// Where a claim is to begin; `None`: it is to be a sweep.
    pub(crate) fn begin(&self, route: &RouteName, now: Instant) -> Option<Floor> {
        let routes = self.lock();
        let past = routes.get(route)?;
        (past.passed >= PASSED_MIN && past.sweep_at.is_some_and(|at| now < at)).then_some(past.floor)
    }

    /// Notes a sweep that was made.
    pub(crate) fn swept(&self, route: &RouteName, claimed: &Claimed) {
        let mut routes = self.lock();
        if routes.len() >= ROUTES_MAX && !routes.contains_key(route) {
            routes.clear();
        }
        let past = routes.entry(route.clone()).or_insert(Past {
            passed: 0,
            floor: Floor::NONE,
            near: None,
            sweep_at: None,
        });
        past.moved(claimed);
        let took = claimed.took();
        let more = past.near.map_or(Duration::ZERO, |near| took.saturating_sub(near));
        // One claim from the floor now and then tells what it saves. But not where each would find nothing.
        let look = if past.near.is_none() || claimed.is_full() { took } else { Duration::ZERO };
        let wait = more.saturating_mul(PAYS).saturating_add(look).min(SWEEP_INTERVAL_MAX);
        past.sweep_at = claimed.ended.checked_add(wait);
    }

    /// Notes a claim from the floor.
    pub(crate) fn followed(&self, route: &RouteName, claimed: &Claimed) {
        if let Some(past) = self.lock().get_mut(route) {
            past.moved(claimed);
            past.near = Some(claimed.took());
        }
    }

    /// Makes the next claim a sweep: the outcome of the last one is unknown.
    pub(crate) fn failed(&self, route: &RouteName) {
        if let Some(past) = self.lock().get_mut(route) {
            past.sweep_at = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RouteName, Past>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Past {
    fn moved(&mut self, claimed: &Claimed) {
        self.passed = self.passed.saturating_add(u64::try_from(claimed.taken).unwrap_or(u64::MAX));
        self.floor = Floor {
            due: claimed.due_end.or(self.floor.due),
            ready: claimed.ready_end.unwrap_or(self.floor.ready),
        };
    }
}

impl Claimed {
    fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.begun)
    }

    fn is_full(&self) -> bool {
        u32::try_from(self.taken).unwrap_or(u32::MAX) >= self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A store's claims of one route, one after the other.
    struct Run {
        floors: Floors,
        route: RouteName,
        now: Instant,
        end: i64,
    }

    impl Run {
        fn new() -> Self {
            let route = RouteName::new("orders").unwrap();
            Self { floors: Floors::default(), route, now: Instant::now(), end: 0 }
        }

        /// Says where the claim began.
        fn claim(&mut self, taken: usize, sweep_takes: Duration, near_takes: Duration) -> Option<i64> {
            let begin = self.floors.begin(&self.route, self.now);
            let begun = self.now;
            self.now += if begin.is_some() { near_takes } else { sweep_takes };
            self.end += i64::try_from(taken).unwrap();
            let ready_end = (taken > 0).then_some([100, self.end]);
            let claimed = Claimed { begun, ended: self.now, asked: 1_000, taken, due_end: None, ready_end };
            match begin {
                None => self.floors.swept(&self.route, &claimed),
                Some(_) => self.floors.followed(&self.route, &claimed),
            }
            begin.map(|floor| floor.ready[1])
        }
    }

    #[test]
    fn what_few_were_claimed_before_is_claimed_from_the_beginning() {
        let mut run = Run::new();
        for _ in 0..5 {
            assert_eq!(run.claim(1_000, 1_000 * MS, MS), None);
        }
        assert_eq!(run.claim(1_000, 1_000 * MS, MS), Some(5_000));
    }

    #[test]
    fn a_sweep_that_costs_nothing_more_is_every_second_claim() {
        let mut run = Run::new();
        let swept = (0..105).filter(|_| run.claim(1_000, 10 * MS, 10 * MS).is_none()).count();
        assert_eq!(swept, 5 + 50);
    }

    #[test]
    fn a_sweep_that_costs_more_is_a_tenth_of_the_time() {
        let mut run = Run::new();
        let swept = (0..1_000).filter(|_| run.claim(1_000, 100 * MS, 10 * MS).is_none()).count();
        assert!((10..20).contains(&swept), "{swept}");
    }

    #[test]
    fn where_nothing_waits_and_a_sweep_costs_nothing_more_nobody_looks_twice() {
        let mut run = Run::new();
        while run.claim(1_000, 10 * MS, 10 * MS).is_none() {}
        for _ in 0..10 {
            run.now += 20 * MS;
            assert_eq!(run.claim(1, MS, MS), None);
            assert_eq!(run.claim(0, MS, MS), None);
        }
    }

    #[test]
    fn a_claim_begins_where_the_last_one_ended_and_after_a_failure_at_the_beginning() {
        let mut run = Run::new();
        let begins: Vec<_> = (0..8).map(|_| run.claim(1_000, 100 * MS, MS)).collect();
        assert_eq!(begins[5..], [Some(5_000), Some(6_000), Some(7_000)]);
        run.floors.failed(&run.route);
        assert_eq!(run.claim(1_000, 100 * MS, MS), None);
    }

    #[test]
    fn an_arm_that_took_nothing_stays_where_it_was() {
        let run = Run::new();
        let claimed = |due_end, ready_end| Claimed {
            begun: run.now,
            ended: run.now + MS,
            asked: 10_000,
            taken: 10_000,
            due_end,
            ready_end,
        };
        let at = At::from(pillarbox_core::Timestamp::MIN);
        run.floors.swept(&run.route, &claimed(None, Some([1, 2])));
        run.floors.followed(&run.route, &claimed(Some(at), None));
        let floor = Floor { due: Some(at), ready: [1, 2] };
        assert_eq!(run.floors.begin(&run.route, run.now), Some(floor));
    }

    #[test]
    fn the_memory_is_bounded() {
        let run = Run::new();
        for n in 0..=ROUTES_MAX {
            let route = RouteName::new(format!("orders-{n}")).unwrap();
            let (begun, ended) = (run.now, run.now);
            let claimed = Claimed { begun, ended, asked: 1, taken: 1, due_end: None, ready_end: None };
            run.floors.swept(&route, &claimed);
        }
        assert_eq!(run.floors.lock().len(), 1);
    }
}
