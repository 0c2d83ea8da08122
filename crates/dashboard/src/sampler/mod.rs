//! Reads the store for everybody: one look at a time, a history of fifteen minutes, and the verdict.

mod heads;
mod history;
mod outages;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::Result;
use pillarbox_core::health::{Look, RouteState, Verdict};
use pillarbox_core::port::{
    Depth, Recent, RecentRequest, RelaySeen, RouteCounts, SagaCounts, SchemaState, Severity,
};
use pillarbox_core::{RouteName, Status};
use tokio::time::Instant;

use crate::shared::Shared;

pub(crate) use history::{History, POINTS, Point};
pub(crate) use outages::{Outage, Outages};
pub(crate) use snapshot::{RouteView, Snapshot};

/// The wait between two looks while somebody watches.
const WATCHED: Duration = Duration::from_secs(1);
/// The wait between two looks while nobody does.
const UNWATCHED: Duration = Duration::from_secs(5);
/// How long a single request counts as watching.
const REMEMBERED: Duration = Duration::from_secs(15);
/// A look may take at most this part of the time while somebody watches: after one of 100 ms, the next begins 2 s later.
const REST: u32 = 20;
/// The same while nobody does, so that an idle relay with its page spends less than 1 % of a processor.
const REST_UNWATCHED: u32 = 200;
/// The longest wait between two looks.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long one look may take.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// What happened within this time is what rates are made of.
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(10);
/// How often the tables are inspected.
const TABLES_EVERY: Duration = Duration::from_secs(30);
/// How often it is asked whether a database that took no changes takes them now.
const RIGHTS_EVERY: Duration = Duration::from_secs(5);

/// The checks of a database that say whether it takes changes from this user.
const WRITING: [&str; 3] = ["rights", "server", "replica_set"];

/// Everything that one look has read.
struct Seen {
    routes: Vec<RouteCounts>,
    sagas: SagaCounts,
    relays: Vec<RelaySeen>,
    recent: Recent,
}

/// The reader, and what it remembers between two looks.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    tables: Option<(Instant, SchemaState)>,
    /// When it was asked what the database's user may do.
    rights: Option<Instant>,
    history: BTreeMap<RouteName, History>,
    outages: BTreeMap<RouteName, Outages>,
    heads: heads::Heads,
    consumers: BTreeMap<String, History>,
    looks: u64,
    looked_at: Option<Instant>,
    failed: u32,
}

