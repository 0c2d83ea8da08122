//! `pillarbox verify`

mod ledger;
mod plan;
mod report;
mod staged;

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use pillarbox_core::port::{Admin, InventoryRequest, InventoryRow};
use pillarbox_core::{AuditKind, ErrorKind, Result as CoreResult, RouteName};
use serde::Serialize;

use crate::context::Context;
use crate::database::{Database, Staging};
use crate::destination::{Destination, Readable};
use crate::fault::Fault;
use crate::output::Progress;

use ledger::{Ledger, Moment, State, Truth};
use plan::Check;
use report::{NotCompared, Report, RouteReport};

/// Rows of the outbox that are read together.
const PAGE: u32 = 5000;
/// How far back a purge is looked for in the audit trail.
const AUDIT_MAX: u32 = 10_000;

const EXAMPLES: &str = "\
It compares the outbox table with the messages at the destination:
  lost          not at the destination, although the table says delivered or has no entry any more
  duplicated    at the destination more than once: delivery is at least once, and the inbox drops the rest
  invented      at the destination, but never staged
  unreadable    at the destination, but not a CloudEvent with a UUID as its id
  out of order  first arrived after a later entry of the same key
Entries that are pending, in flight or retrying count as waiting, not as lost. Dead and discarded entries \
are counted as dead and discarded.

Destinations that can be read: file:PATH, a Redis stream, a JetStream stream with retention by limits, and a \
RabbitMQ stream. A classic queue, a webhook and `stdout:` keep no messages, so they cannot be read.

Retention removes old entries from the table. With --staged FILE, the application's own record is compared \
instead of the table. Each line is {\"route\", \"event_id\", \"key\"?} or a whole line of `stage --ndjson`, \
in the order of commits. If transactions of one key overlap, add staged_at and committed_at to each line: \
whole numbers of a clock that never goes back.

If a configured route cannot be compared, because its destination keeps no messages or cannot be reached, \
the report names it with the reason (not_compared in --json). The other routes are still compared, and the \
exit code is 1. To compare only some routes, name them: --only orders.

Exit codes: 0 all routes are compared and clean, 1 a route could not be compared, 2 usage, 3 something was \
found.

Examples:
  pillarbox verify                                        every configured route
  pillarbox verify --route orders --to file:events.ndjson
  pillarbox verify --only orders --only mails             these two, whatever else is configured
  pillarbox verify --route orders --allow-duplicates --json
  pillarbox verify --route orders --from 'amqp://localhost/%2f?queue=orders-stream'
  pillarbox verify --route orders --from 'nats://localhost/orders.>?stream=ORDERS' --staged committed.ndjson";

/// What to compare.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Only this route; may be given many times [default: every configured route]
    #[arg(long = "route", visible_alias = "only", value_name = "ROUTE")]
    routes: Vec<RouteName>,
    /// The destination of the one --route, instead of its configured one
    #[arg(long, value_name = "URL", requires = "routes")]
    to: Option<Destination>,
    /// What to read for the one --route, if its destination does not name it: file:PATH, amqp(s)://…?queue=,
    /// kafka(s)://…/TOPIC, nats://…/SUBJECT?stream= or redis(s)://…?stream=. MQTT and SQS keep no messages that could be read
    #[arg(long, value_name = "URL", requires = "routes", conflicts_with = "to")]
    from: Option<Readable>,
    /// The events that the application staged, as NDJSON in the order of commits, or - for stdin [default:
    /// the entries in the table]
    #[arg(long, value_name = "FILE")]
    staged: Option<String>,
    /// Assume that no two transactions staged the same key at the same time. The table then gives the order
    /// of all entries of a key, also on PostgreSQL
    #[arg(long, conflicts_with = "staged")]
    serialized: bool,
    /// Whether an entry out of order is a finding: key or none [default: as the route is configured; key if
    /// it is not configured]
    #[arg(long, value_enum, hide_possible_values = true)]
    order: Option<Order>,
    /// Count duplicates, but do not report them as a finding
    #[arg(long)]
    allow_duplicates: bool,
    /// Name at most this many events of each finding
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    limit: u32,
}

/// Whether the entries of one key follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Key,
    None,
}

pub(crate) async fn run(args: &VerifyArgs, context: &Context) -> Result<(), Fault> {
    if args.staged.is_none() && context.config.retention.delivered().is_zero() {
        return Err(Fault::usage(
            "retention.delivered = \"0s\" deletes entries when they are delivered, so the table has no \
             record of the staged events. Give the application's own record with --staged FILE",
        ));
    }
    let (checks, mut not_compared) = plan::checks(args, context)?;
    let mut ledgers: BTreeMap<RouteName, Ledger> =
        checks.iter().map(|check| (check.route.clone(), Ledger::new(Truth::Table))).collect();
    if let Some(file) = &args.staged {
        staged::read(file, &mut ledgers, context.out)?;
    }
    let database = context.open().await?;
    // The table first: what it calls delivered is in the destination by now.
    read_table(args, context, &database, &mut ledgers).await?;
    let mut routes = Vec::with_capacity(checks.len());
    let mut read = Vec::with_capacity(checks.len());
    let mut failed = None;
    for check in &checks {
        let Some(ledger) = ledgers.get_mut(&check.route) else { continue };
        match read_destination(check, ledger, context).await {
            Ok(deleted) => read.push((check, deleted)),
            Err(error) => {
                // It knows half of what is there at most: nothing of it is a finding.
                ledgers.remove(&check.route);
                failed.get_or_insert_with(|| plan::refused(&check.route, &error));
                not_compared.push(plan::not_compared(&check.route, &error));
            }
        }
    }
    if let Some(fault) = failed.filter(|_| read.is_empty()) {
        return Err(fault);
    }
    let was_purged = look_again(context, &database, &mut ledgers).await?;
    database.staging.close().await;
    for (check, deleted) in read {
        if let Some(ledger) = ledgers.get(&check.route) {
            routes.push(RouteReport::new(check, ledger, was_purged, deleted, args.limit));
        }
    }
    tell(args, context, routes, not_compared)
}

