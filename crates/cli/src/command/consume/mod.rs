//! `pillarbox consume --from URL --to URL|exec:CMD`

mod admin;
mod answer;
mod child;
mod children;
mod ledger;
mod target;
mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pillarbox_core::{Backoff, Jitter, parse_duration};
use pillarbox_engine::{Consumer, ConsumerOptions, ConsumerTally};
use pillarbox_metrics::Metrics;
use serde::Serialize;
use tokio::sync::watch;

use crate::context::Context;
use crate::destination::{Origin, Webhook};
use crate::fault::Fault;
use crate::signal::Signals;
use crate::telemetry;

use ledger::Ledger;
use target::{Hands, Target};

/// The variable with the keys that sign webhooks.
const SECRET_VARIABLE: &str = "PILLARBOX_SECRET";

const EXAMPLES: &str = "\
The child gets one event per line on its stdin, as CloudEvents JSON, and writes one line with its answer to \
stdout before it gets the next one:
  {\"id\": \"…\", \"ok\": true}                               applied: the event is marked and acknowledged
  {\"id\": \"…\", \"ok\": false, \"error\": \"…\", \"retry_after\": 5}   try again, after that many seconds if given
  {\"id\": \"…\", \"reject\": \"…\"}                           never works: the broker sets the message aside
Its stderr is passed on. A child that crashes, hangs or writes anything else is stopped and started again, and \
its event is retried. With --concurrency N there are up to N children; the events of one key go one after the \
other. A webhook answers by its status code, as for a relay. If the variable PILLARBOX_SECRET is set, webhooks \
are signed with its keys (whsec_…, separated by blanks).

An answered event is marked in the inbox of --database and is not handed over again. If the process dies between \
the work and the mark, the event comes again: accept it by its id in the transaction of your own write, as \
docs/guide/consume.md shows.

On SIGTERM or SIGINT, the consumer receives nothing more and finishes the events in flight. A second signal \
stops it at once.

If [trace] endpoint or OTEL_EXPORTER_OTLP_ENDPOINT names a receiver of OTLP over HTTP, each message has a span that \
is linked to the creation of its event.

Examples:
  pillarbox consume --name billing --from 'amqp://localhost/%2f?queue=billing' --to 'exec:python3 billing.py'
  pillarbox consume --name billing --from 'kafka://localhost:9092/orders?group=billing' --to 'exec:python3 billing.py'
  pillarbox consume --name billing --from 'mqtt://localhost/orders/%23?group=billing&client_id=billing-1' \\
      --to 'exec:python3 billing.py'
  pillarbox consume --name billing --from 'nats://localhost/orders.>?stream=ORDERS&durable=billing' \\
      --to http://127.0.0.1:8080/events --allow-private
  pillarbox consume --name billing --from 'sqs://eu-west-1/orders.fifo' --to 'exec:python3 billing.py'";

/// What to consume, and who applies it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsumeArgs {
    /// The queue, stream or subject of a broker
    #[arg(long, value_name = "URL")]
    from: Origin,
    /// exec:COMMAND for a child process, or the URL of a webhook
    #[arg(long, value_name = "URL|exec:COMMAND")]
    to: Target,
    /// The name of the consumer, under which events are marked. Consumers of different names are independent
    #[arg(long, value_name = "NAME")]
    name: String,
    /// How many events are handed over at the same time; also the largest number of children
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// How often a failed event is tried again before it goes back to the broker
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
    /// The wait before the first of these tries; it doubles with each further one, up to a minute
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    backoff: Duration,
    /// Park a message that the broker has delivered more often than this, where the broker counts deliveries
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    max_deliveries: u32,
    /// How long an answer of the child may take. A child that takes longer is stopped
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Stop when nothing arrived for this long, and print the counts [default: run until stopped]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    idle: Option<Duration>,
    /// Serve the page, /livez, /readyz and /metrics at this address and port, with the other settings of [admin];
    /// port 0 takes a free one, and the log says which [default: not served]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Allow --to to be a webhook at a private or loopback address, and without TLS
    #[arg(long)]
    allow_private: bool,
}

#[derive(Serialize)]
struct TallyJson {
    processed: u64,
    duplicates: u64,
    stale: u64,
    parked: u64,
    failed: u64,
}

pub(crate) async fn run(args: ConsumeArgs, context: &Context) -> Result<(), Fault> {
    let backoff = Backoff::new(args.backoff, args.backoff.max(Duration::from_secs(60)), Jitter::Full)
        .map_err(|error| Fault::usage(format!("--backoff: {error}")))?;
    if args.timeout.is_zero() {
        return Err(Fault::usage("--timeout must be longer than zero"));
    }
    let webhook = Webhook { allow_private: args.allow_private, secrets: secrets()?, ..Webhook::default() };
    let hands = args.to.hands(webhook, args.timeout)?;
    let options = ConsumerOptions::default()
        .concurrency(usize::from(args.concurrency))
        .retries(args.retries)
        .backoff(backoff)
        .max_deliveries(Some(args.max_deliveries))
        .idle(args.idle);
    let mut signals = Signals::new()?;
    let database = context.open().await?;
    let source = args.from.source()?;
    let metrics = Metrics::new();
    let mut consumer = Consumer::builder(source, Ledger::new(database.staging.clone()))
        .name(&args.name)
        .options(options)
        .observer(metrics.consumer(&args.name));
    if let Some(tracer) = telemetry::tracer() {
        consumer = consumer.tracer(tracer);
    }
    let consumer = consumer.build()?;
    context.out.say(format_args!("consuming {} as {} to {}", args.from, args.name, args.to));
    let (stop, mut stopped) = watch::channel(false);
    let shutdown = async move { drop(stopped.wait_for(|stop| *stop).await) };
    let tally = {
        let work = consume(&consumer, shutdown, &hands);
        let work = admin::beside(work, args.listen, &database, context, metrics);
        tokio::pin!(work);
        loop {
            tokio::select! {
                tally = &mut work => break tally??,
                // There is nothing to reload: a closed terminal ends it as an interrupt does.
                _ = signals.next() => {
                    if stop.send_replace(true) {
                        return Err(Fault::failed(
                            "stopped at once. Events in flight were not answered: the broker delivers them again",
                        ));
                    }
                    context.out.say(
                        "stopping: events in flight are finished. Send the signal again to stop at once",
                    );
                }
            }
        }
    };
    hands.close().await;
    database.staging.close().await;
    tell(&tally, context)
}

async fn consume(
    consumer: &Consumer<Ledger>,
    shutdown: impl Future<Output = ()>,
    hands: &Arc<Hands>,
) -> Result<ConsumerTally, Fault> {
    let hands = Arc::clone(hands);
    let handler = async move |_: &mut ledger::Pending, event| hands.hand_over(event).await;
    Ok(consumer.run(shutdown, handler).await?)
}

fn tell(tally: &ConsumerTally, context: &Context) -> Result<(), Fault> {
    let ConsumerTally { processed, duplicates, stale, parked, failed, .. } = *tally;
    if context.out.json {
        return context.out.json(&TallyJson { processed, duplicates, stale, parked, failed });
    }
    context.out.data(format_args!(
        "{processed} processed, {duplicates} duplicates, {stale} stale, {parked} parked, {failed} failed"
    ))
}

fn secrets() -> Result<Vec<crate::destination::Secret>, Fault> {
    let keys = std::env::var(SECRET_VARIABLE).unwrap_or_default();
    let keys = keys.split_whitespace().map(|key| {
        key.parse().map_err(|error: pillarbox_core::Error| {
            Fault::usage(format!("the variable {SECRET_VARIABLE}: {error}"))
        })
    });
    keys.collect()
}
