//! `pillarbox bench`: rates of this database, with ratios to raw loops in the same run; with `--to`, rates to a
//! destination, with ratios to its client alone; with `--sagas`, sagas beside plain entries. Only ratios are claims.

mod bed;
mod classic;
mod drain;
mod growth;
mod memory;
mod report;
mod sagas;
mod sql;
mod stage;
mod stats;
mod to;

use std::fmt::Display;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::destination::Destination;
use crate::fault::Fault;
use crate::output::Progress;

use bed::Bed;
use report::Report;
use sagas::SagaReport;
use to::{To, ToReport};

const EXAMPLES: &str = "\
What is compared, interleaved in one run, with the same payloads and batches:
  insert    a business transaction of one INSERT, without and with one staged event: staging weighs most there
  order     the same of an order: one row read, one updated, two inserted
  classic   claim UPDATE … RETURNING over a sort index, settle UPDATE: plain SQL, no library
  bare      the store's own claim and settle in a loop, no engine
  relay     what `pillarbox relay --to null:` does
With --to, instead:
  client    the destination's own client, pipelined from memory, no database
  drain     the relay from this database to null:
  relay     the relay from this database to the destination, and its ratio to the lower of both
  consumer  with --from: a consumer of what was sent whose handler writes one row, without and with the inbox
With --sagas, instead, all with handlers that do nothing, in steps a second:
  entries   plain entries of the same payload
  group     sagas of three steps at once, completed and audited
  ordered   sagas of three steps one after the other, completed and audited
Rates depend on the machine and on what else it does; the ratios are what to look at.

With --to events of the type bench.event really arrive there, 2 x --events in each round: name a queue, \
stream or endpoint that nobody else reads.

Without --database it measures a SQLite file in a temporary directory; DATABASE_URL is not \
looked at. On a named database it works in tables of its own (pillarbox_bench…), which it creates and drops.

Examples:
  pillarbox bench
  pillarbox bench --database postgres://app@localhost/shop --repeat 5 --json
  pillarbox bench --settled 1000000 --pending 1000000
  pillarbox bench --sagas 10000 --database postgres://app@localhost/shop
  pillarbox bench --to 'redis://localhost/0?stream=bench'
  pillarbox bench --to 'amqp://localhost/%2f?exchange=bench' --database postgres://app@localhost/shop
  pillarbox bench --to 'nats://localhost/bench' --from 'nats://localhost/bench?stream=bench&durable=bench'
  pillarbox bench --to http://127.0.0.1:8080/hook --allow-private --json";

/// What to measure.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Entries of each drain
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Business transactions of each staging measurement
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    transactions: u32,
    /// Writers at once on PostgreSQL; SQLite has one
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4))]
    clients: u32,
    /// Rounds; the median is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Entries of one claim
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Bytes of one payload
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    payload: u32,
    /// Also drain beside so many settled entries, such as 1000000; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    settled: u32,
    /// Also drain the first of so many pending entries, such as 1000000; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pending: u32,
    /// Measure so many sagas of three steps instead, beside as many plain entries as they have steps
    #[arg(long, value_name = "N", conflicts_with_all = ["settled", "pending", "transactions", "clients", "events", "to"],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sagas: Option<u32>,
    /// Measure the relay to this destination instead: a URL as of `relay --to`
    #[arg(long, value_name = "URL", conflicts_with_all = ["settled", "pending", "transactions", "clients"])]
    to: Option<Destination>,
    /// Also consume from there what --to sends: a URL of a source, such as amqp://…?queue=, nats://…?stream=&durable=
    /// or redis://…?stream=&group=
    #[arg(long, value_name = "URL", requires = "to")]
    from: Option<String>,
    /// Let the webhook of --to be at a private or loopback address, and without TLS
    #[arg(long, requires = "to")]
    allow_private: bool,
}

pub(crate) async fn run(args: &BenchArgs, context: &Context) -> Result<(), Fault> {
    let to = args.to.as_ref().map(|to| To::new(to, args)).transpose()?;
    let folder =
        tempfile::tempdir().map_err(|error| Fault::failed(format!("no temporary directory: {error}")))?;
    let url = match context.database_option() {
        Some(url) => url.to_owned(),
        None => format!("sqlite://{}", folder.path().join("bench.db").display()),
    };
    let bed = Bed::create(&url, args).await?;
    let measured = match (to, args.sagas) {
        (Some(to), _) => to.measure(&bed, args, context).await.map(Measured::To),
        (None, Some(sagas)) => sagas::measure(&bed, args, sagas, context).await.map(Measured::Sagas),
        (None, None) => measure(&bed, args, context, &url, folder.path()).await.map(Measured::Database),
    };
    // Whatever happened, the tables go.
    let dropped = bed.drop().await;
    let measured = measured?;
    dropped?;
    match &measured {
        Measured::Database(report) => print(report, context),
        Measured::To(report) => print(report, context),
        Measured::Sagas(report) => print(report, context),
    }
}

/// What was asked for.
enum Measured {
    Database(Report),
    To(ToReport),
    Sagas(SagaReport),
}

fn print<R: Serialize + Display>(report: &R, context: &Context) -> Result<(), Fault> {
    if context.out.json { context.out.json(report) } else { context.out.data(report) }
}

async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    context: &Context,
    url: &str,
    folder: &Path,
) -> Result<Report, Fault> {
    let steps = u64::from(args.repeat) * 2 + u64::from(args.settled > 0) + u64::from(args.pending > 0) + 1;
    let progress = Progress::new(context.out, "measuring", Some(steps));
    let stage = stage::measure(bed, args, &progress).await?;
    let drain = drain::measure(bed, args, &progress).await?;
    let growth = growth::measure(bed, args, &progress).await?;
    let memory = memory::measure(bed, args, url, folder).await?;
    Ok(Report {
        database: bed.name(),
        mode: bed.main.staging.mode(),
        events: args.events,
        batch: args.batch,
        payload_bytes: args.payload,
        repeat: args.repeat,
        stage,
        drain,
        growth,
        memory,
    })
}
