//! The relay: claims entries of one route, hands them to a sink, and settles what came of it.

mod batch;
mod herald;
mod pipeline;
mod window;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{Death, Lanes, Presence, Purging, Sagas, Sink, Steps, Store};
use pillarbox_core::{Error, Result, RouteName};
use pillarbox_host::Tracer;

use crate::feed::Feed;
use crate::feed::lanes::{ALL_OF_A_KEY, LaneOptions, LaneReader};
use crate::feed::rows::Rows;
use crate::feed::sagas::SagaFeed;
use crate::handle::{Handle, Shared};
use crate::observe::{Observe, Observer};
use crate::options::RelayOptions;
use crate::retention::{Retention, RetentionOptions};
use crate::sink::Handlers;
use crate::tally::Tally;
use crate::trace::Traces;

use herald::announced;
use pipeline::{Pipeline, Until};

/// How long the end of a run waits for the store.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// How often a relay by lanes looks whether others have come or gone.
const ATTEND_INTERVAL_MAX: Duration = Duration::from_secs(1);

type DeathHook = Arc<dyn Fn(&Death) + Send + Sync>;

/// Delivers the entries of one route to one sink, at least once.
///
/// Claiming, delivering and settling overlap: the relay claims the next batch while it delivers this one and
/// settles the last one. The number of entries in flight is bounded. Any number of relays may work on one
/// route: they share it through the store.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use pillarbox_core::port::Store;
/// # use pillarbox_engine::{Relay, sink::NullSink};
/// # async fn example(store: Arc<dyn Store>) -> pillarbox_core::Result<()> {
/// let relay = Relay::builder(store, NullSink).route("orders").build()?;
/// let tally = relay.drain().await?;
/// # Ok(())
/// # }
/// ```
pub struct Relay {
    pub(crate) feed: Arc<dyn Feed>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) route: RouteName,
    pub(crate) owner: String,
    pub(crate) options: RelayOptions,
    pub(crate) presence: Option<Arc<dyn Presence>>,
    pub(crate) on_death: Option<DeathHook>,
    pub(crate) observer: Observer,
    pub(crate) traces: Traces,
    retention: Option<Retention>,
    pub(crate) seed: u64,
    pub(crate) shared: Arc<Shared>,
}

impl Relay {
    /// A relay from this store to this sink, by rows: any number of relays claim due entries, in no promised
    /// order. It does not claim steps of sagas: see [`Relay::sagas`].
    pub fn builder(store: impl Store + 'static, sink: impl Sink + 'static) -> RelayBuilder {
        Self::from(From::Rows(Arc::new(store)), Arc::new(sink))
    }

    /// A relay from this store to this sink, by lanes. It keeps the order of each key. It is also faster,
    /// because it writes nothing before an entry is settled. It does not claim steps of sagas.
    pub fn ordered(lanes: impl Lanes + 'static, sink: impl Sink + 'static) -> RelayBuilder {
        Self::from(From::Lanes(Arc::new(lanes)), Arc::new(sink))
    }

    /// A relay whose handlers run the steps of sagas, and any other entry of its route. The policy is
    /// [`RelayOptions::handlers`] unless another one is set.
    ///
    /// `sagas` comes from the store, with the callback for the end of a saga: `store.sagas().on_end(…)`.
    pub fn sagas(
        store: impl Store + 'static,
        sagas: impl Sagas + 'static,
        handlers: impl Into<Arc<Handlers>>,
    ) -> RelayBuilder {
        let builder = Self::from(From::Sagas(Arc::new(store), Arc::new(sagas)), handlers.into());
        builder.options(RelayOptions::handlers())
    }

    fn from(from: From, sink: Arc<dyn Sink>) -> RelayBuilder {
        RelayBuilder {
            from,
            sink,
            route: None,
            owner: None,
            options: RelayOptions::default(),
            presence: None,
            on_death: None,
            observer: Observer::default(),
            traces: Traces::default(),
            retention: Some(RetentionOptions::default()),
            seed: None,
        }
    }

    /// Claims, delivers and settles one batch, and returns a tally.
    ///
    /// # Errors
    /// When the store fails. Entries that were claimed by then can be claimed again when their lease ends.
    pub async fn run_once(&self) -> Result<Tally> {
        self.left(Pipeline::new(self, Until::Once).run(std::future::pending())).await
    }

    /// Works until no entry is due or the destination is down. It then purges old entries
    /// ([retention](RelayBuilder::retention)). It is safe to call it from overlapping cron jobs.
    ///
    /// # Errors
    /// When the store fails. Entries that were claimed by then can be claimed again when their lease ends.
    pub async fn drain(&self) -> Result<Tally> {
        self.drain_until(std::future::pending()).await
    }

