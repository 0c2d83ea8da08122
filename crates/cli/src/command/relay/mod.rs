//! `pillarbox relay [--drain]`

mod admin;
mod connect;
pub(crate) mod plan;
mod progress;
mod run;

use clap::Args;
use pillarbox_core::{RouteName, Status};
use pillarbox_engine::{CircuitState, Tally};
use serde::Serialize;
use tokio::sync::watch;

use crate::context::Context;
use crate::database::Database;
use crate::destination::Destination;
use crate::fault::Fault;
use crate::signal::Signals;

use run::Work;

const EXAMPLES: &str = "\
Destinations: file:PATH (appends one CloudEvents JSON object per line; {route} in the path is the route's \
name), stdout:, null:, amqp(s)://, nats://, redis(s)://, http(s)://. For order per key, configure the route \
with order = \"key\". On SIGTERM or SIGINT, the relay stops claiming and finishes or releases the entries in \
flight. A second signal stops it at once.

Examples:
  pillarbox relay                                         every configured route, for ever
  pillarbox relay --drain                                 until nothing is due, for cron
  pillarbox relay --route orders --to file:orders.ndjson  without a configuration
  pillarbox relay --route orders --to 'amqp://localhost/%2f?exchange=orders&routing_key={type}'
  pillarbox relay --route orders --to 'nats://localhost/orders.{type}'
  pillarbox relay --route orders --to 'redis://localhost/0?stream=orders'
  pillarbox relay --route orders --to http://127.0.0.1:8080/hook --allow-private";

/// What to deliver, and for how long.
#[derive(Args, Debug)]
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
    let until = if args.drain { Until::Drained(args.max) } else { Until::Stopped };
    let routes = plan::routes(&args.routes, args.to, args.allow_private, &context.config)?;
    let mut signals = Signals::new()?;
    let (stop, stopped) = watch::channel(false);
    let work = work(until, &routes, context, stopped);
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = signals.next() => {
                if stop.send_replace(true) {
                    return Err(Fault::failed(
                        "stopped at once. Entries in flight are delivered again when their lease ends",
                    ));
                }
                context.out.say(
                    "stopping: deliveries in flight are finished or released. Send the signal again to stop \
                     at once",
                );
            }
        }
    }
}

async fn work(
    until: Until,
    routes: &plan::Routes,
    context: &Context,
    stopped: watch::Receiver<bool>,
) -> Result<(), Fault> {
    let Some(database) = connect::connect(until, context, stopped.clone()).await? else { return Ok(()) };
    let work = Work::new(&database, routes, context)?;
    for (route, config) in routes {
        context.out.say(format_args!("relaying {route} to {}", config.to));
    }
    let result = match until {
        Until::Drained(max) => work.drain(stopped, max).await,
        Until::Stopped => admin::beside(work.run(stopped), &database, context).await?,
    };
    let down = work.down();
    drop(work);
    if matches!((until, &result), (Until::Drained(_), Ok(tally)) if tally.claimed == 0) {
        tell_why_nothing(routes, context, &database).await?;
    }
    database.staging.close().await;
    tell(until, routes, context, &result?)?;
    match down {
        Some((route, CircuitState::Open | CircuitState::Probing)) if matches!(until, Until::Drained(_)) => {
            destination_down(&route, routes)
        }
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
fn tell(until: Until, routes: &plan::Routes, context: &Context, tally: &Tally) -> Result<(), Fault> {
    let on_stdout = routes.values().all(|route| route.to != Destination::Stdout);
    let json = TallyJson::from(tally);
    let text = if context.out.json {
        serde_json::to_string(&json)
            .map_err(|error| Fault::failed(format!("cannot write the tally: {error}")))?
    } else {
        format!(
            "{} claimed, {} delivered, {} retried, {} dead, {} released, {} fenced in {:.1} s",
            tally.claimed,
            tally.delivered,
            tally.retried,
            tally.dead,
            tally.released,
            tally.fenced,
            json.seconds
        )
    };
    match (until, on_stdout) {
        (Until::Drained(_), true) => context.out.data(text),
        _ => {
            context.out.say(text);
            Ok(())
        }
    }
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
