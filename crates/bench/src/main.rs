//! `pillarbox-bench`, behind `cargo xtask bench`: rates of this database, with ratios to raw loops in the same run; with `--to`, rates to a
//! destination, with ratios to its client alone; with `--sagas`, sagas beside plain entries. Only ratios are claims.

mod bare;
mod bed;
mod by;
mod consume;
mod cost;
mod drain;
mod growth;
mod held;
mod latency;
mod memory;
mod page;
mod report;
mod sagas;
mod sql;
mod stage;
mod to;
mod writer;
mod writers;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, ValueEnum};
use pillarbox_cli::context::{Context, Globals};
use pillarbox_cli::destination::Destination;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::launch::{Program, launch};
use pillarbox_cli::output::{Output, Progress};
use pillarbox_engine::sink::NullSink;
use serde::Serialize;

use bed::Bed;
use report::Report;
use to::To;

const EXAMPLES: &str = "\
It compares these, interleaved in one run, with the same payloads and batches:
  insert    a business transaction of one INSERT, without and with one staged event: its share is largest here;
            and with one more row in a plain table instead, the least that any staging costs
  order     the same for an order: one row read, one updated, two inserted
  classic   claim UPDATE … RETURNING over a sort index, settle UPDATE: plain SQL, no library
  raw lane  rows above a cursor are read, settle UPDATE (kept) or DELETE (deleted): plain SQL, no library
  rows      an unordered route, as `pillarbox relay --to null:` drains it, beside a bare loop of the store's own
            claim and settle, without the engine
  lanes     the same for a route with order = \"key\", beside the store's own read and settle of lanes
On MongoDB it measures drains, with --only drain: the raw loop takes one document after the other by \
findOneAndUpdate.
On PostgreSQL it also measures the cost of a drain for the server: bytes of write-ahead log and, if the server \
runs on this machine, its processor time.
With --to it compares these instead:
  client    the destination's own client, pipelined from memory, no database
  drain     the relay from this database to null:, by rows, by lanes, and by lanes with delivered = \"0s\"
  both      client and drain at the same time, until both are done: on a shared machine, a relay can hardly be
            faster than this
  relay     the relay from this database to the destination, its ratio to the lower of client and drain, and to both
            at once; and how busy the processors were: an idle one waits for a disk, a network or another processor
  consumer  with --from: a consumer of these events whose handler writes one row, without and with the inbox
With --sagas it compares these instead, with handlers that do nothing, in steps per second:
  entries   plain entries of the same payload
  group     sagas of three steps at once, completed and audited
  ordered   sagas of three steps one after the other, completed and audited
With --consume it compares these instead, with events from memory and a handler that writes one row for each:
  one by one  a transaction for each event, as many at once as a consumer has by default
  batches     100 events in a transaction: the handler called for each, and once for all
  plain loop  in each transaction one statement with 100 marks and one with 100 rows, no library
Rates depend on the machine and its load. Compare the ratios, not the rates.

With --to, events of the type bench.event are really delivered, 7 x --events in each round. Name a queue, \
stream or endpoint that no other program reads.

Without --database it measures a SQLite file in a temporary directory and ignores DATABASE_URL. In a named \
database it works in its own tables (pillarbox_bench…), which it creates and drops.

Examples:
  pillarbox-bench
  pillarbox-bench --database postgres://app@localhost/shop --repeat 5 --json
  pillarbox-bench --settled 1000000 --pending 1000000
  pillarbox-bench --only drain --held --latency 1000 --database postgres://app@localhost/shop
  pillarbox-bench --only writers --writers 4
  pillarbox-bench --only drain --database 'mongodb://localhost/shop?replicaSet=rs0'
  pillarbox-bench --sagas 10000 --database postgres://app@localhost/shop
  pillarbox-bench --consume 20000 --database postgres://app@localhost/shop
  pillarbox-bench --to 'redis://localhost/0?stream=bench'
  pillarbox-bench --to 'amqp://localhost/%2f?exchange=bench' --database postgres://app@localhost/shop
  pillarbox-bench --to 'nats://localhost/bench' --from 'nats://localhost/bench?stream=bench&durable=bench'
  pillarbox-bench --to http://127.0.0.1:8080/hook --allow-private --json";

