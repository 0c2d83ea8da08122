//! The relay: claims entries of one route, hands them to a sink, and settles what came of it.

mod batch;
mod herald;
mod pipeline;
mod window;

use std::future::Future;
use std::sync::Arc;

use pillarbox_core::port::{Death, Presence, Sink, Store};
use pillarbox_core::{Error, Result, RouteName};

use crate::handle::{Handle, Shared};
use crate::options::RelayOptions;
use crate::tally::Tally;

use herald::announced;
use pipeline::{Pipeline, Until};

type DeathHook = Arc<dyn Fn(&Death) + Send + Sync>;

/// Delivers the entries of one route to one sink, at least once.
///
/// The next batch is claimed while this one is delivered and the last one is settled; what is in flight is
/// bounded. Any number of relays may work on one route: they share it through the store.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use pillarbox_core::port::Store;
/// # use pillarbox_engine::{Relay, sink::NullSink};
/// # async fn example(store: Arc<dyn Store>) -> pillarbox_core::Result<()> {
/// let relay = Relay::builder(store, Arc::new(NullSink)).route("orders").build()?;
/// let tally = relay.drain().await?;
/// # Ok(())
/// # }
/// ```
pub struct Relay {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) route: RouteName,
    pub(crate) owner: String,
    pub(crate) options: RelayOptions,
    pub(crate) presence: Option<Arc<dyn Presence>>,
    pub(crate) on_death: Option<DeathHook>,
    pub(crate) seed: u64,
    pub(crate) shared: Arc<Shared>,
}

impl Relay {
    /// A relay from this store to this sink.
    pub fn builder(store: Arc<dyn Store>, sink: Arc<dyn Sink>) -> RelayBuilder {
        RelayBuilder {
            store,
            sink,
            route: None,
            owner: None,
            options: RelayOptions::default(),
            presence: None,
            on_death: None,
            seed: None,
        }
    }

    /// Claims, delivers and settles one batch, and returns what it did.
    ///
    /// # Errors
    /// When the store fails. What was claimed by then moves again when its lease ends.
    pub async fn run_once(&self) -> Result<Tally> {
        Pipeline::new(self, Until::Once).run(std::future::pending()).await
    }

    /// Works until nothing is due, or the destination is down. Safe to call from overlapping cron jobs.
    ///
    /// # Errors
    /// When the store fails. What was claimed by then moves again when its lease ends.
    pub async fn drain(&self) -> Result<Tally> {
        self.drain_until(std::future::pending()).await
    }

    /// [`drain`](Self::drain) that can be asked to stop early: it then finishes or releases what is in flight.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn drain_until(&self, shutdown: impl Future<Output = ()> + Send) -> Result<Tally> {
        announced(self, "drain", Pipeline::new(self, Until::Drained).run(shutdown)).await
    }

    /// Works until `shutdown` resolves; then stops claiming, finishes or releases what is in flight, and
    /// returns what it did. A lost database or destination does not end it: it waits and tries again.
    ///
    /// # Errors
    /// Only for what waiting cannot mend: wrong tables or a wrong configuration.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<Tally> {
        announced(self, "run", Pipeline::new(self, Until::Stopped).run(shutdown)).await
    }

    /// A handle to wake this relay and to look at it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// The route that it delivers.
    #[must_use]
    pub fn route(&self) -> &RouteName {
        &self.route
    }
}

/// Builds a [`Relay`]. Only the route is required.
#[must_use]
pub struct RelayBuilder {
    store: Arc<dyn Store>,
    sink: Arc<dyn Sink>,
    route: Option<String>,
    owner: Option<String>,
    options: RelayOptions,
    presence: Option<Arc<dyn Presence>>,
    on_death: Option<DeathHook>,
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

    /// The name that people see on claimed entries. Default: process id and a random number. Two relays of one
    /// name do not disturb each other: ownership is the fence.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Where it says that it is there and whether its circuit is open, for operators in other processes. A run
    /// of one batch says nothing. Default: nowhere.
    pub fn presence(mut self, presence: Arc<dyn Presence>) -> Self {
        self.presence = Some(presence);
        self
    }

    /// Is told of each death once it is durable. A hook that panics changes nothing.
    pub fn on_death(mut self, hook: impl Fn(&Death) + Send + Sync + 'static) -> Self {
        self.on_death = Some(Arc::new(hook));
        self
    }

    /// The seed of jitter and poll spread. Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Checks everything and builds.
    ///
    /// # Errors
    /// When the route is missing or out of bounds, or an option cannot work.
    pub fn build(self) -> Result<Relay> {
        let route =
            self.route.ok_or_else(|| Error::invalid("a relay needs a route: call .route(\"name\")"))?;
        self.options.check()?;
        let seed = self.seed.unwrap_or_else(pillarbox_host::random_u64);
        let owner = match self.owner {
            Some(owner) => owner,
            None => format!("{}-{:08x}", std::process::id(), seed >> 32),
        };
        pillarbox_core::check_name("owner", &owner)?;
        Ok(Relay {
            store: self.store,
            sink: self.sink,
            route: RouteName::new(route)?,
            owner,
            options: self.options,
            presence: self.presence,
            on_death: self.on_death,
            seed,
            shared: Arc::default(),
        })
    }
}
