//! The metrics of the store.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use pillarbox_core::port::RouteCounts;
use pillarbox_core::{RouteName, SagaStatus, Standing};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::labels::{Consumer, Names, Route, RouteStatus, State, StatusOnly};
use crate::metrics::{add, add_seconds};
use crate::sample::StoreSample;

type Seconds = Gauge<f64, AtomicU64>;
type PerSecond = Gauge<f64, AtomicU64>;
/// A family of one, because only families can be emptied.
type NoLabels = [(&'static str, &'static str); 0];

/// What the store holds, as of the last sample.
pub(crate) struct StoreMetrics {
    up: Gauge,
    oldest_due: Family<Route, Seconds>,
    entries: Family<RouteStatus, Gauge>,
    blocked: Family<Route, Gauge>,
    paused: Family<Route, Gauge>,
    relays: Family<Route, Gauge>,
    relays_down: Family<Route, Gauge>,
    sagas: Family<StatusOnly, Gauge>,
    sagas_overdue: Family<NoLabels, Gauge>,
    sagas_stuck: Family<NoLabels, Seconds>,
    pool: Family<State, Gauge>,
    accepted: Family<Consumer, PerSecond>,
}

/// What the routes of one label have together.
struct Together {
    entries: [u64; Standing::ALL.len()],
    oldest_due: f64,
    paused: bool,
    relays: usize,
    down: usize,
}

impl StoreMetrics {
    pub(crate) fn register(to: &mut Registry) -> Self {
        Self {
            oldest_due: add_seconds(
                to,
                "oldest_due_age",
                "How long the oldest due entry of a route has waited; 0: nothing is due",
                Family::default(),
            ),
            entries: add(
                to,
                "entries",
                "Entries in the outbox by status; of delivered and of discarded ones at most the newest 100,000 of all routes",
                Family::default(),
            ),
            blocked: add(
                to,
                "blocked_entries",
                "Entries that wait behind a dead entry of their key",
                Family::default(),
            ),
            relays: add(
                to,
                "relays",
                "Number of relays, of any process, that deliver a route; 0 means no relay runs",
                Family::default(),
            ),
            relays_down: add(
                to,
                "relays_down",
                "Relays of any process whose circuit is open",
                Family::default(),
            ),
            paused: add(
                to,
                "route_paused",
                "1 while an operator has paused the route, else 0",
                Family::default(),
            ),
            sagas: add(to, "sagas", "Sagas by status", Family::default()),
            sagas_overdue: add(
                to,
                "sagas_overdue",
                "Sagas that are past their deadline and have not ended",
                Family::default(),
            ),
            sagas_stuck: add_seconds(
                to,
                "sagas_stuck_age",
                "How long the oldest saga has waited for an operator; 0: none waits",
                Family::default(),
            ),
            pool: add(
                to,
                "pool_connections",
                "Connections of this process to the database: busy, idle, and the most allowed",
                Family::default(),
            ),
            accepted: add(
                to,
                "inbox_accepted_per_second",
                "Events per second that a consumer accepted in the ten seconds before the last sample, in any process",
                Family::default(),
            ),
            up: add(
                to,
                "store_up",
                "1 if the last sample of the store could be read, else 0",
                Gauge::default(),
            ),
        }
    }

    pub(crate) fn set(&self, sample: &StoreSample, names: &Names, consumers: &Names) {
        self.lose();
        for (route, together) in together(sample, names) {
            for (standing, entries) in Standing::ALL.into_iter().zip(together.entries) {
                let labels = RouteStatus { route: route.clone(), status: standing.as_str() };
                self.entries.get_or_create(&labels).set(whole(entries));
                if standing == Standing::Blocked {
                    self.blocked.get_or_create(&Route { route: route.clone() }).set(whole(entries));
                }
            }
            let label = Route { route };
            self.oldest_due.get_or_create(&label).set(together.oldest_due);
            self.paused.get_or_create(&label).set(i64::from(together.paused));
            self.relays.get_or_create(&label).set(count(together.relays));
            self.relays_down.get_or_create(&label).set(count(together.down));
        }
        for status in SagaStatus::ALL {
            let labels = StatusOnly { status: status.as_str() };
            self.sagas.get_or_create(&labels).set(whole(sample.sagas.of(status)));
        }
        self.sagas_overdue.get_or_create(&[]).set(whole(sample.sagas.overdue));
        let stuck = sample.sagas.oldest_stuck_age.unwrap_or_default().as_secs_f64();
        self.sagas_stuck.get_or_create(&[]).set(stuck);
        if let Some(pool) = sample.pool {
            let busy = pool.open.saturating_sub(pool.idle);
            for (state, connections) in [("busy", busy), ("idle", pool.idle), ("max", pool.max)] {
                self.pool.get_or_create(&State { state }).set(i64::from(connections));
            }
        }
        for (consumer, rate) in &sample.accepted {
            let label = Consumer { consumer: consumers.bounded(consumer) };
            self.accepted.get_or_create(&label).inc_by(*rate);
        }
        self.up.set(1);
    }

    pub(crate) fn lose(&self) {
        self.up.set(0);
        self.oldest_due.clear();
        self.entries.clear();
        self.blocked.clear();
        self.paused.clear();
        self.relays.clear();
        self.relays_down.clear();
        self.sagas.clear();
        self.sagas_overdue.clear();
        self.sagas_stuck.clear();
        self.pool.clear();
        self.accepted.clear();
    }
}

/// The routes of a sample by their label.
fn together(sample: &StoreSample, names: &Names) -> BTreeMap<String, Together> {
    let mut routes: BTreeMap<String, Together> = BTreeMap::new();
    for counts in &sample.routes {
        let one = Together::of(counts, sample);
        match routes.entry(names.bounded(counts.route.as_str())) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(one);
            }
            std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().join(&one),
        }
    }
    routes
}

impl Together {
    fn of(counts: &RouteCounts, sample: &StoreSample) -> Self {
        let live = || sample.relays.iter().filter(|relay| is_of(relay.route.as_str(), &counts.route));
        Self {
            entries: Standing::ALL.map(|standing| match standing {
                Standing::Is(status) => counts.of(status),
                Standing::Blocked => counts.blocked,
            }),
            oldest_due: counts.oldest_due_age.unwrap_or_default().as_secs_f64(),
            paused: counts.paused.is_some(),
            relays: live().filter(|relay| !relay.is_gone()).count(),
            down: live().filter(|relay| relay.is_down()).count(),
        }
    }

    /// Routes that share a label: the worst of them shows.
    fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.entries.iter_mut().zip(other.entries) {
            *mine = mine.saturating_add(theirs);
        }
        self.oldest_due = self.oldest_due.max(other.oldest_due);
        self.paused |= other.paused;
        self.relays = self.relays.min(other.relays);
        self.down += other.down;
    }
}

fn is_of(relay: &str, route: &RouteName) -> bool {
    relay == route.as_str()
}

fn whole(entries: u64) -> i64 {
    i64::try_from(entries).unwrap_or(i64::MAX)
}

fn count(relays: usize) -> i64 {
    i64::try_from(relays).unwrap_or(i64::MAX)
}
