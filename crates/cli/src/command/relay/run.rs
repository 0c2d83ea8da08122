//! The routes of one drain, side by side, with retention after them; and how a relay is built.

use std::sync::Arc;

use futures_util::future::join_all;
use pillarbox_core::port::{Purging, Sink};
use pillarbox_core::{Result as CoreResult, RouteName};
use pillarbox_engine::{CircuitState, Handle, Relay, RelayBuilder, Retention, RetentionOptions, Tally};
use tokio::sync::watch;

use super::plan::Routes;
use super::progress;
use crate::command::worker;
use crate::config::{Config, RouteConfig};
use crate::context::Context;
use crate::database::Database;
use crate::destination::Sinks;
use crate::fault::Fault;
use crate::output::Output;
use crate::telemetry;

/// The relay of a route, without retention: one is for all routes.
pub(super) fn build_relay(
    database: &Database,
    sink: Arc<dyn Sink>,
    route: &RouteName,
    config: &RouteConfig,
    all: &Config,
) -> RelayBuilder {
    let builder = if config.ordered {
        Relay::ordered(Arc::clone(&database.lanes), sink)
    } else {
        Relay::builder(Arc::clone(&database.store), sink)
    };
    let builder = match telemetry::tracer() {
        Some(tracer) => builder.tracer(tracer),
        None => builder,
    };
    builder
        .route(route.as_str())
        .options(config.options(all.retention.delivered()))
        .owner(worker())
        .presence(Arc::clone(&database.presence))
        .without_retention()
}

/// The retention of all routes.
pub(super) fn build_retention(database: &Database, config: &Config) -> Result<Retention, Fault> {
    let mut options = RetentionOptions::default();
    options.delivered = config.retention.delivered();
    options.inbox = config.retention.inbox();
    options.sagas = config.retention.sagas();
    let purging = Purging { admin: Arc::clone(&database.admin), sagas: Some(Arc::clone(&database.sagas)) };
    Ok(Retention::of(purging, options)?)
}

/// One relay a route, and retention.
pub(crate) struct Work {
    relays: Vec<Relay>,
    retention: Retention,
    out: Output,
}

impl Work {
    /// Builds everything before anything runs.
    pub(crate) fn new(database: &Database, routes: &Routes, context: &Context) -> Result<Self, Fault> {
        let mut sinks = Sinks::default();
        let mut relays = Vec::with_capacity(routes.len());
        for (route, config) in routes {
            let sink = sinks.sink(route, &config.to, &config.webhook)?;
            relays.push(build_relay(database, sink, route, config, &context.config).build()?);
        }
        Ok(Self { relays, retention: build_retention(database, &context.config)?, out: context.out })
    }

    /// Works until nothing is due, then lets go of what is old.
    pub(crate) async fn drain(
        &self,
        stopped: watch::Receiver<bool>,
        max: Option<u64>,
    ) -> Result<Tally, Fault> {
        let handles: Vec<Handle> = self.relays.iter().map(Relay::handle).collect();
        let relays = join_all(
            self.relays.iter().map(|relay| relay.drain_until_or_at_most(until_stopped(stopped.clone()), max)),
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
}

async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

fn sum(tallies: Vec<CoreResult<Tally>>) -> Result<Tally, Fault> {
    let mut total = Tally::default();
    for tally in tallies {
        total += tally?;
    }
    Ok(total)
}
