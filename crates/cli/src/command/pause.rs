//! `pillarbox pause ROUTE` and `pillarbox resume ROUTE`

use clap::Args;
use pillarbox_core::RouteName;
use pillarbox_core::port::{Filter, PauseChange, PauseRequest, PauseTo};
use serde::Serialize;

use crate::context::{Context, operator};
use crate::fault::Fault;

const EXAMPLES: &str = "\
While a route is paused, no relay claims its entries: not on other machines, and not with --drain. \
Deliveries in flight are finished, and applications can still stage events. `pillarbox status` shows paused \
routes.

Examples:
  pillarbox pause orders --reason 'the broker is being moved'
  pillarbox resume orders";

/// Which route.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PauseArgs {
    /// The route
    #[arg(value_name = "ROUTE")]
    route: RouteName,
    /// Why, for the audit trail and `status`
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Serialize)]
struct PauseJson<'a> {
    route: &'a str,
    paused: bool,
    changed: bool,
}

pub(crate) async fn run(to: PauseTo, args: PauseArgs, context: &Context) -> Result<(), Fault> {
    let request =
        PauseRequest { route: args.route.clone(), to, actor: operator(), reason: args.reason, now: None };
    request.check()?;
    let database = context.open().await?;
    let change = database.admin.set_pause(request).await?;
    // A route exists by being used, so a misspelt one can be paused as well.
    let is_known = context.config.routes.contains_key(&args.route)
        || !database.admin.list(Filter::default().route(args.route.clone()).limit(1)).await?.is_empty();
    database.staging.close().await;
    if !is_known {
        let route = &args.route;
        context
            .out
            .warn(format_args!("route {route} has no entries and is not configured; check its spelling"));
    }
    let paused = to == PauseTo::Paused;
    let changed = change == PauseChange::Changed;
    if context.out.json {
        return context.out.json(&PauseJson { route: args.route.as_str(), paused, changed });
    }
    let route = &args.route;
    context.out.data(match (to, change) {
        (PauseTo::Paused, PauseChange::Changed) => {
            format!(
                "route {route} is paused: relays claim none of its entries from now on. `pillarbox resume \
                 {route}` resumes it",
            )
        }
        (PauseTo::Paused, PauseChange::Already) => format!("route {route} was already paused"),
        (PauseTo::Running, PauseChange::Changed) => {
            format!("route {route} is resumed: relays deliver its entries again")
        }
        (PauseTo::Running, PauseChange::Already) => format!("route {route} was not paused"),
    })
}
