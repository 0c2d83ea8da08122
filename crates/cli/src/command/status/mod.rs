//! `pillarbox status [--check]`

mod relays;
mod sagas;

use std::time::Duration;

use clap::Args;
use pillarbox_core::port::{RelaySeen, RouteCounts, SagaCounts};
use pillarbox_core::{Status, format_duration, parse_duration};
use serde::Serialize;

use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, Table};

use relays::RelayJson;
use sagas::SagasJson;

const EXAMPLES: &str = "\
Examples:
  pillarbox status
  pillarbox status --json | jq '.total.dead'
  pillarbox status --json | jq '.sagas.stuck'
  pillarbox status --json | jq '.relays[] | select(.circuit != \"closed\")'
  pillarbox status --check --max-age 1m || page-somebody";

/// What to count, and when to call it unhealthy.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Exit 3 when anything is dead, a saga waits for an operator or takes longer than it may, or the oldest due entry
    /// has waited for longer than --max-age
    #[arg(long)]
    check: bool,
    /// The longest wait that --check calls healthy
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
}

#[derive(Serialize)]
struct RouteJson<'a> {
    route: &'a str,
    #[serde(flatten)]
    counts: CountsJson,
}

#[derive(Default, Serialize)]
struct CountsJson {
    pending: u64,
    in_flight: u64,
    retrying: u64,
    delivered: u64,
    dead: u64,
    discarded: u64,
    oldest_due_age_seconds: Option<f64>,
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
    database.staging.close().await;
    if context.out.json {
        context.out.json(&StatusJson {
            routes: routes.iter().map(RouteJson::from).collect(),
            total: total(&routes),
            sagas: SagasJson::new(&sagas, &relays),
            mode: &mode,
            relays: relays.iter().map(RelayJson::from).collect(),
        })?;
    } else {
        context.out.data(table(&routes))?;
        if let Some(table) = sagas::table(&sagas) {
            context.out.data(format_args!("\n{table}"))?;
        }
        if !relays.is_empty() {
            context.out.data(format_args!("\n{}", relays::table(&relays)))?;
        }
        sagas::warnings(&sagas, &relays).iter().for_each(|warning| context.out.warn(warning));
        context.out.say(format_args!("mode: {mode}"));
    }
    if args.check { check(&routes, &sagas, &relays, args.max_age) } else { Ok(()) }
}

impl<'a> From<&'a RouteCounts> for RouteJson<'a> {
    fn from(counts: &'a RouteCounts) -> Self {
        Self { route: counts.route.as_str(), counts: total(std::slice::from_ref(counts)) }
    }
}

fn total(routes: &[RouteCounts]) -> CountsJson {
    let sum = |status| routes.iter().map(|counts| counts.of(status)).sum();
    CountsJson {
        pending: sum(Status::Pending),
        in_flight: sum(Status::InFlight),
        retrying: sum(Status::Retrying),
        delivered: sum(Status::Delivered),
        dead: sum(Status::Dead),
        discarded: sum(Status::Discarded),
        oldest_due_age_seconds: oldest(routes).map(|age| (age.as_secs_f64() * 1000.0).round() / 1000.0),
    }
}

fn oldest(routes: &[RouteCounts]) -> Option<Duration> {
    routes.iter().filter_map(|counts| counts.oldest_due_age).max()
}

fn table(routes: &[RouteCounts]) -> Table {
    let mut columns = vec![("route", Align::Left)];
    columns.extend(Status::ALL.map(|status| (status.as_str(), Align::Right)));
    columns.push(("oldest due", Align::Right));
    let mut table = Table::new(&columns);
    let mut add = |name: &str, counts: &[RouteCounts]| {
        let sums =
            Status::ALL.map(|status| counts.iter().map(|counts| counts.of(status)).sum::<u64>().to_string());
        let age = oldest(counts).map_or_else(|| "-".to_owned(), |age| format_duration(whole_seconds(age)));
        table.row([name.to_owned()].into_iter().chain(sums).chain([age]));
    };
    routes.iter().for_each(|counts| add(counts.route.as_str(), std::slice::from_ref(counts)));
    add("total", routes);
    table
}

fn whole_seconds(age: Duration) -> Duration {
    Duration::from_secs(age.as_secs())
}

fn check(
    routes: &[RouteCounts],
    sagas: &SagaCounts,
    relays: &[RelaySeen],
    max_age: Duration,
) -> Result<(), Fault> {
    // First: behind a stuck saga are dead entries too, and it says more than they do.
    sagas::check(sagas)?;
    let dead: u64 = routes.iter().map(|counts| counts.of(Status::Dead)).sum();
    if dead > 0 {
        return Err(Fault::Unhealthy(format!(
            "{dead} dead: `pillarbox list --status dead` shows why, `pillarbox requeue --status dead` tries again"
        )));
    }
    let waits = routes.iter().filter_map(|counts| Some((counts.oldest_due_age?, &counts.route)));
    match waits.max() {
        Some((age, route)) if age > max_age => Err(Fault::Unhealthy(format!(
            "the oldest due entry, of {route}, has waited for {}, which is over {}: {}",
            format_duration(whole_seconds(age)),
            format_duration(max_age),
            relays::hint(route, relays)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::RouteName;

    use super::*;

    fn counts(dead: u64, age: Option<u64>) -> RouteCounts {
        let mut counts = RouteCounts::zero(RouteName::new("orders").unwrap());
        counts.counts.insert(Status::Dead, dead);
        counts.oldest_due_age = age.map(Duration::from_secs);
        counts
    }

    #[test]
    fn dead_or_old_is_unhealthy() {
        let (max_age, none) = (Duration::from_secs(60), SagaCounts::zero());
        assert!(check(&[counts(0, Some(60))], &none, &[], max_age).is_ok());
        assert_eq!(check(&[counts(0, Some(61))], &none, &[], max_age).unwrap_err().exit_code(), 3);
        assert_eq!(check(&[counts(1, None)], &none, &[], max_age).unwrap_err().exit_code(), 3);
    }

    #[test]
    fn the_shape_names_every_status() {
        let json = serde_json::to_string(&RouteJson::from(&counts(2, None))).unwrap();
        assert_eq!(
            json,
            r#"{"route":"orders","pending":0,"in_flight":0,"retrying":0,"delivered":0,"dead":2,"discarded":0,"oldest_due_age_seconds":null}"#
        );
    }
}