    /// Like [`drain`](Self::drain), but claims at most this many entries. So one run of a cron job ends,
    /// however large the backlog is. An entry that is tried twice counts twice.
    ///
    /// # Errors
    /// When the store fails. Entries that were claimed by then can be claimed again when their lease ends.
    pub async fn drain_at_most(&self, entries: u64) -> Result<Tally> {
        self.drain_until_or_at_most(std::future::pending(), Some(entries)).await
    }

    /// Like [`drain`](Self::drain), but stops early when `shutdown` resolves. It then finishes or releases
    /// the entries in flight.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn drain_until(&self, shutdown: impl Future<Output = ()> + Send) -> Result<Tally> {
        self.drain_until_or_at_most(shutdown, None).await
    }

    /// [`drain_until`](Self::drain_until) and [`drain_at_most`](Self::drain_at_most) in one. `None`: the
    /// number of entries is not limited.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn drain_until_or_at_most(
        &self,
        shutdown: impl Future<Output = ()> + Send,
        entries: Option<u64>,
    ) -> Result<Tally> {
        let drain = Pipeline::new(self, Until::Drained).at_most(entries).run(shutdown);
        let tally = announced(self, self.mode("drain", "drain sagas"), self.left(drain)).await?;
        // A table that only cron jobs drain would grow for ever. That this failed is not the drain's failure.
        if let Some(retention) = &self.retention
            && let Err(error) = retention.run_once().await
        {
            tracing::warn!(
                route = %self.route, %error,
                "old entries could not be purged; the next drain tries again"
            );
        }
        Ok(tally)
    }

    /// Works until `shutdown` resolves, and purges old entries meanwhile
    /// ([retention](RelayBuilder::retention)). After `shutdown` it stops claiming, finishes or releases the
    /// entries in flight, and returns a tally. If the database or the destination is lost, the relay waits
    /// and tries again.
    ///
    /// # Errors
    /// Only for an error that does not go away by waiting: wrong tables or a wrong configuration.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<Tally> {
        let run = Pipeline::new(self, Until::Stopped).run(shutdown);
        announced(self, self.mode("run", "run sagas"), self.left(self.retaining(run))).await
    }

    /// What is announced of this relay.
    fn mode(&self, plain: &'static str, sagas: &'static str) -> &'static str {
        match self.feed.nature().steps {
            Steps::Leave => plain,
            Steps::Take => sagas,
        }
    }

    /// Beside the work, what is old goes. Nothing of the work waits for that or fails with it.
    async fn retaining<T>(&self, work: impl Future<Output = T> + Send) -> T {
        let Some(retention) = &self.retention else { return work.await };
        let purge = async {
            retention.run(std::future::pending()).await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            done = work => done,
            never = purge => match never {},
        }
    }

    /// A run, and after it no lane is held any more, so that others need not wait for its lease.
    async fn left(&self, run: impl Future<Output = Result<Tally>> + Send) -> Result<Tally> {
        let ended = run.await;
        let left = tokio::time::timeout(LEAVE_MAX, self.feed.leave()).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::warn!(
                route = %self.route,
                "the lanes could not be released; other relays take them over when their lease ends"
            );
        }
        ended
    }

    /// A handle that wakes this relay and shows its state.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// The route that this relay delivers.
    #[must_use]
    pub fn route(&self) -> &RouteName {
        &self.route
    }
}

/// How entries are taken from the store.
enum From {
    Rows(Arc<dyn Store>),
    Sagas(Arc<dyn Store>, Arc<dyn Sagas>),
    Lanes(Arc<dyn Lanes>),
}

impl From {
    fn purging(&self) -> Option<Purging> {
        match self {
            Self::Rows(store) | Self::Sagas(store, _) => store.purging(),
            Self::Lanes(lanes) => lanes.purging(),
        }
    }
}

/// Builds a [`Relay`]. Only the route is required.
#[must_use]
pub struct RelayBuilder {
    from: From,
    sink: Arc<dyn Sink>,
    route: Option<String>,
    owner: Option<String>,
    options: RelayOptions,
    presence: Option<Arc<dyn Presence>>,
    on_death: Option<DeathHook>,
    observer: Observer,
    traces: Traces,
    retention: Option<RetentionOptions>,
    seed: Option<u64>,
}

impl RelayBuilder {
    /// The route to deliver.
    pub fn route(mut self, route: impl Into<String>) -> Self {
        self.route = Some(route.into());
        self
    }

