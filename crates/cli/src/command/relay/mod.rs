//! `pillarbox relay [--drain]`

mod admin;
mod connect;
mod daemon;
pub(crate) mod plan;
mod progress;
mod reload;
mod run;
mod start;
mod state;

use clap::Args;
use pillarbox_core::{RouteName, Status};
use pillarbox_engine::{CircuitState, Tally};
use serde::Serialize;
use tokio::sync::watch;

use crate::context::Context;
use crate::database::Database;
use crate::destination::Destination;
use crate::fault::Fault;
use crate::signal::{Signal, Signals};

use daemon::Daemon;
use reload::Reloader;
use run::Work;

const EXAMPLES: &str = "\
Destinations: file:PATH (appends one CloudEvents JSON object per line; {route} in the path is the route's \
name), stdout:, null:, amqp(s)://, kafka(s)://, mqtt(s)://, nats://, redis(s)://, sqs://, http(s)://; and mqtt+qos0://, nats+core:// and \
redis+pubsub://, of which the broker keeps nothing. For order per key, configure the route with order = \"key\". On SIGTERM or SIGINT, the relay stops claiming and finishes or releases the entries in \
flight. A second signal stops it at once. On SIGHUP, it reads the configuration again: added, changed and \
removed routes start and stop, the others are not disturbed. A file with an error changes nothing.

If [trace] endpoint or OTEL_EXPORTER_OTLP_ENDPOINT names a receiver of OTLP over HTTP, each delivery has a span that \
is linked to the creation of its entries.

Examples:
  pillarbox relay                                         every configured route, for ever
  pillarbox relay --drain                                 until nothing is due, for cron
  pillarbox relay --route orders --to file:orders.ndjson  without a configuration
  pillarbox relay --route orders --to 'amqp://localhost/%2f?exchange=orders&routing_key={type}'
  pillarbox relay --route orders --to 'kafka://localhost:9092/orders.{type}'
  pillarbox relay --route orders --to 'mqtt://localhost/orders/{type}'
  pillarbox relay --route orders --to 'nats://localhost/orders.{type}'
  pillarbox relay --route orders --to 'redis://localhost/0?stream=orders'
  pillarbox relay --route orders --to sqs://eu-west-1/orders.fifo
  pillarbox relay --route orders --to http://127.0.0.1:8080/hook --allow-private";

/// What to deliver, and for how long.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RelayArgs {
    /// Stop when nothing is due, and print the counts
    #[arg(long)]
    drain: bool,
    /// With --drain: deliver at most this many entries of each route, so that a run ends even with a large
    /// backlog
    #[arg(long, value_name = "N", requires = "drain", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Only this route; may be given many times [default: every configured route]
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<RouteName>,
    /// Where to deliver the one --route, instead of its configured destination
    #[arg(long, value_name = "URL", requires = "routes")]
    to: Option<Destination>,
    /// Allow --to to be a webhook at a private or loopback address, and without TLS
    #[arg(long, requires = "to")]
    allow_private: bool,
}

/// How long a relay works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Nothing is due, or so many entries of a route were taken.
    Drained(Option<u64>),
    Stopped,
}

#[derive(Serialize)]
struct TallyJson {
    claimed: u64,
    delivered: u64,
    retried: u64,
    dead: u64,
    released: u64,
    fenced: u64,
    seconds: f64,
}

pub(crate) async fn run(args: RelayArgs, context: &Context) -> Result<(), Fault> {
    let routes = plan::routes(&args.routes, args.to.clone(), args.allow_private, &context.config)?;
    let mut signals = Signals::new()?;
    if args.drain {
        return drain(args.max, &routes, context, signals).await;
    }
    let Some(database) = connect_or_stop(context, &mut signals).await? else { return Ok(()) };
    // Beside the work: a destination that does not answer must not delay the others.
    let told = async {
        start::tell(&database, &routes, context).await;
        std::future::pending::<std::convert::Infallible>().await
    };
    let reloader = Reloader::new(context.file.clone(), args);
    let ended = match Daemon::start(context, &database, reloader, routes.clone()) {
        Ok(daemon) => {
            let (metrics, shown) = (daemon.metrics().clone(), daemon.shown());
            let work = admin::beside(daemon.run(&mut signals), &database, context, metrics, shown);
            tokio::select! {
                ended = work => ended.and_then(|ended| ended),
                never = told => match never {},
            }
        }
        Err(fault) => Err(fault),
    };
    database.staging.close().await;
    context.out.say(text(context, &ended?)?);
    Ok(())
}

/// The database, or `None` when the daemon was stopped while it waited for it.
async fn connect_or_stop(context: &Context, signals: &mut Signals) -> Result<Option<Database>, Fault> {
    let (stop, stopped) = watch::channel(false);
    let connecting = connect::connect(Until::Stopped, context, stopped);
    tokio::pin!(connecting);
    loop {
        tokio::select! {
            connected = &mut connecting => return connected,
            signal = signals.next() => if stops(signal, context) && stop.send_replace(true) {
                return Err(stopped_at_once());
            },
        }
    }
}

