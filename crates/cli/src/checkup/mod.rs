//! Examining a database and its destinations: all of it for `doctor`, the quick part when a relay starts.

mod order;

use std::time::Duration;

use futures_util::future::join_all;
use pillarbox_core::port::{Clock, Depth, Finding, RouteCounts};
use pillarbox_core::{Facts, Result, RouteName, RoutePolicy, diagnose, sort_findings};
use pillarbox_host::SystemClock;

use crate::config::{Config, RouteConfig};
use crate::database::Database;
use crate::destination::reach;

/// What is still no problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The age of an open transaction.
    pub(crate) transaction_age: Duration,
    /// The wait of a due entry.
    pub(crate) due_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { transaction_age: Duration::from_secs(300), due_age: Duration::from_secs(300) }
    }
}

/// The whole examination.
///
/// # Errors
/// When the tables or the counts cannot be read at all. A single check that fails is a finding.
pub(crate) async fn examine(database: &Database, config: &Config, limits: Limits) -> Result<Vec<Finding>> {
    let schema = database.schema.inspect().await?;
    if schema.check().is_err() {
        // Nothing else can be asked of tables that are not there.
        let facts = facts_without_tables(database, config, limits, schema).await?;
        return Ok(diagnose(&facts).into_iter().filter(|finding| finding.check != "routes").collect());
    }
    let mut facts = facts_without_tables(database, config, limits, schema).await?;
    let mut findings = Vec::new();
    match database.doctor.transactions(limits.transaction_age).await {
        Ok(open) => facts.transactions = Some(open),
        Err(error) => findings.push(Finding::unmade("transactions", &error)),
    }
    match database.doctor.connections().await {
        Ok(connections) => facts.connections = connections,
        Err(error) => findings.push(Finding::unmade("connections", &error)),
    }
    facts.routes = database.admin.counts(None).await?;
    for route in config.routes.keys() {
        if !facts.routes.iter().any(|counts| counts.route == *route) {
            facts.routes.push(RouteCounts::zero(route.clone()));
        }
    }
    facts.sagas = database.sagas.saga_counts(None).await?;
    facts.relays = database.presence.relays(None).await?;
    findings.extend(diagnose(&facts));
    findings.extend(of_database(database, Depth::Full).await);
    let ordered = order::examine(&*database.admin, config.routes.iter()).await;
    findings.extend(Finding::made("order", ordered));
    findings.extend(destinations(config.routes.iter()).await);
    sort_findings(&mut findings);
    Ok(findings)
}

/// What a relay tells when it starts: rights, pooler, clock, connections and destinations.
pub(crate) async fn at_start(
    database: &Database,
    config: &Config,
    routes: impl IntoIterator<Item = (&RouteName, &RouteConfig)>,
) -> Vec<Finding> {
    let limits = Limits { transaction_age: Duration::MAX, due_age: Duration::MAX };
    let ready = pillarbox_core::port::SchemaState::Ready { warnings: Vec::new() };
    let mut findings = Vec::new();
    match facts_without_tables(database, config, limits, ready).await {
        Ok(mut facts) => {
            facts.connections = database.doctor.connections().await.ok().flatten();
            let told = ["clock", "connections", "retention"];
            findings.extend(diagnose(&facts).into_iter().filter(|finding| told.contains(&finding.check)));
        }
        Err(error) => findings.push(Finding::unmade("clock", &error)),
    }
    findings.extend(of_database(database, Depth::Start).await);
    findings.extend(destinations(routes).await);
    sort_findings(&mut findings);
    findings
}

async fn facts_without_tables(
    database: &Database,
    config: &Config,
    limits: Limits,
    schema: pillarbox_core::port::SchemaState,
) -> Result<Facts> {
    // The answer was made at some moment of the round trip. The moment that fits best is taken, so that a slow
    // network or a busy server is not taken for a wrong clock.
    let before = SystemClock.now();
    let there = database.doctor.now().await?;
    let here = there.clamp(before, SystemClock.now().max(before));
    let delivered = config.retention.delivered();
    let policy = |(route, config): (&RouteName, &RouteConfig)| {
        let options = config.options(delivered);
        RoutePolicy {
            route: route.clone(),
            max_attempts: options.max_attempts,
            backoff: options.backoff,
            lease: options.lease,
        }
    };
    Ok(Facts {
        schema,
        clocks: (there, here),
        connections: None,
        transactions: None,
        routes: Vec::new(),
        sagas: pillarbox_core::port::SagaCounts::zero(),
        relays: Vec::new(),
        configured: config.routes.iter().map(policy).collect(),
        inbox_retention: config.retention.inbox(),
        due_age_max: limits.due_age,
    })
}

async fn of_database(database: &Database, depth: Depth) -> Vec<Finding> {
    Finding::made("database", database.doctor.examine(depth).await)
}

async fn destinations(routes: impl IntoIterator<Item = (&RouteName, &RouteConfig)>) -> Vec<Finding> {
    let looks = routes.into_iter().map(|(route, config)| async move {
        let to = &config.to;
        let finding = match reach(to).await? {
            Ok(()) => Finding::ok("destination", format!("{to} answers")),
            Err(why) => Finding::problem(
                "destination",
                format!("the destination {to} of route {route} cannot be reached: {why}"),
                "Entries wait until it answers, and no attempt is spent. Start the destination, or correct its \
                 address.",
            ),
        };
        Some(finding.of(route))
    });
    join_all(looks).await.into_iter().flatten().collect()
}