    /// The policy. Default: [`RelayOptions::broker`].
    pub fn options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// The name that operators see on claimed entries. Default: process id and a random number. Two relays
    /// with the same name do not disturb each other: ownership is the fence, not the name.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Where the relay records that it is running and whether its circuit is open, for operators in other
    /// processes. A [`run_once`](Relay::run_once) records nothing. Default: nowhere.
    pub fn presence(mut self, presence: impl Presence + 'static) -> Self {
        self.presence = Some(Arc::new(presence));
        self
    }

    /// Sets a hook that is called for each dead entry, once its death is durable. If the hook panics, nothing
    /// changes.
    pub fn on_death(mut self, hook: impl Fn(&Death) + Send + Sync + 'static) -> Self {
        self.on_death = Some(Arc::new(hook));
        self
    }

    /// Sets an observer, such as the metrics of this route. Default: none.
    pub fn observer(mut self, observer: impl Observe + 'static) -> Self {
        self.observer = Observer::new(observer);
        self
    }

    /// Sets the tracer. Each delivery then has a *send* span and each call that records outcomes a *settle* span, linked
    /// to the contexts that were stored with the entries. [`Handlers`] have a *process* span for each entry instead of
    /// the *send* span. Stored contexts are never changed. Default: none.
    pub fn tracer(mut self, tracer: impl Tracer + 'static) -> Self {
        self.traces = Traces::new(tracer);
        self
    }

    /// How long settled entries, the inbox's rows and ended sagas stay. Default: on, with
    /// [`RetentionOptions::default`], which deletes delivered entries after a day.
    ///
    /// Retention belongs to the store, not to the route: each relay purges the entries of all routes, the
    /// inbox and ended sagas. If several relays have different times, the shortest applies. A
    /// [`run`](Relay::run) purges at every interval, by default every minute. A [`drain`](Relay::drain)
    /// purges at its end, a [`run_once`](Relay::run_once) never.
    pub fn retention(mut self, options: RetentionOptions) -> Self {
        self.retention = Some(options);
        self
    }

    /// Turns retention off in this relay. If the application runs no [`Retention`] of its own either, the
    /// tables grow without limit.
    pub fn without_retention(mut self) -> Self {
        self.retention = None;
        self
    }

    /// The seed of the jitter, of the spread between polls, and of the names of lane sessions. Default:
    /// random. Relays by lanes that share a route must differ in their seed or in their owner.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Checks the route and the options, and builds the relay.
    ///
    /// # Errors
    /// When the route is missing or out of bounds, or an option cannot work.
    pub fn build(mut self) -> Result<Relay> {
        let route =
            self.route.ok_or_else(|| Error::invalid("the relay has no route: call .route(\"name\")"))?;
        let route = RouteName::new(route)?;
        self.options.check()?;
        let seed = self.seed.unwrap_or_else(pillarbox_host::random_u64);
        let owner = match self.owner {
            Some(owner) => owner,
            None => format!("{}-{:08x}", std::process::id(), seed >> 32),
        };
        pillarbox_core::check_name("owner", &owner)?;
        let retention = match (self.retention, self.from.purging()) {
            (Some(options), Some(purging)) => Some(Retention::of(purging, options)?),
            _ => None,
        };
        let shared: Arc<Shared> = Arc::default();
        let feed: Arc<dyn Feed> = match self.from {
            From::Rows(store) => Arc::new(Rows(store)),
            From::Sagas(store, sagas) => Arc::new(SagaFeed::new(store, sagas, Arc::clone(&shared))),
            From::Lanes(lanes) => {
                let options = LaneOptions {
                    lease: self.options.lease,
                    shares: self.options.relays_max,
                    max_attempts: self.options.max_attempts,
                    on_dead: self.options.on_dead,
                    per_key: match self.sink.capabilities().ordered_prefix {
                        true => ALL_OF_A_KEY,
                        false => usize::try_from(self.options.in_flight_per_key).unwrap_or(1),
                    },
                    bytes_max: self.options.in_flight_bytes_max,
                };
                let interval = ATTEND_INTERVAL_MAX.min(self.options.lease / 4);
                self.options.reap_interval = self.options.reap_interval.min(interval);
                Arc::new(LaneReader::new(lanes, route.clone(), owner.clone(), options, seed))
            }
        };
        Ok(Relay {
            feed,
            sink: self.sink,
            route,
            owner,
            options: self.options,
            presence: self.presence,
            on_death: self.on_death,
            observer: self.observer,
            traces: self.traces,
            retention,
            seed,
            shared,
        })
    }
}
