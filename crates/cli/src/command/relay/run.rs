//! The routes of one process, side by side, with retention beside them.

use std::sync::Arc;

use futures_util::future::join_all;
use pillarbox_core::{Result as CoreResult, RouteName};
use pillarbox_engine::{CircuitState, Handle, Relay, Retention, RetentionOptions, Tally};
use tokio::sync::watch;

use super::plan::Routes;
use super::progress;
use crate::command::worker;
use crate::context::Context;
use crate::database::Database;
use crate::destination::Sinks;
use crate::fault::Fault;
use crate::output::Output;

/// One relay a route, and retention.
pub(crate) struct Work {
    relays: Vec<Relay>,
    retention: Retention,
    out: Output,
    // Ends every route when one of them meets what waiting cannot mend.
    failed: watch::Sender<bool>,
}

impl Work {
    /// Builds everything before anything runs.
    pub(crate) fn new(database: &Database, routes: &Routes, context: &Context) -> Result<Self, Fault> {
        let delivered = context.config.retention.delivered();
        let mut sinks = Sinks::default();
        let mut relays = Vec::with_capacity(routes.len());
        for (route, config) in routes {
            let sink = sinks.sink(route, &config.to, &config.webhook)?;
            let builder = if config.ordered {
                Relay::ordered(Arc::clone(&database.lanes), sink)
            } else {
                Relay::builder(Arc::clone(&database.store), sink)
            };
            let relay = builder
                .route(route.as_str())
                .options(config.options(delivered))
                .owner(worker())
                .presence(Arc::clone(&database.presence))
                // One for all routes, below.
                .without_retention()
                .build()?;
            relays.push(relay);
        }
        let mut options = RetentionOptions::default();
        options.delivered = delivered;
        options.inbox = context.config.retention.inbox();
        options.sagas = context.config.retention.sagas();
        let retention =
            Retention::new(Arc::clone(&database.admin), options)?.sagas(Arc::clone(&database.sagas));
        Ok(Self { relays, retention, out: context.out, failed: watch::Sender::new(false) })
    }

    /// Works until it is stopped.
    pub(crate) async fn run(&self, stopped: watch::Receiver<bool>) -> Result<Tally, Fault> {
        let relays = join_all(self.relays.iter().map(|relay| async {
            let result = relay.run(self.until_stopped(stopped.clone())).await;
            if result.is_err() {
                self.failed.send_replace(true);
            }
            result
        }));
        let retention = self.retention.run(self.until_stopped(stopped.clone()));
        let (tallies, ()) = tokio::join!(relays, retention);
        sum(tallies)
    }

    /// Works until nothing is due, then lets go of what is old.
    pub(crate) async fn drain(
        &self,
        stopped: watch::Receiver<bool>,
        max: Option<u64>,
    ) -> Result<Tally, Fault> {
        let handles: Vec<Handle> = self.relays.iter().map(Relay::handle).collect();
        let relays = join_all(
            self.relays
                .iter()
                .map(|relay| relay.drain_until_or_at_most(self.until_stopped(stopped.clone()), max)),
        );
        let tallies = tokio::select! {
            tallies = relays => tallies,
            () = progress::show(self.out, &handles) => Vec::new(),
        };
        let tally = sum(tallies)?;
        // A table that only cron jobs drain would grow for ever. That it failed is not the drain's failure.
        if let Err(error) = self.retention.run_once().await {
            self.out.warn(format_args!("old entries could not be purged; the next run tries again: {error}"));
        }
        Ok(tally)
    }

    /// A route whose destination did not answer at the end.
    pub(crate) fn down(&self) -> Option<(RouteName, CircuitState)> {
        self.relays
            .iter()
            .map(|relay| (relay.route().clone(), relay.handle().state().circuit))
            .find(|(_, circuit)| *circuit != CircuitState::Closed)
    }

    async fn until_stopped(&self, mut stopped: watch::Receiver<bool>) {
        let mut failed = self.failed.subscribe();
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => {}
            _ = failed.wait_for(|failed| *failed) => {}
        }
    }
}

fn sum(tallies: Vec<CoreResult<Tally>>) -> Result<Tally, Fault> {
    let mut total = Tally::default();
    for tally in tallies {
        total += tally?;
    }
    Ok(total)
}
