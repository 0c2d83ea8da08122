//! `pillarbox status [--check]`

mod problems;
mod relays;
mod sagas;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use pillarbox_core::health::{Limits, Look, Verdict};
use pillarbox_core::port::RouteCounts;
use pillarbox_core::{EventId, Standing, Status, Timestamp, format_duration, parse_duration};
use serde::Serialize;

use crate::config::AdminConfig;
use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, Table};

use problems::ProblemJson;
use relays::RelayJson;
use sagas::SagasJson;

const EXAMPLES: &str = "\
Examples:
  pillarbox status
  pillarbox status --json | jq '.total.dead'
  pillarbox status --json | jq '.sagas.stuck'
  pillarbox status --json | jq '.relays[] | select(.circuit != \"closed\")'
  pillarbox status --check --max-age 1m || page-the-operator";

/// What to count, and when to call it unhealthy.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Exit 3 and print the problems if there are any: an entry is dead, a saga waits for an operator or is
    /// past its timeout, the circuit of a route is open, the oldest due entry of a route has waited for longer
    /// than --max-age, no relay of a configured route runs and its oldest due entry has waited for longer than
    /// unrelayed_after of [admin] (15s), the relay of a route died and no other runs, or the tables need
    /// `pillarbox migrate`
    #[arg(long)]
    check: bool,
    /// The longest wait that --check accepts
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5m", allow_hyphen_values = true)]
    max_age: Duration,
}

#[derive(Serialize)]
struct StatusJson<'a> {
    routes: Vec<RouteJson<'a>>,
    total: CountsJson,
    sagas: SagasJson,
    mode: &'a str,
    relays: Vec<RelayJson<'a>>,
    problems: Vec<ProblemJson<'a>>,
}

#[derive(Serialize)]
struct RouteJson<'a> {
    route: &'a str,
    #[serde(flatten)]
    counts: CountsJson,
    blocked_by: Vec<HeadJson<'a>>,
    paused: Option<PauseJson<'a>>,
}

/// A dead entry that blocks its key.
#[derive(Serialize)]
struct HeadJson<'a> {
    event_id: EventId,
    key: &'a str,
    blocked: u64,
}

#[derive(Serialize)]
struct PauseJson<'a> {
    at: Timestamp,
    by: &'a str,
    reason: &'a str,
}

#[derive(Default, Serialize)]
struct CountsJson {
    pending: u64,
    in_flight: u64,
    retrying: u64,
    blocked: u64,
    delivered: u64,
    dead: u64,
    discarded: u64,
    oldest_due_age_seconds: Option<f64>,
    /// The statuses of which there may be more than was counted.
    at_least: BTreeSet<&'static str>,
}

pub(crate) async fn run(args: &StatusArgs, context: &Context) -> Result<(), Fault> {
    let database = context.open().await?;
    let mut routes = database.admin.counts(None).await?;
    // A route that is configured and empty is a fact too.
    for name in context.config.routes.keys() {
        if !routes.iter().any(|counts| counts.route == *name) {
            routes.push(RouteCounts::zero(name.clone()));
        }
    }
    routes.sort_by(|a, b| a.route.cmp(&b.route));
    let sagas = database.sagas.saga_counts(None).await?;
    let relays = database.presence.relays(None).await?;
    let mode = database.staging.mode();
    let tables = if args.check { Some(database.schema.inspect().await?) } else { None };
    database.staging.close().await;
    let configured: Vec<_> = context.config.routes.keys().cloned().collect();
    let look = Look {
        routes: &routes,
        configured: &configured,
        sagas: &sagas,
        relays: &relays,
        tables: tables.as_ref(),
    };
    let waits = context.config.admin.as_ref().map_or_else(Limits::default, AdminConfig::waits);
    let verdict = Verdict::of(&look, &Limits { max_age: args.max_age, ..waits });
    if context.out.json {
        context.out.json(&StatusJson {
            routes: routes.iter().map(RouteJson::from).collect(),
            total: total(&routes),
            sagas: SagasJson::new(&sagas, &relays),
            mode: &mode,
            relays: relays.iter().map(RelayJson::from).collect(),
            problems: verdict.problems.iter().map(ProblemJson::from).collect(),
        })?;
    } else {
        context.out.data(table(&routes))?;
        for table in [blocked(&routes), paused(&routes)].into_iter().flatten() {
            context.out.data(format_args!("\n{table}"))?;
        }
        if let Some(table) = sagas::table(&sagas) {
            context.out.data(format_args!("\n{table}"))?;
        }
        if !relays.is_empty() {
            context.out.data(format_args!("\n{}", relays::table(&relays)))?;
        }
        sagas::warnings(&sagas, &relays).iter().for_each(|warning| context.out.warn(warning));
        context.out.say(format_args!("mode: {mode}"));
    }
    if args.check { problems::check(&verdict) } else { Ok(()) }
}

