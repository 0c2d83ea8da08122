//! `pillarbox reap`

use clap::Args;
use pillarbox_core::RouteName;
use pillarbox_core::port::{Effect, Leases, ReapRequest, Steps};
use serde::Serialize;

use crate::context::{Context, operator};
use crate::fault::Fault;

const EXAMPLES: &str = "\
A running relay does this by itself. An entry without attempts left is marked dead only if the allowed \
number of attempts is known: from the entry, from the configuration of --route, or from --max-attempts.

Examples:
  pillarbox reap --dry-run
  pillarbox reap --route orders";

/// Which expired leases.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReapArgs {
    /// Only this route [default: all]
    #[arg(long)]
    route: Option<RouteName>,
    /// At most this many; up to 10000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u32,
    /// The allowed number of attempts, for entries without their own [default: the configured route's; else
    /// no entry is marked dead]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,
    /// Only count expired leases
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct ReapedJson {
    stale: u64,
    released: u64,
    dead: usize,
    dry_run: bool,
}

pub(crate) async fn run(args: ReapArgs, context: &Context) -> Result<(), Fault> {
    let configured = args.route.as_ref().and_then(|route| context.config.routes.get(route));
    let configured = configured.map(|route| route.options(context.config.retention.delivered()).max_attempts);
    let request = ReapRequest {
        leases: Leases::Impossible,
        route: args.route,
        limit: args.limit,
        max_attempts: args.max_attempts.or(configured),
        steps: Steps::Take,
        owner: operator(),
        effect: if args.dry_run { Effect::DryRun } else { Effect::Apply },
        now: None,
    };
    request.check()?;
    let database = context.open().await?;
    let reaped = database.store.reap(request).await?;
    database.staging.close().await;
    let json = ReapedJson {
        stale: reaped.stale,
        released: reaped.released,
        dead: reaped.dead.len(),
        dry_run: args.dry_run,
    };
    if context.out.json {
        return context.out.json(&json);
    }
    for death in &reaped.dead {
        context.out.say(format_args!("dead: {} on {}: {}", death.event_id, death.route, death.failure));
    }
    context.out.data(format_args!(
        "{} expired, {} returned to the queue, {} dead",
        json.stale, json.released, json.dead
    ))
}
