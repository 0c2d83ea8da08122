//! The daemon: one relay a route, each on its own. A route that fails does not stop the others, and a new
//! configuration changes only the routes that differ.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Backoff, Error, ErrorKind, Jitter, Result as CoreResult, RouteName, format_duration};
use pillarbox_engine::{Handle, Relay, Retention, Tally};
use pillarbox_metrics::Metrics;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::plan::Routes;
use super::reload::{Changes, Reloader};
use super::run::{build_relay, build_retention};
use super::state;
use crate::config::Config;
use crate::context::Context;
use crate::database::Database;
use crate::destination::Sinks;
use crate::fault::Fault;
use crate::signal::Signals;

/// The wait before a route that failed is started again: a second, doubling to a minute.
const RESTART_BASE: Duration = Duration::from_secs(1);
const RESTART_MAX: Duration = Duration::from_secs(60);
/// How often the state on a terminal is drawn.
const STATE_INTERVAL: Duration = Duration::from_secs(1);

/// Every route of the process.
pub(super) struct Daemon<'a> {
    context: &'a Context,
    database: &'a Database,
    reloader: Reloader,
    /// What is to run.
    wanted: Routes,
    config: Config,
    /// The configuration with the routes of the command line, for the page.
    shown: watch::Sender<Config>,
    running: BTreeMap<RouteName, Running>,
    /// Routes that ended or could not start, and when they are tried again.
    failed: BTreeMap<RouteName, Failed>,
    tasks: JoinSet<(RouteName, CoreResult<Tally>)>,
    retention: Keeping,
    sinks: Sinks,
    metrics: Metrics,
    total: Tally,
    stopping: bool,
    /// Why no route can go on.
    fatal: Option<Fault>,
}

/// A route at work.
struct Running {
    stop: watch::Sender<bool>,
    task: Id,
    handle: Handle,
    started: Instant,
}

/// A route that is to be tried again.
struct Failed {
    times: u32,
    at: Instant,
}

/// Retention, beside the routes.
struct Keeping {
    stop: watch::Sender<bool>,
    task: JoinSet<()>,
}

impl<'a> Daemon<'a> {
    /// Starts every route. If none of them can start, the first reason is the answer.
    pub(super) fn start(
        context: &'a Context,
        database: &'a Database,
        reloader: Reloader,
        wanted: Routes,
    ) -> Result<Self, Fault> {
        let config = context.config.clone();
        let retention = Keeping::start(build_retention(database, &config)?);
        let mut daemon = Self {
            context,
            database,
            reloader,
            shown: watch::Sender::new(with_routes(&config, &wanted)),
            wanted,
            config,
            running: BTreeMap::new(),
            failed: BTreeMap::new(),
            tasks: JoinSet::new(),
            retention,
            sinks: Sinks::default(),
            metrics: Metrics::new(),
            total: Tally::default(),
            stopping: false,
            fatal: None,
        };
        let mut first = None;
        for route in daemon.wanted.keys().cloned().collect::<Vec<_>>() {
            if let Err(fault) = daemon.begin(&route) {
                daemon.begin_later(&route, fault.message().unwrap_or_default());
                first = first.or(Some(fault));
            }
        }
        match first {
            Some(fault) if daemon.running.is_empty() => Err(fault),
            _ => Ok(daemon),
        }
    }

    /// The configuration as it is now, with the routes of the command line.
    pub(super) fn shown(&self) -> watch::Receiver<Config> {
        self.shown.subscribe()
    }

