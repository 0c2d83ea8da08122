//! The dashboard: its ports, its settings, and what all requests share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_core::Result;
use pillarbox_core::port::{Admin, Clock, Presence, SagaAdmin, Schema};
use pillarbox_host::SystemClock;
use tokio::sync::{Semaphore, watch};

use crate::options::DashboardOptions;
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
}

impl Ports {
    /// The ports of a store that has them all.
    pub fn of<S: Admin + SagaAdmin + Presence + Schema + Clone + 'static>(store: &S) -> Self {
        Self {
            admin: Arc::new(store.clone()),
            sagas: Arc::new(store.clone()),
            presence: Arc::new(store.clone()),
            schema: Arc::new(store.clone()),
        }
    }
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) ports: Ports,
    pub(crate) options: DashboardOptions,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the sampler has read last.
    pub(crate) latest: watch::Sender<Arc<Snapshot>>,
    /// Told when somebody looks, so that the sampler hurries.
    pub(crate) looked: watch::Sender<u64>,
    pub(crate) sessions: Sessions,
    pub(crate) failures: Failures,
    pub(crate) streams: Arc<Semaphore>,
    /// Why the database refused a change: then the page offers none.
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
    pub fn new(ports: Ports, options: DashboardOptions) -> Result<Self> {
        options.check()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shared = Shared {
            ports,
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

    /// Reads the store about once a second, and every few seconds while nobody looks, until `shutdown` ends. Health,
    /// API and page show what it has read. A store that cannot be read is told in them and tried again.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) {
        let mut sampler = Sampler::new(Arc::clone(&self.shared));
        tokio::select! {
            () = shutdown => {}
            () = sampler.run() => {}
        }
    }
}

impl Shared {
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

    /// Why the database refuses changes, if it did.
    pub(crate) fn refuses_changes(&self) -> Option<String> {
        self.read_only.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Remembers that the database refuses changes.
    pub(crate) fn remember_refusal(&self, why: Option<String>) {
        *self.read_only.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = why;
    }
}
