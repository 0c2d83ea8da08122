//! `--to URL`: what the relay reaches from this database to this destination, beside its limits: the
//! destination's own client fed from memory, this database drained to `null:`, and both at once.

mod feed;
mod from;
mod processors;
mod report;

use std::sync::Arc;
use std::time::Instant;

use pillarbox_cli::config::RouteConfig;
use pillarbox_cli::context::Context;
use pillarbox_cli::destination::{Destination, Sinks, Webhook};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, rate, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::RouteName;
use pillarbox_core::port::{Keep, Sink};
use pillarbox_engine::sink::NullSink;
use pillarbox_engine::{Relay, RelayOptions, Tally};
use serde::Serialize;
use tokio::task::JoinSet;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, fill, per_second};
use super::latency;

use from::FromSource;
use processors::Busy;
pub(crate) use report::ToReport;

/// A destination that can be measured, checked before anything is touched.
pub(crate) struct To {
    route: RouteConfig,
    from: Option<FromSource>,
}

/// What the relay reaches.
#[derive(Debug, Serialize)]
pub(crate) struct RelayFigures {
    /// The destination's client alone: the same batches from memory, as many under way as the relay has.
    pub(crate) client_per_second: f64,
    /// How much of the processors' time was spent meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_busy: Option<f64>,
    pub(crate) rows: Relayed,
    pub(crate) lanes: Relayed,
    /// By lanes, with `delivered = "0s"`.
    pub(crate) lanes_deleted: Relayed,
}

/// The ways in which a relay is measured.
const WAYS: [(By, Keep); 3] =
    [(By::Rows, Keep::UntilPurged), (By::Lanes, Keep::UntilPurged), (By::Lanes, Keep::No)];

/// What the relay reaches one way.
#[derive(Debug, Serialize)]
pub(crate) struct Relayed {
    /// The relay of this database to `null:`.
    pub(crate) drain_per_second: f64,
    /// The relay of this database to the destination.
    pub(crate) relay_per_second: f64,
    /// The relay of the client alone.
    pub(crate) relay_to_client: f64,
    /// The relay of the drain.
    pub(crate) relay_to_drain: f64,
    /// The relay of the lower of both.
    pub(crate) relay_to_limit: f64,
    /// The client from memory and the drain to `null:` at the same time, as many entries each, until both are done. Where
    /// the servers and the relay share their processors, what does the work of both is hardly faster.
    pub(crate) both_per_second: f64,
    /// The relay of that.
    pub(crate) relay_to_both: f64,
    /// How much of the processors' time was spent during the relay, by all programs: what is missing to one was spent
    /// waiting, for a disk, for a network, or for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relay_busy: Option<f64>,
}

/// The rounds of one way, entries a second.
#[derive(Default)]
struct Rounds {
    drain: Vec<f64>,
    both: Vec<f64>,
    relay: Vec<f64>,
    busy: Vec<Option<f64>>,
}

impl Rounds {
    fn figures(self, client: &[f64]) -> Relayed {
        let Self { drain, both, relay, busy } = self;
        let lower: Vec<f64> = client.iter().zip(&drain).map(|(client, drain)| client.min(*drain)).collect();
        Relayed {
            drain_per_second: median(&drain).round(),
            relay_per_second: median(&relay).round(),
            relay_to_client: ratio(&relay, client),
            relay_to_drain: ratio(&relay, &drain),
            relay_to_limit: ratio(&relay, &lower),
            both_per_second: median(&both).round(),
            relay_to_both: ratio(&relay, &both),
            relay_busy: share(busy),
        }
    }
}

/// The median of the shares of all rounds.
fn share(rounds: Vec<Option<f64>>) -> Option<f64> {
    let rounds: Option<Vec<f64>> = rounds.into_iter().collect();
    rounds.as_deref().map(|shares| (median(shares) * 100.0).round() / 100.0)
}

impl To {
    /// Refuses what cannot be measured.
    pub(crate) fn new(to: &Destination, args: &BenchArgs) -> Result<Self, Fault> {
        let from = args.from.as_deref().map(FromSource::new).transpose()?;
        if *to == Destination::Stdout {
            return Err(Fault::usage(
                "--to stdout: cannot be measured, because the figures are printed there. Choose another \
                 destination",
            ));
        }
        let webhook = Webhook { allow_private: args.allow_private, ..Webhook::default() };
        webhook.check(to).map_err(|error| Fault::usage(format!("--to: {error}")))?;
        let mut route = RouteConfig::new(to.clone());
        route.webhook = webhook;
        Ok(Self { route, from })
    }

    /// The policy of `pillarbox relay --to URL`, with the measurement's batch.
    fn options(&self, args: &BenchArgs) -> RelayOptions {
        let mut options = self.route.options(std::time::Duration::MAX);
        options.batch = args.batch;
        options.in_flight_max = options.in_flight_max.max(args.batch);
        options
    }

    fn sink(&self) -> Result<Arc<dyn Sink>, Fault> {
        let route = RouteName::new(ROUTE)?;
        Ok(Sinks::default().sink(&route, &self.route.to, &self.route.webhook)?)
    }

