//! The set of metrics of one process.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::consumer::ConsumerMetrics;
use crate::labels::{Consumer, ConsumerOutcome, Names, Route, RouteCall, RouteOutcome, Trace};
use crate::plain;
use crate::route::RouteMetrics;
use crate::sample::StoreSample;
use crate::store::StoreMetrics;

/// The media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of [`Metrics::encode_plain`].
pub const CONTENT_TYPE_PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) type RouteHistogram = Family<Route, Histogram, fn() -> Histogram>;
pub(crate) type TracedHistogram =
    Family<Route, HistogramWithExemplars<Trace>, fn() -> HistogramWithExemplars<Trace>>;

/// The metrics of one process. Clones share everything.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    /// Held while the metrics of the store change, so that no scrape sees half of a sample.
    changing: Mutex<()>,
    routes: Names,
    consumers: Names,
    of_routes: OfRoutes,
    of_consumers: OfConsumers,
    store: StoreMetrics,
}

/// What relays of this process count.
pub(crate) struct OfRoutes {
    pub(crate) staged: Family<Route, Counter>,
    pub(crate) claimed: Family<Route, Counter>,
    pub(crate) settled: Family<RouteOutcome, Counter>,
    pub(crate) reaped: Family<Route, Counter>,
    pub(crate) store_failures: Family<RouteCall, Counter>,
    pub(crate) wait: TracedHistogram,
    pub(crate) claim: RouteHistogram,
    pub(crate) publish: TracedHistogram,
    pub(crate) settle: RouteHistogram,
    pub(crate) circuit: Family<Route, Gauge>,
    pub(crate) in_flight: Family<Route, Gauge>,
    pub(crate) lanes: Family<Route, Gauge>,
}

/// What consumers of this process count.
pub(crate) struct OfConsumers {
    pub(crate) consumed: Family<ConsumerOutcome, Counter>,
    pub(crate) handle: Family<Consumer, Histogram, fn() -> Histogram>,
}

/// From half a millisecond to half a minute: calls to a database or a broker.
const CALL_SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
/// From five milliseconds to an hour: how long an entry waits.
const WAIT_SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0];

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics of which nothing is counted yet.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("pillarbox");
        let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of Pillarbox", info);
        // Operators ask for the state of the store first, so it comes first.
        let store = StoreMetrics::register(&mut registry);
        let of_routes = OfRoutes::register(&mut registry);
        let of_consumers = OfConsumers::register(&mut registry);
        Self(Arc::new(Inner {
            registry,
            changing: Mutex::default(),
            routes: Names::default(),
            consumers: Names::default(),
            of_routes,
            of_consumers,
            store,
        }))
    }

    /// The metrics of one route, for the observer of its relay. They are there from now on, with zeros.
    #[must_use]
    pub fn route(&self, route: &str) -> RouteMetrics {
        RouteMetrics::new(&self.0.of_routes, self.0.routes.bounded(route))
    }

    /// The metrics of one consumer, for its observer. They are there from now on, with zeros.
    #[must_use]
    pub fn consumer(&self, consumer: &str) -> ConsumerMetrics {
        ConsumerMetrics::new(&self.0.of_consumers, &self.0.consumers.bounded(consumer))
    }

    /// Counts entries that this process has staged, once their transaction is committed. Only the application knows
    /// when that is, so nothing but this call counts them. Call it with 0 at the start: a counter that appears with its
    /// first count hides that count from `rate`.
    pub fn staged(&self, route: &str, entries: u64) {
        let route = Route { route: self.0.routes.bounded(route) };
        self.0.of_routes.staged.get_or_create(&route).inc_by(entries);
    }

    /// Shows what was read from the store. Routes that are gone from the store are gone from the metrics too.
    pub fn set_store(&self, sample: &StoreSample) {
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.store.set(sample, &self.0.routes, &self.0.consumers);
    }

    /// Says that the store could not be read. Its last values are removed, so that no panel shows old ones as new.
    pub fn lose_store(&self) {
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.store.lose();
    }

    /// All metrics as OpenMetrics text ([`CONTENT_TYPE`]), with exemplars.
    #[must_use]
    pub fn encode(&self) -> String {
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut encoded = String::with_capacity(16 * 1024);
        // Writing to a string does not fail, and no metric of ours fails to be written.
        let _ = text::encode(&mut encoded, &self.0.registry);
        encoded
    }

    /// All metrics as the older text of Prometheus ([`CONTENT_TYPE_PLAIN`]), for scrapers that do not ask for
    /// OpenMetrics. It has no exemplars.
    #[must_use]
    pub fn encode_plain(&self) -> String {
        plain::from_openmetrics(&self.encode())
    }
}

/// Registers a metric and returns it.
pub(crate) fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// The same for a metric in seconds; its name gets that unit.
pub(crate) fn add_seconds<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

fn call_histogram() -> Histogram {
    Histogram::new(CALL_SECONDS)
}

impl OfRoutes {
    fn register(to: &mut Registry) -> Self {
        let calls: fn() -> Histogram = call_histogram;
        let traced_calls: fn() -> HistogramWithExemplars<Trace> =
            || HistogramWithExemplars::new(CALL_SECONDS.into_iter());
        let waits: fn() -> HistogramWithExemplars<Trace> =
            || HistogramWithExemplars::new(WAIT_SECONDS.into_iter());
        Self {
            staged: add(to, "staged", "Entries that this process staged and committed", Family::default()),
            claimed: add(to, "claimed", "Entries that relays of this process claimed", Family::default()),
            settled: add(
                to,
                "settled",
                "Entries by recorded outcome: delivered, retried, dead, released, or fenced (settled too late)",
                Family::default(),
            ),
            reaped: add(
                to,
                "reaped",
                "Entries of expired leases that were returned to the queue",
                Family::default(),
            ),
            store_failures: add(
                to,
                "store_failures",
                "Calls of relays to the database that failed",
                Family::default(),
            ),
            wait: add_seconds(
                to,
                "wait",
                "Time from staging to the first claim, by the clocks of the database and of this process",
                Family::new_with_constructor(waits),
            ),
            claim: add_seconds(
                to,
                "claim_duration",
                "Time that the database took to answer a claim",
                Family::new_with_constructor(calls),
            ),
            publish: add_seconds(
                to,
                "publish_duration",
                "Time that the destination took for a batch",
                Family::new_with_constructor(traced_calls),
            ),
            settle: add_seconds(
                to,
                "settle_duration",
                "Time that the database took to record outcomes",
                Family::new_with_constructor(calls),
            ),
            circuit: add(
                to,
                "circuit_open",
                "1 while the relay of this process takes its destination to be down, else 0",
                Family::default(),
            ),
            in_flight: add(
                to,
                "in_flight",
                "Entries claimed by this process and not yet settled",
                Family::default(),
            ),
            lanes: add(to, "lanes_held", "Lanes that the relay of this process holds", Family::default()),
        }
    }
}

impl OfConsumers {
    fn register(to: &mut Registry) -> Self {
        let calls: fn() -> Histogram = call_histogram;
        Self {
            consumed: add(
                to,
                "consumed",
                "Messages by outcome: processed, duplicate, stale, parked or failed",
                Family::default(),
            ),
            handle: add_seconds(
                to,
                "handle_duration",
                "Time that a message took from the inbox's mark to its commit, retries included",
                Family::new_with_constructor(calls),
            ),
        }
    }
}
