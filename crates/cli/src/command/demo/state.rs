//! What the parts of the demo share: the database, the figures, and the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillarbox_core::{Ident, RouteName};

use crate::database::{self, Database, DatabaseOptions};
use crate::fault::Fault;

/// How often somebody looks up.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// How long the flow may take to come to rest once everything is staged.
const QUIET_WITHIN: Duration = Duration::from_secs(120);

/// What happened so far.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) transactions: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) rolled_back: AtomicU64,
    pub(crate) staged_twice: AtomicU64,
    pub(crate) deliveries: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) confirmations_lost: AtomicU64,
    pub(crate) refused_by_outage: AtomicU64,
    pub(crate) killed_in_flight: AtomicU64,
    pub(crate) effects: AtomicU64,
    pub(crate) absorbed: AtomicU64,
}

impl Figures {
    /// So many more.
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }

    /// The figure now.
    pub(crate) fn of(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Events of which nothing more is to come.
    pub(crate) fn settled(&self) -> u64 {
        Self::of(&self.rolled_back) + Self::of(&self.effects)
    }
}

/// One run of the demo.
pub(crate) struct Demo {
    pub(crate) database: Database,
    pub(crate) events: u64,
    pub(crate) seed: u64,
    /// Keeps this run apart from what earlier ones left in a database that was named.
    pub(crate) run: String,
    pub(crate) route: RouteName,
    pub(crate) figures: Arc<Figures>,
}

impl Demo {
    /// Connects and creates the tables.
    pub(crate) async fn create(url: &str, events: u64, seed: u64) -> Result<Self, Fault> {
        let options =
            DatabaseOptions { prefix: Some(Ident::new("pillarbox_demo")?), ..DatabaseOptions::default() };
        let database = database::connect(url, options).await?;
        let _ = database.schema.migrate().await?;
        database.staging.make_notes().await?;
        let run = uuid::Uuid::now_v7().to_string();
        let route = RouteName::new(format!("demo-{run}"))?;
        Ok(Self { database, events, seed, run, route, figures: Arc::default() })
    }

    /// Waits until nothing of this run is on its way any more.
    pub(crate) async fn quiet(&self) -> Result<(), Fault> {
        let quiet = async {
            loop {
                let counts = self.database.admin.counts(None).await?;
                let undrained = counts.iter().find(|counts| counts.route == self.route);
                if undrained.is_none_or(|counts| counts.undrained() == 0) {
                    return Ok::<_, Fault>(());
                }
                tokio::time::sleep(TICK).await;
            }
        };
        let late =
            |_| Fault::failed("the demo did not finish within two minutes. Please report this with its seed");
        tokio::time::timeout(QUIET_WITHIN, quiet).await.map_err(late)?
    }
}