    /// Measures in turns: everything of one round meets the same weather.
    pub(crate) async fn measure(
        mut self,
        bed: &Bed,
        args: &BenchArgs,
        context: &Context,
    ) -> Result<ToReport, Fault> {
        let progress = Progress::new(context.out, "measuring", Some(u64::from(args.repeat)));
        let sink = self.sink()?;
        let options = self.options(args);
        let (mut client, mut client_busy) = (Vec::new(), Vec::new());
        let mut relayed: [Rounds; WAYS.len()] = Default::default();
        self.warm_up(bed, args, &*sink).await?;
        for _ in 0..args.repeat {
            let batches = feed::batches(bed, args).await?;
            let busy = Busy::now();
            client.push(feed::feed(&*sink, &batches, &options).await.map_err(|fault| self.at(fault))?);
            client_busy.push(busy.share());
            for (way, rounds) in WAYS.into_iter().zip(&mut relayed) {
                rounds.drain.push(self.relay(bed, args, way, Arc::new(NullSink)).await?.0);
                rounds.both.push(self.both(bed, args, way, &*sink).await?);
                let (relay, busy) = self.relay(bed, args, way, Arc::clone(&sink)).await?;
                rounds.relay.push(relay);
                rounds.busy.push(busy);
            }
            // The client and the relays have sent more events than both consumers take.
            if let Some(from) = &mut self.from {
                from.round(bed, args).await?;
            }
            progress.add(1);
        }
        let latency = match args.latency {
            0 => None,
            _ => Some(latency::measure(bed, args, Arc::clone(&sink)).await.map_err(|fault| self.at(fault))?),
        };
        let [rows, lanes, lanes_deleted] = relayed.map(|rounds| rounds.figures(&client));
        Ok(ToReport {
            database: bed.main.staging.name(),
            mode: bed.main.staging.mode(),
            to: self.route.to.to_string(),
            events: args.events,
            batch: args.batch,
            payload_bytes: args.payload,
            repeat: args.repeat,
            relay: RelayFigures {
                client_per_second: median(&client).round(),
                client_busy: share(client_busy),
                rows,
                lanes,
                lanes_deleted,
            },
            consumer: self.from.as_ref().map(FromSource::figures),
            latency,
        })
    }

    /// Connects and sends a little: a destination that is wrong is told at once, and no round pays for connecting.
    async fn warm_up(&self, bed: &Bed, args: &BenchArgs, sink: &dyn Sink) -> Result<(), Fault> {
        let mut few = args.clone();
        few.events = args.events.min(args.batch);
        let batches = feed::batches(bed, &few).await?;
        feed::feed(sink, &batches, &self.options(args)).await.map(drop).map_err(|fault| self.at(fault))
    }

    /// Entries a second, and how busy the processors were.
    async fn relay(
        &self,
        bed: &Bed,
        args: &BenchArgs,
        way: (By, Keep),
        sink: Arc<dyn Sink>,
    ) -> Result<(f64, Option<f64>), Fault> {
        fill(bed, args).await?;
        let relay = self.way(bed, args, way, sink)?;
        let busy = Busy::now();
        let tally = relay.drain().await?;
        let busy = busy.share();
        self.check(args, &tally)?;
        Ok((per_second(&tally), busy))
    }

    /// The client is fed from memory while the database is drained to `null:`.
    async fn both(
        &self,
        bed: &Bed,
        args: &BenchArgs,
        way: (By, Keep),
        sink: &dyn Sink,
    ) -> Result<f64, Fault> {
        let batches = feed::batches(bed, args).await?;
        fill(bed, args).await?;
        let relay = self.way(bed, args, way, Arc::new(NullSink))?;
        let started = Instant::now();
        // A task of its own: as one future, both together would have one processor.
        let mut drain = JoinSet::new();
        drain.spawn(async move { relay.drain().await });
        feed::feed(sink, &batches, &self.options(args)).await.map_err(|fault| self.at(fault))?;
        let tally = match drain.join_next().await {
            Some(Ok(tally)) => tally?,
            Some(Err(_)) | None => return Err(Fault::failed("the drain panicked")),
        };
        let both = rate(tally.delivered, started);
        self.check(args, &tally)?;
        Ok(both)
    }

    fn way(
        &self,
        bed: &Bed,
        args: &BenchArgs,
        (by, keep): (By, Keep),
        sink: Arc<dyn Sink>,
    ) -> Result<Relay, Fault> {
        let mut options = self.options(args);
        options.keep = keep;
        by.relay(&bed.main, sink, options)
    }

    /// Refuses a measurement that left something undelivered.
    fn check(&self, args: &BenchArgs, tally: &Tally) -> Result<(), Fault> {
        match u64::from(args.events).saturating_sub(tally.delivered) {
            0 => Ok(()),
            missed => {
                let (to, all) = (&self.route.to, args.events);
                Err(Fault::failed(format!("{to} did not confirm {missed} of {all} entries of the relay")))
            }
        }
    }

    fn at(&self, fault: Fault) -> Fault {
        fault.context(&self.route.to.to_string())
    }
}