/// Measure a database, or the relay to a destination, with ratios to plain loops in the same run
#[derive(Debug, Parser)]
#[command(name = "pillarbox-bench", version, after_help = EXAMPLES, max_term_width = 110)]
struct Bench {
    #[command(flatten)]
    args: BenchArgs,
    #[command(flatten)]
    globals: Globals,
}

impl Program for Bench {
    fn globals(&self) -> &Globals {
        &self.globals
    }

    fn log(&self) -> Option<&'static str> {
        Some("error")
    }

    async fn run(self, out: Output) -> Result<(), Fault> {
        run(&self.args, &Context::load(&self.globals, out)?).await
    }
}

fn main() -> ExitCode {
    // What is watched is a process of its own: this program, as `pillarbox relay` or `pillarbox dashboard`.
    match std::env::args_os().nth(1) {
        Some(command) if command == "relay" || command == "dashboard" => pillarbox_cli::main(),
        _ => launch::<Bench>(),
    }
}

/// What to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// Entries of each drain
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Business transactions of each staging measurement, in 20 turns with the other measurements
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    transactions: u32,
    /// Concurrent writers on a server; SQLite has one
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
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
    /// How many keys the entries have, in turn; 0: entries have no key
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    keys: u32,
    /// Also drain beside this many settled entries, for example 1000000; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    settled: u32,
    /// Also drain the first of this many pending entries, for example 1000000; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pending: u32,
    /// Also drain while another connection is idle in a transaction, and print the rate of each quarter
    #[arg(long)]
    held: bool,
    /// Also stage this many events at a steady rate, for example 1000, and print the time from commit to
    /// confirmation; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    latency: u32,
    /// Also let this many tasks, for example 4, stage at once in a SQLite file beside a relay: queued by
    /// `store.begin()`, and each polling the lock of the file; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    writers: u32,
    /// Events per second of --latency
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Only this part; may be given many times. Parts with an option of their own are measured if that option
    /// is given
    #[arg(long = "only", value_name = "PART", value_enum)]
    only: Vec<Part>,
    /// Measure this many sagas of three steps instead, beside as many plain entries as they have steps
    #[arg(long, value_name = "N", conflicts_with_all = ["settled", "pending", "transactions", "clients", "events", "held", "only", "latency", "writers", "to"],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sagas: Option<u32>,
    /// Measure a consumer of this many events from memory instead: one by one, and in batches of 100 beside a
    /// plain loop that writes the same rows. SQLite and PostgreSQL
    #[arg(long, value_name = "N", conflicts_with_all = ["settled", "pending", "transactions", "events", "held", "only", "latency", "writers", "sagas", "to"],
        value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    consume: Option<u32>,
    /// Measure the page over this many entries instead, for example 1000000: the time to the first byte of each view,
    /// the relay beside open pages, and an idle relay. SQLite and PostgreSQL
    #[arg(long, value_name = "N", conflicts_with_all = ["settled", "pending", "transactions", "held", "only", "latency", "writers", "sagas", "consume", "to"],
        value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    page: Option<u32>,
    /// Measure the relay to this destination instead: a URL as for `relay --to`
    #[arg(long, value_name = "URL", conflicts_with_all = ["settled", "pending", "held", "only", "transactions", "clients", "writers"])]
    to: Option<Destination>,
    /// Also consume the events that --to sends: the URL of a source, amqp://…?queue=,
    /// kafka://…?group=, mqtt://…?client_id=, nats://…?stream=&durable= or redis://…?stream=&group=
    #[arg(long, value_name = "URL", requires = "to")]
    from: Option<String>,
    /// Allow --to to be a webhook at a private or loopback address, and without TLS
    #[arg(long, requires = "to")]
    allow_private: bool,
}

/// What is measured unless something else is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Business transactions with and without a staged event, and staging in bulk
    Stage,
    /// Drains to null: beside raw and bare loops
    Drain,
    /// The memory of a relay in a process of its own
    Memory,
    /// What --settled and --pending ask for
    Growth,
    /// What --held asks for
    Held,
    /// What --latency asks for
    Latency,
    /// What --writers asks for
    Writers,
}