impl Sampler {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            tables: None,
            rights: None,
            history: BTreeMap::new(),
            outages: BTreeMap::new(),
            heads: heads::Heads::default(),
            consumers: BTreeMap::new(),
            looks: 0,
            looked_at: None,
            failed: 0,
        }
    }

    /// Looks for ever.
    pub(crate) async fn run(&mut self) {
        let mut looked = self.shared.looked.subscribe();
        loop {
            let began = Instant::now();
            let seen = tokio::time::timeout(LOOK_MAX, self.look()).await;
            let seen = seen.unwrap_or_else(|_| {
                let why = format!("no answer within {} s", LOOK_MAX.as_secs());
                Err(pillarbox_core::Error::new(pillarbox_core::ErrorKind::Timeout, why))
            });
            let cost = began.elapsed();
            self.tell(seen, cost);
            let wait = self.wait(cost);
            let until = began + wait.max(cost);
            // Somebody who comes while nobody watched is served at once, but not more often than once a second.
            let early = began + WATCHED.max(cost * REST).min(wait);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                _ = looked.changed() => tokio::time::sleep_until(early).await,
            }
        }
    }

    fn wait(&mut self, cost: Duration) -> Duration {
        let looks = *self.shared.looked.borrow();
        if looks != self.looks {
            (self.looks, self.looked_at) = (looks, Some(Instant::now()));
        }
        let is_watched = self.shared.latest.receiver_count() > 0
            || self.looked_at.is_some_and(|at| at.elapsed() < REMEMBERED);
        let (wait, rest) = if is_watched { (WATCHED, REST) } else { (UNWATCHED, REST_UNWATCHED) };
        // A database that is not there is not asked more and more often.
        let patience = WATCHED * 2_u32.saturating_pow(self.failed.min(5));
        let patience = if self.failed == 0 { Duration::ZERO } else { patience };
        wait.max(cost * rest).max(patience).min(WAIT_MAX)
    }

    async fn look(&mut self) -> Result<Seen> {
        let ports = &self.shared.ports;
        let is_old = self.tables.as_ref().is_none_or(|(at, state)| {
            at.elapsed() >= TABLES_EVERY || !matches!(state, SchemaState::Ready { .. })
        });
        if is_old {
            self.tables = Some((Instant::now(), ports.schema.inspect().await?));
        }
        if let Some((_, state)) = &self.tables {
            state.check()?;
        }
        // Asked once. Where changes are refused, again and again: somebody may have granted the rights.
        let refuses = self.shared.refuses_changes().is_some();
        if self.rights.is_none_or(|at| refuses && at.elapsed() >= RIGHTS_EVERY) {
            self.shared.remember_refusal(self.lacking().await);
            self.rights = Some(Instant::now());
        }
        let routes = ports.admin.counts(None).await?;
        self.heads.read(&*ports.admin, &routes).await;
        let recent = ports.admin.recent(RecentRequest { within: RATE_WINDOW, now: None }).await?;
        let sagas = ports.sagas.saga_counts(None).await?;
        let relays = ports.presence.relays(None).await?;
        Ok(Seen { routes, sagas, relays, recent })
    }

    /// Why the database would refuse a change, so that nobody has to try one.
    async fn lacking(&self) -> Option<String> {
        let found = self.shared.ports.doctor.examine(Depth::Start).await.ok()?;
        let forbids = |check| WRITING.contains(&check);
        let found =
            found.into_iter().find(|found| found.severity == Severity::Problem && forbids(found.check));
        found.map(|found| found.reason)
    }

    fn tell(&mut self, seen: Result<Seen>, cost: Duration) {
        let now = self.shared.clock.now();
        let snapshot = match seen {
            Ok(seen) => {
                self.failed = 0;
                self.snapshot(seen, cost)
            }
            Err(error) => {
                self.failed = self.failed.saturating_add(1);
                // Another server may answer when the database is back, such as a standby.
                self.rights = None;
                // The tables may be mended by now.
                self.tables =
                    self.tables.take().filter(|(_, state)| !matches!(state, SchemaState::Ready { .. }));
                let tables = self.tables.as_ref().map(|(_, state)| state);
                let before = Arc::clone(&self.shared.latest.borrow());
                before.lost(&error, tables, now)
            }
        };
        self.shared.latest.send_replace(Arc::new(snapshot));
    }

    fn snapshot(&mut self, mut seen: Seen, cost: Duration) -> Snapshot {
        let (now, limits) = (self.shared.clock.now(), &self.shared.options.limits);
        let configured: Vec<_> = self.shared.routes().keys().cloned().collect();
        // A route that is configured and empty is a fact too.
        for name in &configured {
            if !seen.routes.iter().any(|counts| counts.route == *name) {
                seen.routes.push(RouteCounts::zero(name.clone()));
            }
        }
        let tables = self.tables.as_ref().map(|(_, state)| state);
        let look = Look {
            routes: &seen.routes,
            configured: &configured,
            sagas: &seen.sagas,
            relays: &seen.relays,
            tables,
        };
        let verdict = Verdict::of(&look, limits);
        let is_there = |route: &RouteName| seen.routes.iter().any(|counts| counts.route == *route);
        self.history.retain(|route, _| is_there(route));
        self.outages.retain(|route, _| is_there(route));
        let mut routes = Vec::with_capacity(seen.routes.len());
        for counts in seen.routes {
            let history = self.history.entry(counts.route.clone()).or_default();
            let ended = |status| seen.recent.of(&counts.route, status);
            let out = ended(Status::Delivered);
            let all = out + ended(Status::Dead) + ended(Status::Discarded);
            history.add(now, counts.undrained(), out, all);
            // A route that delivers at once has nothing waiting at the moment of a look.
            let state = match RouteState::of(&counts, &seen.relays, limits.max_age) {
                RouteState::Idle if out > 0 => RouteState::Moving,
                state => state,
            };
            let outages = self.outages.entry(counts.route.clone()).or_default();
            outages.add(now, seen.relays.iter().filter(|relay| relay.route == counts.route));
            let died_of = self.heads.errors(&counts.route);
            let (history, outages) = (history.clone(), outages.clone());
            routes.push(RouteView { state, history, outages, died_of, counts });
        }
        routes.sort_by(|a, b| a.state.cmp(&b.state).then_with(|| a.counts.route.cmp(&b.counts.route)));
        for consumer in seen.recent.accepted.keys() {
            self.consumers.entry(consumer.clone()).or_default();
        }
        for (consumer, history) in &mut self.consumers {
            let accepted = seen.recent.accepted.get(consumer).copied().unwrap_or(0);
            history.add(now, 0, accepted, accepted);
        }
        self.consumers.retain(|_, history| history.has_moved());
        let consumers = self.consumers.clone();
        Snapshot {
            at: now,
            read: true,
            cost,
            verdict,
            routes,
            sagas: seen.sagas,
            relays: seen.relays,
            consumers,
            lost: None,
        }
    }
}
