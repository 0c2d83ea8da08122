//! The metrics of one route, as the observer of its relay.

use std::time::Duration;

use pillarbox_core::port::Clock;
use pillarbox_core::{CircuitState, Entry, Headers};
use pillarbox_engine::{Observe, StoreCall, Tally};
use pillarbox_host::SystemClock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::labels::{Route, RouteCall, RouteOutcome, Trace};
use crate::metrics::OfRoutes;

/// Counts what the relay of one route does. It is made by [`Metrics::route`](crate::Metrics::route).
#[derive(Clone)]
pub struct RouteMetrics {
    claimed: Counter,
    delivered: Counter,
    retried: Counter,
    dead: Counter,
    released: Counter,
    fenced: Counter,
    reaped: Counter,
    store_failures: [Counter; StoreCall::ALL.len()],
    wait: HistogramWithExemplars<Trace>,
    claim: Histogram,
    publish: HistogramWithExemplars<Trace>,
    settle: Histogram,
    circuit: Gauge,
    in_flight: Gauge,
    lanes: Gauge,
}

impl RouteMetrics {
    pub(crate) fn new(of: &OfRoutes, route: String) -> Self {
        let settled =
            |outcome| of.settled.get_or_create_owned(&RouteOutcome { route: route.clone(), outcome });
        let failures = |call: StoreCall| {
            let call = RouteCall { route: route.clone(), call: call.as_str() };
            of.store_failures.get_or_create_owned(&call)
        };
        let label = Route { route: route.clone() };
        // All are shown with a zero from the beginning: a counter that appears with its first count hides that count from
        // `rate`. Not `staged`, which a relay never counts.
        Self {
            claimed: of.claimed.get_or_create_owned(&label),
            delivered: settled("delivered"),
            retried: settled("retried"),
            dead: settled("dead"),
            released: settled("released"),
            fenced: settled("fenced"),
            reaped: of.reaped.get_or_create_owned(&label),
            store_failures: StoreCall::ALL.map(failures),
            wait: of.wait.get_or_create_owned(&label),
            claim: of.claim.get_or_create_owned(&label),
            publish: of.publish.get_or_create_owned(&label),
            settle: of.settle.get_or_create_owned(&label),
            circuit: of.circuit.get_or_create_owned(&label),
            in_flight: of.in_flight.get_or_create_owned(&label),
            lanes: of.lanes.get_or_create_owned(&label),
        }
    }
}

impl Observe for RouteMetrics {
    fn claimed(&self, entries: &[Entry], took: Duration) {
        self.claim.observe(took.as_secs_f64());
        self.claimed.inc_by(u64::try_from(entries.len()).unwrap_or(u64::MAX));
        let now = SystemClock.now();
        // One exemplar a batch: the last one in a bucket is all that a scrape shows.
        let mut trace = trace_of(entries);
        for entry in entries.iter().filter(|entry| entry.attempts <= 1) {
            let waited = now.since(entry.created_at).as_secs_f64();
            self.wait.observe(waited, trace.take(), None);
        }
    }

    fn published(&self, entries: &[Entry], took: Duration) {
        self.publish.observe(took.as_secs_f64(), trace_of(entries), None);
    }

    fn settled(&self, outcomes: &Tally, took: Duration) {
        self.settle.observe(took.as_secs_f64());
        self.delivered.inc_by(outcomes.delivered);
        self.retried.inc_by(outcomes.retried);
        self.dead.inc_by(outcomes.dead);
        self.released.inc_by(outcomes.released);
        self.fenced.inc_by(outcomes.fenced);
    }

    fn reaped(&self, outcomes: &Tally) {
        self.reaped.inc_by(outcomes.reaped);
        self.dead.inc_by(outcomes.dead);
    }

    fn store_failed(&self, call: StoreCall) {
        let at = StoreCall::ALL.iter().position(|known| *known == call);
        if let Some(counter) = at.and_then(|at| self.store_failures.get(at)) {
            counter.inc();
        }
    }

    fn state(&self, circuit: CircuitState, in_flight: usize) {
        self.circuit.set(i64::from(circuit != CircuitState::Closed));
        self.in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
    }

    fn lanes(&self, held: usize) {
        self.lanes.set(i64::try_from(held).unwrap_or(i64::MAX));
    }
}

/// The trace of the first entry, if it has one.
fn trace_of(entries: &[Entry]) -> Option<Trace> {
    entries.first().and_then(|entry| trace_id(&entry.headers))
}

/// The trace id of a W3C `traceparent`. Anything else in that header is not repeated: it could be anything.
fn trace_id(headers: &Headers) -> Option<Trace> {
    let mut parts = headers.get("traceparent")?.split('-');
    let (_version, id) = (parts.next()?, parts.next()?);
    let sound = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    sound.then(|| Trace { trace_id: id.to_owned() })
}
