//! The dashboard: its ports, its settings, and what all requests share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use pillarbox_core::port::{Admin, Clock, Doctor, Presence, SagaAdmin, Schema};
use pillarbox_core::{Result, RouteName};
use pillarbox_host::SystemClock;
use tokio::sync::{Semaphore, watch};

use crate::options::{DashboardOptions, RouteFacts};
use crate::sampler::{Sampler, Snapshot};
use crate::security::{Failures, Sessions};

/// The most streams of live updates at one time.
const STREAMS_MAX: usize = 100;

/// A store as an operator sees it.
#[derive(Clone)]
pub struct Ports {
    /// Entries, routes and the audit trail.
    pub admin: Arc<dyn Admin>,
    /// Sagas.
    pub sagas: Arc<dyn SagaAdmin>,
    /// Running relays.
    pub presence: Arc<dyn Presence>,
    /// The tables.
    pub schema: Arc<dyn Schema>,
    /// What the database's user may do.
    pub doctor: Arc<dyn Doctor>,
}

impl Ports {
    /// The ports of a store that has them all.
    pub fn of<S: Admin + SagaAdmin + Presence + Schema + Doctor + Clone + 'static>(store: &S) -> Self {
        Self {
            admin: Arc::new(store.clone()),
            sagas: Arc::new(store.clone()),
            presence: Arc::new(store.clone()),
            schema: Arc::new(store.clone()),
            doctor: Arc::new(store.clone()),
        }
    }
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) ports: Ports,
    pub(crate) options: DashboardOptions,
    /// The configured routes as they are now. Those of the options are where it began.
    routes: RwLock<Arc<BTreeMap<RouteName, RouteFacts>>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the sampler has read last.
    pub(crate) latest: watch::Sender<Arc<Snapshot>>,
    /// Told when somebody looks, so that the sampler hurries.
    pub(crate) looked: watch::Sender<u64>,
    pub(crate) sessions: Sessions,
    pub(crate) failures: Failures,
    pub(crate) streams: Arc<Semaphore>,
    /// Why the database takes no changes, as far as is known: then the page offers none.
    pub(crate) read_only: Mutex<Option<String>>,
    /// One run of the doctor at a time.
    pub(crate) doctor: Semaphore,
}

/// The operator's side over HTTP. A clone is another handle to the same dashboard.
#[derive(Clone)]
pub struct Dashboard {
    pub(crate) shared: Arc<Shared>,
}

impl Dashboard {
    /// A dashboard over these ports.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) for settings that cannot work.
    pub fn new(ports: Ports, mut options: DashboardOptions) -> Result<Self> {
        options.check()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shared = Shared {
            ports,
            routes: RwLock::new(Arc::new(std::mem::take(&mut options.routes))),
            options,
            latest: watch::Sender::new(Arc::new(Snapshot::unread(clock.now()))),
            clock,
            looked: watch::Sender::new(0),
            sessions: Sessions::default(),
            failures: Failures::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            read_only: Mutex::new(None),
            doctor: Semaphore::new(1),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The path under which clients see the server.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.shared.options.prefix
    }

    /// Shows these configured routes from the next look on, in the place of those before.
    pub fn set_routes(&self, routes: BTreeMap<RouteName, RouteFacts>) {
        *self.shared.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
        self.shared.looked.send_modify(|looks| *looks = looks.wrapping_add(1));
    }

    /// Reads the store about once a second, and every few seconds while no page is open, until `shutdown` ends. Where a
    /// read takes long, the next one waits longer, up to a minute. Health, API and page show what it has read. A store that cannot be read is told in them and tried again.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let mut sampler = Sampler::new(Arc::clone(&self.shared));
        tokio::select! {
            () = shutdown => {}
            () = sampler.run() => {}
        }
    }
}

impl Shared {
    /// The configured routes as they are now.
    pub(crate) fn routes(&self) -> Arc<BTreeMap<RouteName, RouteFacts>> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was read last, and that somebody looks.
    pub(crate) fn look(&self) -> Arc<Snapshot> {
        self.looked.send_modify(|looks| *looks = looks.wrapping_add(1));
        Arc::clone(&self.latest.borrow())
    }

    /// What was read last. The first request after a start waits a moment for the first look.
    pub(crate) async fn first_look(&self) -> Arc<Snapshot> {
        let mut latest = self.latest.subscribe();
        let read = latest.wait_for(|snapshot| snapshot.is_read());
        let _ = tokio::time::timeout(Duration::from_secs(5), read).await;
        self.look()
    }

    /// A path as the client sees it.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.options.prefix)
    }

    /// Why the database takes no changes, if that is known.
    pub(crate) fn refuses_changes(&self) -> Option<String> {
        self.read_only.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers why the database takes no changes, or that it takes them.
    pub(crate) fn remember_refusal(&self, why: Option<String>) {
        *self.read_only.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}