impl<'a> From<&'a RouteCounts> for RouteJson<'a> {
    fn from(counts: &'a RouteCounts) -> Self {
        let heads = counts.heads.iter().map(|head| HeadJson {
            event_id: head.event_id,
            key: &head.key,
            blocked: head.blocked,
        });
        let paused = counts.paused.as_ref().map(|pause| PauseJson {
            at: pause.at,
            by: &pause.actor,
            reason: &pause.reason,
        });
        Self {
            route: counts.route.as_str(),
            counts: total(std::slice::from_ref(counts)),
            blocked_by: heads.collect(),
            paused,
        }
    }
}

fn total(routes: &[RouteCounts]) -> CountsJson {
    let sum = |status| routes.iter().map(|counts| counts.of(status)).sum();
    CountsJson {
        pending: sum(Status::Pending),
        in_flight: sum(Status::InFlight),
        retrying: sum(Status::Retrying),
        blocked: routes.iter().map(|counts| counts.blocked).sum(),
        delivered: sum(Status::Delivered),
        dead: sum(Status::Dead),
        discarded: sum(Status::Discarded),
        oldest_due_age_seconds: oldest(routes).map(|age| (age.as_secs_f64() * 1000.0).round() / 1000.0),
        at_least: routes.iter().flat_map(|counts| &counts.at_least).map(|status| status.as_str()).collect(),
    }
}

fn oldest(routes: &[RouteCounts]) -> Option<Duration> {
    routes.iter().filter_map(|counts| counts.oldest_due_age).max()
}

fn table(routes: &[RouteCounts]) -> Table {
    let mut columns = vec![("route", Align::Left)];
    columns.extend(Standing::ALL.map(|standing| (standing.as_str(), Align::Right)));
    columns.push(("oldest due", Align::Right));
    let mut table = Table::new(&columns);
    let count = |counts: &RouteCounts, standing| match standing {
        Standing::Is(status) => counts.of(status),
        Standing::Blocked => counts.blocked,
    };
    let mut add = |name: &str, routes: &[RouteCounts]| {
        let sums = Standing::ALL.map(|standing| {
            let sum = routes.iter().map(|counts| count(counts, standing)).sum::<u64>();
            let more = |status| routes.iter().any(|counts| counts.at_least.contains(&status));
            match standing {
                Standing::Is(status) if more(status) => format!("{sum}+"),
                _ => sum.to_string(),
            }
        });
        let age = oldest(routes).map_or_else(|| "-".to_owned(), |age| format_duration(whole_seconds(age)));
        table.row([name.to_owned()].into_iter().chain(sums).chain([age]));
    };
    routes.iter().for_each(|counts| add(counts.route.as_str(), std::slice::from_ref(counts)));
    add("total", routes);
    table
}

/// Whom blocked entries wait for; `None` where nothing is blocked.
fn blocked(routes: &[RouteCounts]) -> Option<Table> {
    let mut table = Table::new(&[
        ("blocked by the dead", Align::Left),
        ("route", Align::Left),
        ("key", Align::Left),
        ("behind it", Align::Right),
    ]);
    for counts in routes {
        for head in &counts.heads {
            let behind = head.blocked.to_string();
            table.row([head.event_id.to_string(), counts.route.to_string(), head.key.clone(), behind]);
        }
    }
    routes.iter().any(|counts| !counts.heads.is_empty()).then_some(table)
}

/// The routes that are paused; `None` where none is.
fn paused(routes: &[RouteCounts]) -> Option<Table> {
    let mut table = Table::new(&[
        ("paused", Align::Left),
        ("since", Align::Left),
        ("by", Align::Left),
        ("why", Align::Left),
    ]);
    for counts in routes {
        if let Some(pause) = &counts.paused {
            let cells = [pause.at.to_string(), pause.actor.clone(), pause.reason.clone()];
            table.row([counts.route.to_string()].into_iter().chain(cells));
        }
    }
    routes.iter().any(|counts| counts.paused.is_some()).then_some(table)
}

fn whole_seconds(age: Duration) -> Duration {
    Duration::from_secs(age.as_secs())
}

#[cfg(test)]
mod tests {
    use pillarbox_core::RouteName;

    use super::*;

    #[test]
    fn the_shape_names_every_status() {
        let mut counts = RouteCounts::zero(RouteName::new("orders").unwrap());
        counts.counts.insert(Status::Dead, 2);
        let json = serde_json::to_string(&RouteJson::from(&counts)).unwrap();
        assert_eq!(
            json,
            r#"{"route":"orders","pending":0,"in_flight":0,"retrying":0,"blocked":0,"delivered":0,"dead":2,"discarded":0,"oldest_due_age_seconds":null,"at_least":[],"blocked_by":[],"paused":null}"#
        );
    }
    #[test]
    fn a_count_that_may_be_too_low_says_so() {
        let mut counts = RouteCounts::zero(RouteName::new("orders").unwrap());
        counts.counts.insert(Status::Delivered, 100_000);
        counts.at_least.insert(Status::Delivered);
        assert!(table(&[counts.clone()]).to_string().contains("100000+"));
        let json = serde_json::to_value(total(&[counts])).unwrap();
        assert_eq!(json["at_least"], serde_json::json!(["delivered"]));
    }
}