impl BenchArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Whether nothing is asked for but drains, which are measured on every database.
    fn drains_alone(&self) -> bool {
        let other = [self.settled, self.pending, self.latency, self.writers];
        let instead =
            self.sagas.is_some() || self.consume.is_some() || self.page.is_some() || self.to.is_some();
        self.only == [Part::Drain] && !self.held && other == [0; 4] && !instead
    }

    /// Refuses a part that measures nothing without an option of its own.
    fn check(&self) -> Result<(), Fault> {
        let missing = self.only.iter().find_map(|part| match part {
            Part::Growth if self.settled == 0 && self.pending == 0 => {
                Some("growth needs --settled N or --pending N")
            }
            Part::Held if !self.held => Some("held needs --held"),
            Part::Latency if self.latency == 0 => Some("latency needs --latency N"),
            Part::Writers if self.writers == 0 => Some("writers needs --writers N"),
            _ => None,
        });
        missing.map_or(Ok(()), |missing| Err(Fault::usage(format!("--only {missing}"))))
    }

    /// How often progress is made.
    fn steps(&self) -> u64 {
        let rounds = u64::from(self.repeat);
        let optional = [self.settled > 0, self.pending > 0, self.latency > 0];
        let once: u64 = optional.into_iter().map(u64::from).sum();
        let asked = [self.held, self.writers > 0];
        let each =
            [Part::Stage, Part::Drain, Part::Memory].map(|part| self.wants(part)).into_iter().chain(asked);
        once + each.map(|wanted| rounds * u64::from(wanted)).sum::<u64>()
    }
}

async fn run(args: &BenchArgs, context: &Context) -> Result<(), Fault> {
    args.check()?;
    let to = args.to.as_ref().map(|to| To::new(to, args)).transpose()?;
    let folder = tempfile::tempdir()
        .map_err(|error| Fault::failed(format!("cannot create a temporary directory: {error}")))?;
    let url = match context.database_option() {
        Some(url) => url.to_owned(),
        None => format!("sqlite://{}", folder.path().join("bench.db").display()),
    };
    let bed = Bed::create(&url, args).await?;
    let printed = match (to, args.sagas) {
        (Some(to), _) => to.measure(&bed, args, context).await.and_then(|report| print(&report, context)),
        (None, Some(sagas)) => {
            sagas::measure(&bed, args, sagas, context).await.and_then(|report| print(&report, context))
        }
        (None, None) if args.page.is_some() => {
            let (entries, place) = (args.page.unwrap_or_default(), (url.as_str(), folder.path()));
            page::measure(&bed, args, entries, place, context)
                .await
                .and_then(|report| print(&report, context))
        }
        (None, None) if args.consume.is_some() => {
            let events = args.consume.unwrap_or_default();
            consume::measure(&bed, args, events, context).await.and_then(|report| print(&report, context))
        }
        (None, None) => {
            measure(&bed, args, context, &url, folder.path()).await.and_then(|report| print(&report, context))
        }
    };
    // Whatever happened, the tables go.
    let dropped = bed.drop().await;
    printed.and(dropped)
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
    writers::check(bed, args)?;
    let progress = Progress::new(context.out, "measuring", Some(args.steps()));
    let mut report = Report::new(bed, args);
    if args.wants(Part::Stage) {
        report.stage = Some(stage::measure(bed, args, &progress).await?);
    }
    if args.wants(Part::Drain) {
        report.drain = Some(drain::measure(bed, args, &progress).await?);
    }
    report.growth = growth::measure(bed, args, &progress).await?;
    if args.held {
        report.held = Some(held::measure(bed, args, &progress).await?);
    }
    if args.latency > 0 {
        report.latency = Some(latency::measure(bed, args, Arc::new(NullSink)).await?);
        progress.add(1);
    }
    if args.writers > 0 {
        report.writers = Some(writers::measure(bed, args, &progress).await?);
    }
    if args.wants(Part::Memory) {
        report.memory = Some(memory::measure(bed, args, url, folder, &progress).await?);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Bench::command().debug_assert();
    }
}
