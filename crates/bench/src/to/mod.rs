//! `--to URL`: what the relay reaches from this database to this destination, beside its limits: the destination's own
//! client fed from memory, this database drained to a destination that confirms at once, and both at once.

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
use pillarbox_core::port::{Keep, Sink};
use pillarbox_core::{Entry, RouteName};
use pillarbox_engine::{Relay, RelayOptions, Tally};
use serde::Serialize;
use tokio::task::JoinSet;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, fill, fill_one_key, per_second};
use super::latency;

use feed::Taking;
use from::FromSource;
pub(crate) use processors::processor_time;
use processors::{Busy, Own};
pub(crate) use report::ToReport;

/// A destination that can be measured, checked before anything is touched.
pub(crate) struct To {
    route: RouteConfig,
    from: Option<FromSource>,
}

/// What the relay reaches.
#[derive(Debug, Serialize)]
pub(crate) struct RelayFigures {
    pub(crate) rows: Relayed,
    pub(crate) lanes: Relayed,
    /// By lanes, with `delivered = "0s"`.
    pub(crate) lanes_deleted: Relayed,
    /// Only if the sink takes many entries of a key together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hot_key: Option<HotKey>,
}

/// The relay by lanes with one key for all entries.
#[derive(Debug, Serialize)]
pub(crate) struct HotKey {
    pub(crate) per_second: f64,
    /// Of the relay by lanes with all keys.
    pub(crate) to_all_keys: f64,
}

/// The ways in which a relay is measured.
const WAYS: [(By, Keep); 3] =
    [(By::Rows, Keep::UntilPurged), (By::Lanes, Keep::UntilPurged), (By::Lanes, Keep::No)];

/// The way in which one key is measured beside many.
const ALL_KEYS: (By, Keep) = WAYS[1];

/// What the relay reaches one way.
#[derive(Debug, Serialize)]
pub(crate) struct Relayed {
    /// The destination's client alone: the batches that this relay hands over, from memory, as many under way as the relay
    /// has.
    pub(crate) client_per_second: f64,
    /// How much of the processors' time was spent meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_busy: Option<f64>,
    /// What an entry cost this process meanwhile, in microseconds of processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_cpu_micros: Option<f64>,
    /// The relay of this database to a destination that confirms everything at once.
    pub(crate) drain_per_second: f64,
    /// The relay of this database to the destination.
    pub(crate) relay_per_second: f64,
    /// The relay of the client alone.
    pub(crate) relay_to_client: f64,
    /// The relay of the drain.
    pub(crate) relay_to_drain: f64,
    /// The relay of the lower of both.
    pub(crate) relay_to_limit: f64,
    /// The client from memory and the drain at the same time, as many entries each, until both are done. Where
    /// the servers and the relay share their processors, what does the work of both is hardly faster.
    pub(crate) both_per_second: f64,
    /// The relay of that.
    pub(crate) relay_to_both: f64,
    /// How much of the processors' time was spent during the relay, by all programs: what is missing to one was spent
    /// waiting, for a disk, for a network, or for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relay_busy: Option<f64>,
    /// What an entry cost this process during the relay, in microseconds of processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relay_cpu_micros: Option<f64>,
    /// That, of what it cost in the client alone and in the drain alone, added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relay_cpu_to_parts: Option<f64>,
}

/// One measurement: entries a second, how busy the processors were, and what an entry cost this process, in microseconds.
struct Measured {
    rate: f64,
    busy: Option<f64>,
    cpu: Option<f64>,
}

/// One measurement in every round.
#[derive(Default)]
struct Series {
    rates: Vec<f64>,
    busy: Vec<Option<f64>>,
    cpu: Vec<Option<f64>>,
}

impl Series {
    fn push(&mut self, measured: &Measured) {
        self.rates.push(measured.rate);
        self.busy.push(measured.busy);
        self.cpu.push(measured.cpu);
    }
}

/// The rounds of one way.
#[derive(Default)]
struct Rounds {
    client: Series,
    drain: Series,
    relay: Series,
    /// Entries a second.
    both: Vec<f64>,
}

impl Rounds {
    fn figures(self) -> Relayed {
        let Self { client, drain, relay, both } = self;
        let parts = client.cpu.iter().zip(&drain.cpu).map(|(client, drain)| Some((*client)? + (*drain)?));
        let parts: Option<Vec<f64>> = parts.collect();
        let own: Option<Vec<f64>> = relay.cpu.iter().copied().collect();
        let lower = client.rates.iter().zip(&drain.rates).map(|(client, drain)| client.min(*drain));
        let lower: Vec<f64> = lower.collect();
        Relayed {
            client_per_second: median(&client.rates).round(),
            client_busy: share(client.busy),
            client_cpu_micros: tenth(&client.cpu),
            drain_per_second: median(&drain.rates).round(),
            relay_per_second: median(&relay.rates).round(),
            relay_to_client: ratio(&relay.rates, &client.rates),
            relay_to_drain: ratio(&relay.rates, &drain.rates),
            relay_to_limit: ratio(&relay.rates, &lower),
            both_per_second: median(&both).round(),
            relay_to_both: ratio(&relay.rates, &both),
            relay_busy: share(relay.busy),
            relay_cpu_micros: tenth(&relay.cpu),
            relay_cpu_to_parts: own.zip(parts).map(|(own, parts)| ratio(&own, &parts)),
        }
    }
}