async fn drain(
    max: Option<u64>,
    routes: &plan::Routes,
    context: &Context,
    mut signals: Signals,
) -> Result<(), Fault> {
    let (stop, stopped) = watch::channel(false);
    let work = work(Until::Drained(max), routes, context, stopped);
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            signal = signals.next() => {
                // A drain has nothing to reload: a closed terminal ends it as an interrupt does.
                let (Signal::Stop | Signal::Reload) = signal;
                if stop.send_replace(true) {
                    return Err(stopped_at_once());
                }
                context.out.say(
                    "stopping: deliveries in flight are finished or released. Send the signal again to stop \
                     at once",
                );
            }
        }
    }
}

/// Without a file there is nothing to reload, and a closed terminal ends the relay.
fn stops(signal: Signal, context: &Context) -> bool {
    signal == Signal::Stop || context.file.is_none()
}

fn stopped_at_once() -> Fault {
    Fault::failed("stopped at once. Entries in flight are delivered again when their lease ends")
}

async fn work(
    until: Until,
    routes: &plan::Routes,
    context: &Context,
    stopped: watch::Receiver<bool>,
) -> Result<(), Fault> {
    let Until::Drained(max) = until else { return Ok(()) };
    let Some(database) = connect::connect(until, context, stopped.clone()).await? else { return Ok(()) };
    let work = Work::new(&database, routes, context)?;
    for (route, config) in routes {
        context.out.say(format_args!("relaying {route} to {}", config.to));
    }
    let result = work.drain(stopped, max).await;
    let down = work.down();
    drop(work);
    if matches!(&result, Ok(tally) if tally.claimed == 0) {
        tell_why_nothing(routes, context, &database).await?;
    }
    database.staging.close().await;
    tell(routes, context, &result?)?;
    match down {
        Some((route, CircuitState::Open | CircuitState::Probing)) => destination_down(&route, routes),
        _ => Ok(()),
    }
}

/// Says that there may be entries all the same.
async fn tell_why_nothing(
    routes: &plan::Routes,
    context: &Context,
    database: &Database,
) -> Result<(), Fault> {
    let counts = database.admin.counts(None).await?;
    for counts in counts.iter().filter(|counts| routes.contains_key(&counts.route)) {
        if let Some(held) = counts.counts.get(&Status::InFlight).filter(|held| **held > 0) {
            context.out.warn(format_args!(
                "another relay has {held} entries of route {} in flight. If that relay has died, run this \
                 command again when its lease has ended",
                counts.route
            ));
        }
        if let Some(pause) = &counts.paused {
            let route = &counts.route;
            let reason = if pause.reason.is_empty() { String::new() } else { format!(" ({})", pause.reason) };
            context.out.warn(format_args!(
                "route {route} was paused by {} at {}{reason}, so its entries are not delivered. `pillarbox \
                 resume {route}` resumes it",
                pause.actor, pause.at
            ));
        }
    }
    Ok(())
}

// Events and a tally on one stdout would be two kinds of data: the events are what was asked for.
fn tell(routes: &plan::Routes, context: &Context, tally: &Tally) -> Result<(), Fault> {
    let text = text(context, tally)?;
    if routes.values().all(|route| route.to != Destination::Stdout) {
        return context.out.data(text);
    }
    context.out.say(text);
    Ok(())
}

fn text(context: &Context, tally: &Tally) -> Result<String, Fault> {
    if context.out.json {
        return serde_json::to_string(&TallyJson::from(tally))
            .map_err(|error| Fault::failed(format!("cannot write the tally: {error}")));
    }
    Ok(format!(
        "{} claimed, {} delivered, {} retried, {} dead, {} released, {} fenced in {:.1} s",
        tally.claimed,
        tally.delivered,
        tally.retried,
        tally.dead,
        tally.released,
        tally.fenced,
        tally.elapsed.as_secs_f64()
    ))
}

fn destination_down(route: &RouteName, routes: &plan::Routes) -> Result<(), Fault> {
    match routes.get(route).map(|config| &config.to) {
        // Whoever read our stdout has seen enough; what was not read is still due.
        Some(Destination::Stdout) => Err(Fault::PipeClosed),
        to => Err(Fault::failed(format!(
            "the destination of route {route} is down{}. Nothing is lost: its entries are still due. Run the \
             command again later",
            to.map(|to| format!(" ({to})")).unwrap_or_default()
        ))),
    }
}

impl From<&Tally> for TallyJson {
    fn from(tally: &Tally) -> Self {
        Self {
            claimed: tally.claimed,
            delivered: tally.delivered,
            retried: tally.retried,
            dead: tally.dead,
            released: tally.released,
            fenced: tally.fenced,
            seconds: (tally.elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
        }
    }
}