    /// What is counted of every route.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Works until a signal asks it to stop and every route has ended.
    pub(super) async fn run(mut self, signals: &mut Signals) -> Result<Tally, Fault> {
        let shows = state::is_wanted(self.context.out);
        let mut drawn = state::StatusLine::default();
        let mut draw_at = Instant::now() + STATE_INTERVAL;
        loop {
            if self.stopping && self.running.is_empty() {
                self.retention.end().await;
                return self.fatal.map_or(Ok(self.total), Err);
            }
            let restart_at = self.failed.values().map(|failed| failed.at).min();
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.ended(ended),
                signal = signals.next() => match super::stops(signal, self.context) {
                    true if self.stopping => return Err(super::stopped_at_once()),
                    true => self.stop(),
                    false if self.stopping => {}
                    false => self.reload().await,
                },
                () = sleep_until(restart_at.unwrap_or(draw_at)), if restart_at.is_some() && !self.stopping => self.begin_again(),
                () = sleep_until(draw_at), if shows => {
                    drawn.draw(self.running.iter().map(|(route, running)| (route, running.handle.state())));
                    draw_at = Instant::now() + STATE_INTERVAL;
                }
            }
        }
    }

    /// Builds and starts one route.
    fn begin(&mut self, route: &RouteName) -> Result<(), Fault> {
        let Some(config) = self.wanted.get(route) else { return Ok(()) };
        let sink = self.sinks.sink(route, &config.to, &config.webhook)?;
        let builder = build_relay(self.database, sink, route, config, &self.config);
        let relay: Arc<Relay> = Arc::new(builder.observer(self.metrics.route(route.as_str())).build()?);
        self.context.out.say(format_args!("relaying {route} to {}", config.to));
        let (stop, mut stopped) = watch::channel(false);
        let handle = relay.handle();
        let name = route.clone();
        let task = self.tasks.spawn(async move {
            let until = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            let ended = relay.run(until).await;
            (name, ended)
        });
        let task = task.id();
        self.running.insert(route.clone(), Running { stop, task, handle, started: Instant::now() });
        Ok(())
    }

    /// A route has ended: because it was stopped, or because it failed.
    fn ended(&mut self, ended: Result<(Id, (RouteName, CoreResult<Tally>)), JoinError>) {
        let (route, ended) = match ended {
            Ok((_, ended)) => ended,
            Err(error) => {
                let panicked = self.running.iter().find(|(_, running)| running.task == error.id());
                let Some(route) = panicked.map(|(route, _)| route.clone()) else { return };
                (route, Err(Error::new(ErrorKind::Internal, "its relay panicked")))
            }
        };
        let running = self.running.remove(&route);
        let goes_on = self.wanted.contains_key(&route) && !self.stopping;
        match ended {
            Ok(tally) => {
                self.total += tally;
                self.failed.remove(&route);
                if goes_on {
                    self.begin_or_later(&route);
                }
            }
            // The tables are those of every route: none can go on.
            Err(error) if error.kind() == ErrorKind::Schema => {
                self.fatal.get_or_insert(error.into());
                self.stop_routes();
            }
            Err(error) => {
                // A route that worked for a while has not failed in a row.
                if running.is_some_and(|running| running.started.elapsed() > RESTART_MAX) {
                    self.failed.remove(&route);
                }
                if goes_on {
                    self.begin_later(&route, &error.to_string());
                }
            }
        }
    }

    fn begin_or_later(&mut self, route: &RouteName) {
        if let Err(fault) = self.begin(route) {
            self.begin_later(route, fault.message().unwrap_or_default());
        }
    }

    /// Notes that a route cannot run now.
    fn begin_later(&mut self, route: &RouteName, why: &str) {
        let times = self.failed.get(route).map_or(1, |failed| failed.times.saturating_add(1));
        let wait = Backoff::new(RESTART_BASE, RESTART_MAX, Jitter::None)
            .and_then(|backoff| backoff.delay(times, 0))
            .unwrap_or(RESTART_MAX);
        self.failed.insert(route.clone(), Failed { times, at: Instant::now() + wait });
        self.context.out.warn(format_args!(
            "route {route} cannot be delivered: {why}. The other routes go on; this one is tried again in {}",
            format_duration(wait)
        ));
    }

    /// Starts the routes whose wait is over.
    fn begin_again(&mut self) {
        let now = Instant::now();
        let due: Vec<RouteName> = self
            .failed
            .iter()
            .filter(|(_, failed)| failed.at <= now)
            .map(|(route, _)| route.clone())
            .collect();
        for route in due {
            match self.begin(&route) {
                // Still counted as failed until it ends well, so that the next wait is longer.
                Ok(()) => {
                    if let Some(failed) = self.failed.get_mut(&route) {
                        failed.at = now + Duration::from_secs(365 * 86_400);
                    }
                }
                Err(fault) => self.begin_later(&route, fault.message().unwrap_or_default()),
            }
        }
    }

    /// Asks every route to stop. Each finishes or releases what it has in flight.
    fn stop(&mut self) {
        self.context.out.say(
            "stopping: deliveries in flight are finished or released. Send the signal again to stop at once",
        );
        self.stop_routes();
    }

    fn stop_routes(&mut self) {
        self.stopping = true;
        for running in self.running.values() {
            running.stop.send_replace(true);
        }
    }

    /// Reads the configuration again. Routes that did not change are not disturbed. A changed route ends before it
    /// starts again with its new settings.
    async fn reload(&mut self) {
        let out = self.context.out;
        let read = match self.reloader.read(&self.config) {
            Ok(read) => read,
            Err(why) => {
                out.warn(format_args!(
                    "the configuration was not reloaded; the relay goes on with the one that it has. {why}"
                ));
                return;
            }
        };
        let changes = Changes::between((&self.config, &self.wanted), (&read.config, &read.routes));
        read.notes.iter().for_each(|note| out.warn(note));
        if changes.retention {
            match build_retention(self.database, &read.config) {
                Ok(retention) => {
                    self.retention.end().await;
                    self.retention = Keeping::start(retention);
                }
                Err(fault) => out.warn(fault.message().unwrap_or_default()),
            }
        }
        self.config = read.config;
        self.wanted = read.routes;
        self.shown.send_replace(with_routes(&self.config, &self.wanted));
        for route in changes.removed.iter().chain(&changes.changed) {
            self.failed.remove(route);
            if let Some(running) = self.running.get(route) {
                running.stop.send_replace(true);
            }
        }
        let absent = |route: &&RouteName| !self.running.contains_key(*route);
        let begin: Vec<RouteName> =
            changes.added.iter().chain(&changes.changed).filter(absent).cloned().collect();
        out.say(format_args!("reloaded the configuration: {changes}"));
        for route in begin {
            self.begin_or_later(&route);
        }
    }
}

/// The configuration with these routes in the place of those of the same name.
fn with_routes(config: &Config, routes: &Routes) -> Config {
    let mut config = config.clone();
    config.routes.extend(routes.clone());
    config
}

impl Keeping {
    fn start(retention: Retention) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let until = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            retention.run(until).await;
        });
        Self { stop, task }
    }

    async fn end(&mut self) {
        self.stop.send_replace(true);
        while self.task.join_next().await.is_some() {}
    }
}