/// The median of all rounds, to a tenth.
fn tenth(rounds: &[Option<f64>]) -> Option<f64> {
    let rounds: Option<Vec<f64>> = rounds.iter().copied().collect();
    rounds.as_deref().map(|micros| (median(micros) * 10.0).round() / 10.0)
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
        let (goes_together, mut hot) = (sink.capabilities().ordered_prefix, Vec::new());
        let mut relayed: [Rounds; WAYS.len()] = Default::default();
        self.warm_up(bed, args, &*sink).await?;
        for _ in 0..args.repeat {
            for (way, rounds) in WAYS.into_iter().zip(&mut relayed) {
                let batches = self.batches(bed, args, way, &*sink).await?;
                rounds.client.push(&self.client(args, &*sink, &batches).await?);
                fill(bed, args).await?;
                rounds.drain.push(&self.relay(bed, args, way, Taking::like(&*sink)).await?);
                rounds.both.push(self.both(bed, args, way, &*sink).await?);
                fill(bed, args).await?;
                rounds.relay.push(&self.relay(bed, args, way, Arc::clone(&sink)).await?);
            }
            if goes_together {
                fill_one_key(bed, args).await?;
                hot.push(self.relay(bed, args, ALL_KEYS, Arc::clone(&sink)).await?.rate);
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
        let [_, all_keys, _] = &relayed;
        let hot_key = goes_together.then(|| HotKey {
            per_second: median(&hot).round(),
            to_all_keys: ratio(&hot, &all_keys.relay.rates),
        });
        let [rows, lanes, lanes_deleted] = relayed.map(Rounds::figures);
        Ok(ToReport {
            database: bed.main.staging.name(),
            mode: bed.main.staging.mode(),
            to: self.route.to.to_string(),
            events: args.events,
            batch: args.batch,
            payload_bytes: args.payload,
            repeat: args.repeat,
            relay: RelayFigures { rows, lanes, lanes_deleted, hot_key },
            consumer: self.from.as_ref().map(FromSource::figures),
            latency,
        })
    }

    /// Connects and sends a little: a destination that is wrong is told at once, and no round pays for connecting.
    async fn warm_up(&self, bed: &Bed, args: &BenchArgs, sink: &dyn Sink) -> Result<(), Fault> {
        let mut few = args.clone();
        few.events = args.events.min(args.batch);
        let batches = self.batches(bed, &few, WAYS[0], sink).await?;
        self.client(&few, sink, &batches).await.map(drop)
    }

    /// What a relay hands over to this sink. The entries are fresh each time: a broker that knows an event id already has
    /// less to do.
    async fn batches(
        &self,
        bed: &Bed,
        args: &BenchArgs,
        way: (By, Keep),
        sink: &dyn Sink,
    ) -> Result<Vec<Vec<Entry>>, Fault> {
        fill(bed, args).await?;
        let taking = Taking::keeping(sink);
        let tally = self.way(bed, args, way, Arc::<Taking>::clone(&taking))?.drain().await?;
        self.check(args, &tally)?;
        Ok(taking.batches())
    }

    /// The client alone.
    async fn client(
        &self,
        args: &BenchArgs,
        sink: &dyn Sink,
        batches: &[Vec<Entry>],
    ) -> Result<Measured, Fault> {
        let (busy, own) = (Busy::now(), Own::now());
        let rate = feed::feed(sink, batches, &self.options(args)).await.map_err(|fault| self.at(fault))?;
        Ok(Measured { rate, busy: busy.share(), cpu: own.micros(args.events) })
    }

    /// Drains what is staged.
    async fn relay(
        &self,
        bed: &Bed,
        args: &BenchArgs,
        way: (By, Keep),
        sink: Arc<dyn Sink>,
    ) -> Result<Measured, Fault> {
        let relay = self.way(bed, args, way, sink)?;
        let (busy, own) = (Busy::now(), Own::now());
        let tally = relay.drain().await?;
        let (busy, cpu) = (busy.share(), own.micros(args.events));
        self.check(args, &tally)?;
        Ok(Measured { rate: per_second(&tally), busy, cpu })
    }

    /// The client is fed from memory while the database is drained.
    async fn both(
        &self,
        bed: &Bed,
        args: &BenchArgs,
        way: (By, Keep),
        sink: &dyn Sink,
    ) -> Result<f64, Fault> {
        let batches = self.batches(bed, args, way, sink).await?;
        fill(bed, args).await?;
        let relay = self.way(bed, args, way, Taking::like(sink))?;
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
