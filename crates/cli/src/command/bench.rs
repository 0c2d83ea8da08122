//! `pillarbox bench`: what this database reaches, beside a raw loop in the same run. Only ratios are claims.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use pillarbox_core::port::Sink;
use pillarbox_core::{Event, EventId, RouteName};
use pillarbox_engine::Relay;
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use crate::config::RouteConfig;
use crate::context::Context;
use crate::destination::{Destination, Sinks, Webhook};
use crate::fault::Fault;
use crate::measure::{
    Committed, Design, Ground, Milliseconds, ROUTE, Raw, Stamping, beside, median, rate, ratio,
};
use crate::output::{Align, Progress, Table};

/// Events of one transaction of the staging that is measured.
const STAGED_TOGETHER: usize = 100;
/// Events whose latency is measured in each round, each in a transaction of its own, at this rate.
const LATENCY_EVENTS: u32 = 200;
const LATENCY_PER_SECOND: u32 = 200;
/// Keys that the entries have in turns.
const KEYS: u32 = 1000;

const EXAMPLES: &str = "\
Each round measures, one after the other:
  stage     events staged, 100 in a transaction
  raw loop  claim UPDATE … RETURNING, settle UPDATE: plain SQL on a plain table, no library
  rows      an unordered route: what `pillarbox relay` does, to null: or the destination of --to
  lanes     the same for a route with order = \"key\"
  latency   from a commit to its confirmation, by rows, at 200 events a second
Rates depend on the machine and its load. Compare the ratios, not the rates.

With --to, events of the type bench.event are really delivered, 2 x --events + 200 in each round. Name a \
queue, stream or endpoint that no other program reads.

Without --database it measures a SQLite file in a temporary directory and ignores DATABASE_URL. In a named \
database it works in its own tables (pillarbox_bench…), which it creates and drops.

Examples:
  pillarbox bench
  pillarbox bench --database postgres://app@localhost/shop --repeat 5 --json
  pillarbox bench --to 'redis://localhost/0?stream=bench'";

/// What to measure.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Entries of each drain
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Rounds; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Entries of one claim
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Bytes of one payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    payload: u32,
    /// Deliver to this destination instead of null:; a URL as for `relay --to`
    #[arg(long, value_name = "URL", default_value = "null:")]
    to: Destination,
    /// Allow --to to be a webhook at a private or loopback address, and without TLS
    #[arg(long)]
    allow_private: bool,
}

/// What was measured, and on what.
#[derive(Debug, Serialize)]
struct Report {
    database: &'static str,
    mode: String,
    to: String,
    events: u32,
    batch: u32,
    payload_bytes: u32,
    repeat: u32,
    stage_per_second: f64,
    raw_per_second: f64,
    rows: Drained,
    lanes: Drained,
    /// From the commit to the destination's confirmation.
    commit_to_confirm: Milliseconds,
}

/// One way to drain.
#[derive(Debug, Serialize)]
struct Drained {
    per_second: f64,
    /// The relay of the raw loop.
    to_raw: f64,
}

pub(crate) async fn run(args: &BenchArgs, context: &Context) -> Result<(), Fault> {
    let route = route(args)?;
    let folder = tempfile::tempdir()
        .map_err(|error| Fault::failed(format!("cannot create a temporary directory: {error}")))?;
    let url = match context.database_option() {
        Some(url) => url.to_owned(),
        None => format!("sqlite://{}", folder.path().join("bench.db").display()),
    };
    let ground = Ground::create(&url, 1).await?;
    let measured = Bench { args, ground: &ground, route: &route }.measure(context).await;
    let printed = measured.and_then(|report| match context.out.json {
        true => context.out.json(&report),
        false => context.out.data(&report),
    });
    // Whatever happened, the tables go.
    let dropped = ground.drop().await;
    printed.and(dropped)
}

/// Refuses what cannot be measured, before anything is touched.
fn route(args: &BenchArgs) -> Result<RouteConfig, Fault> {
    if args.to == Destination::Stdout {
        return Err(Fault::usage(
            "--to stdout: cannot be measured, because the figures are printed there. Choose another \
             destination",
        ));
    }
    let mut route = RouteConfig::new(args.to.clone());
    route.webhook = Webhook { allow_private: args.allow_private, ..Webhook::default() };
    route.webhook.check(&args.to).map_err(|error| Fault::usage(format!("--to: {error}")))?;
    Ok(route)
}

struct Bench<'a> {
    args: &'a BenchArgs,
    ground: &'a Ground,
    route: &'a RouteConfig,
}