/// Takes everything over that the table says.
async fn read_table(
    args: &VerifyArgs,
    context: &Context,
    database: &Database,
    ledgers: &mut BTreeMap<RouteName, Ledger>,
) -> Result<(), Fault> {
    // SQLite has one writer, so seqs grow from commit to commit.
    let in_turn = args.serialized || matches!(database.staging, Staging::Sqlite(..));
    let from_file = args.staged.is_some();
    if !in_turn && !from_file {
        context.out.say(
            "the table gives the order within a transaction, but not between transactions. To check that \
             order too, use --serialized or --staged FILE",
        );
    }
    inventory(&*database.admin, context, "reading the outbox", |row| {
        let Some(ledger) = ledgers.get_mut(&row.route) else { return };
        if from_file {
            return ledger.became(row.event_id, row.status.into());
        }
        let moment = match in_turn {
            true => Moment::in_turn(row.seq),
            // The column has the time at which the transaction began.
            false => Moment::in_transaction(row.created_at.as_micros(), row.seq),
        };
        ledger.stage(row.event_id, row.key.as_deref(), moment, State::from(row.status));
    })
    .await
}

/// Shows each row of the outbox, page by page.
async fn inventory(
    admin: &dyn Admin,
    context: &Context,
    doing: &'static str,
    mut show: impl FnMut(InventoryRow),
) -> Result<(), Fault> {
    let progress = Progress::new(context.out, doing, None);
    let mut after = i64::MIN;
    loop {
        let page = admin.inventory(InventoryRequest { after, limit: PAGE }).await?;
        let rows = u32::try_from(page.len()).unwrap_or(u32::MAX);
        after = page.last().map_or(after, |row| row.seq);
        page.into_iter().for_each(&mut show);
        progress.add(rows.into());
        if rows < PAGE {
            return Ok(());
        }
    }
}

/// Reads all that a destination holds, and says how much of it was deleted.
async fn read_destination(check: &Check, ledger: &mut Ledger, context: &Context) -> CoreResult<u64> {
    match read_pages(check, ledger, context).await {
        // Perhaps nothing was ever delivered; perhaps all of it is lost.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            context.out.warn(format_args!(
                "{}: the destination does not exist: {}",
                check.route,
                error.message()
            ));
            Ok(0)
        }
        read => read,
    }
}

/// Takes everything over that is there, and says how much was deleted.
async fn read_pages(check: &Check, ledger: &mut Ledger, context: &Context) -> CoreResult<u64> {
    let mut pages = check.transcript.open().await?;
    let progress = Progress::new(context.out, "reading the destination", pages.total());
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok(pages.deleted());
        }
        page.iter().for_each(|attributes| ledger.arrive(attributes));
        progress.add(u64::try_from(page.len()).unwrap_or(0));
    }
}

/// Looks at the table again for what is not known: it may have been staged meanwhile, or on another route. Says whether
/// entries have ever been purged.
async fn look_again(
    context: &Context,
    database: &Database,
    ledgers: &mut BTreeMap<RouteName, Ledger>,
) -> Result<bool, Fault> {
    if !ledgers.values().any(Ledger::has_strangers) {
        return Ok(false);
    }
    let mut strange: Vec<_> = ledgers
        .iter_mut()
        .map(|(route, ledger)| {
            let claims = ledger.claims();
            (route, ledger, claims)
        })
        .collect();
    inventory(&*database.admin, context, "looking again", |row| {
        for (route, ledger, claims) in &mut strange {
            ledger.look(&row, **route == row.route, claims);
        }
    })
    .await?;
    let trail = database.admin.audit(AUDIT_MAX).await?;
    Ok(trail.iter().any(|record| record.kind == AuditKind::Purged))
}

fn tell(
    args: &VerifyArgs,
    context: &Context,
    routes: Vec<RouteReport>,
    not_compared: Vec<NotCompared>,
) -> Result<(), Fault> {
    let wrong: Vec<String> = routes
        .iter()
        .filter_map(|route| {
            let wrong = route.wrong(args);
            (!wrong.is_empty()).then(|| format!("{}: {}", route.route, wrong.join(", ")))
        })
        .collect();
    for note in routes.iter().flat_map(RouteReport::notes) {
        context.out.warn(note);
    }
    let report = Report { ok: wrong.is_empty() && not_compared.is_empty(), routes, not_compared };
    match context.out.json {
        true => context.out.json(&report)?,
        false => context.out.data(&report)?,
    }
    let left_out: Vec<_> =
        report.not_compared.iter().map(|one| format!("{}: {}", one.route, one.why)).collect();
    let left_out = left_out.join("; ");
    match (wrong.is_empty(), left_out.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Fault::failed(format!(
            "not compared: {left_out}. The other routes are clean. To compare only these, name them with \
             --only"
        ))),
        (false, true) => Err(Fault::Unhealthy(wrong.join("; "))),
        (false, false) => Err(Fault::Unhealthy(format!("{}; not compared: {left_out}", wrong.join("; ")))),
    }
}