impl Bench<'_> {
    async fn measure(&self, context: &Context) -> Result<Report, Fault> {
        let Self { args, ground, .. } = *self;
        let staging = &ground.database.staging;
        let progress = Progress::new(context.out, "measuring", Some(u64::from(args.repeat)));
        let sink = Sinks::default().sink(&RouteName::new(ROUTE)?, &args.to, &self.route.webhook)?;
        let (raw, payload) = (Raw::of(staging), self.payload());
        let [mut staged, mut raws, mut rows, mut lanes] = [const { Vec::new() }; 4];
        let mut waited = Vec::new();
        for _ in 0..args.repeat {
            raw.fill(args.events, &payload).await?;
            raws.push(raw.drain(args.batch, Design::Classic, |_| {}).await?);
            staged.push(self.stage().await?);
            rows.push(self.drain(self.by_rows(Arc::clone(&sink))?).await?);
            staged.push(self.stage().await?);
            lanes.push(self.drain(self.by_lanes(Arc::clone(&sink))?).await?);
            let stamping = Arc::new(Stamping::new(Arc::clone(&sink)));
            let relay = self.by_rows(Arc::clone(&stamping) as Arc<dyn Sink>)?;
            let committed = beside(&relay, &stamping, self.write()).await.map_err(|fault| self.at(fault))?;
            waited.extend(stamping.waited(&committed));
            progress.add(1);
        }
        let drained =
            |rates: &[f64]| Drained { per_second: median(rates).round(), to_raw: ratio(rates, &raws) };
        Ok(Report {
            database: staging.name(),
            mode: staging.mode(),
            to: args.to.to_string(),
            events: args.events,
            batch: args.batch,
            payload_bytes: args.payload,
            repeat: args.repeat,
            stage_per_second: median(&staged).round(),
            raw_per_second: median(&raws).round(),
            rows: drained(&rows),
            lanes: drained(&lanes),
            commit_to_confirm: Milliseconds::of(&waited),
        })
    }

    fn payload(&self) -> Vec<u8> {
        vec![b'x'; usize::try_from(self.args.payload).unwrap_or(0)]
    }

    fn event(&self, number: u32) -> Event {
        Event::new("bench.event", self.payload()).key(format!("k-{}", number % KEYS))
    }

    /// Events staged in a second.
    async fn stage(&self) -> Result<f64, Fault> {
        let staging = &self.ground.database.staging;
        let outbox = staging.outbox(&RouteName::new(ROUTE)?);
        let numbers: Vec<u32> = (0..self.args.events).collect();
        let started = Instant::now();
        for some in numbers.chunks(STAGED_TOGETHER) {
            let mut tx = staging.begin().await?;
            let _ = tx.stage_all(&outbox, some.iter().map(|number| self.event(*number)).collect()).await?;
            tx.commit().await?;
        }
        Ok(rate(u64::from(self.args.events), started))
    }

    /// One event in each transaction, at a steady rate.
    async fn write(&self) -> Result<Vec<Committed>, Fault> {
        let staging = &self.ground.database.staging;
        let outbox = staging.outbox(&RouteName::new(ROUTE)?);
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / LATENCY_PER_SECOND);
        // After a stall it goes on at its rate: what was missed would come in one burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut committed = Vec::new();
        for number in 0..LATENCY_EVENTS {
            ticks.tick().await;
            let id = EventId(uuid::Uuid::now_v7());
            let begun = Instant::now();
            let mut tx = staging.begin().await?;
            let _ = tx.stage_all(&outbox, vec![self.event(number).id(id)]).await?;
            tx.commit().await?;
            committed.push(Committed { id, took: begun.elapsed(), at: Instant::now() });
        }
        Ok(committed)
    }

    fn by_rows(&self, sink: Arc<dyn Sink>) -> Result<Relay, Fault> {
        self.build(Relay::builder(Arc::clone(&self.ground.database.store), sink))
    }

    fn by_lanes(&self, sink: Arc<dyn Sink>) -> Result<Relay, Fault> {
        self.build(Relay::ordered(Arc::clone(&self.ground.database.lanes), sink))
    }

    /// The policy of `pillarbox relay --to URL`, with the measurement's batch.
    fn build(&self, builder: pillarbox_engine::RelayBuilder) -> Result<Relay, Fault> {
        let mut options = self.route.options(Duration::MAX);
        options.batch = self.args.batch;
        options.in_flight_max = options.in_flight_max.max(self.args.batch);
        Ok(builder.route(ROUTE).options(options).build()?)
    }

    /// Entries delivered in a second. Refuses a measurement that left something undelivered.
    async fn drain(&self, relay: Relay) -> Result<f64, Fault> {
        let started = Instant::now();
        let tally = relay.drain().await?;
        let rate = rate(tally.delivered, started);
        match u64::from(self.args.events).saturating_sub(tally.delivered) {
            0 => Ok(rate),
            missed => {
                let all = self.args.events;
                Err(self.at(Fault::failed(format!("{missed} of {all} entries were not confirmed"))))
            }
        }
    }

    fn at(&self, fault: Fault) -> Fault {
        fault.context(&self.args.to.to_string())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, mode, to, events, batch, payload_bytes, repeat, .. } = self;
        let rounds = if *repeat == 1 { "round" } else { "rounds" };
        writeln!(f, "{database} ({mode}) to {to}")?;
        writeln!(
            f,
            "{events} entries of {payload_bytes} bytes, batches of {batch}, median of {repeat} {rounds}\n"
        )?;
        let mut table = Table::new(&[("", Align::Left), ("a second", Align::Right), ("ratio", Align::Left)]);
        let mut row =
            |what: &str, rate: f64, ratio: String| table.row([what.to_owned(), format!("{rate:.0}"), ratio]);
        row("staged", self.stage_per_second, String::new());
        row("raw loop", self.raw_per_second, String::new());
        for (what, drained) in [("relay, rows", &self.rows), ("relay, lanes", &self.lanes)] {
            row(what, drained.per_second, format!("{:.2} of the raw loop", drained.to_raw));
        }
        let Milliseconds { p50, p99 } = self.commit_to_confirm;
        write!(f, "{table}\n\ncommit to confirmation: half within {p50} ms, 99 of 100 within {p99} ms")
    }
}
