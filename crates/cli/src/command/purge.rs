//! `pillarbox purge`

use std::fmt;
use std::time::Duration;

use clap::Args;
use futures_util::future::BoxFuture;
use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};
use pillarbox_core::{Result as CoreResult, format_duration, parse_duration};
use serde::Serialize;

use super::selection::entries;
use crate::context::{Context, operator};
use crate::fault::Fault;
use crate::output::{Progress, confirm};

/// Entries, rows or sagas of one deleting transaction: small, so that live traffic is never blocked for long.
const BATCH: u32 = 1000;

const EXAMPLES: &str = "\
A running relay does this by itself. Dead entries are never purged: requeue or discard them first. If an \
event arrives again after its inbox row was purged, it is applied again. Sagas that have not ended and audit \
records are kept.

Examples:
  pillarbox purge --dry-run
  pillarbox purge --older-than 7d --yes
  pillarbox purge --inbox-older-than 90d --yes
  pillarbox purge --sagas-older-than 365d --yes";

/// How old is old.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PurgeArgs {
    /// Only entries that were settled at least this long ago [default: retention.delivered of the configuration, 1d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    /// Only rows of the inbox that were accepted at least this long ago [default: retention.inbox of the
    /// configuration, 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    inbox_older_than: Option<Duration>,
    /// Only sagas that completed or were compensated at least this long ago [default: retention.sagas of the
    /// configuration, 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    sagas_older_than: Option<Duration>,
    /// Only count the rows that would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize)]
struct PurgedJson {
    purged: u64,
    inbox_purged: u64,
    sagas_purged: u64,
    dry_run: bool,
    /// A dry run counts so many at most: there may be more.
    at_least: bool,
}

/// What is, or would be, deleted.
#[derive(Clone, Copy)]
struct Count {
    entries: u64,
    rows: u64,
    sagas: u64,
    at_least: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.at_least { "at least " } else { "" };
        let s = |number| if number == 1 { "" } else { "s" };
        let (entries, rows, sagas) = (entries(self.entries, ""), self.rows, self.sagas);
        write!(f, "{at_least}{entries}, {rows} row{} of the inbox and {sagas} saga{}", s(rows), s(sagas))
    }
}

pub(crate) async fn run(args: &PurgeArgs, context: &Context) -> Result<(), Fault> {
    let retention = &context.config.retention;
    let settled = args.older_than.unwrap_or(retention.delivered());
    let accepted = args.inbox_older_than.unwrap_or(retention.inbox());
    let ended = args.sagas_older_than.unwrap_or(retention.sagas());
    let database = context.open().await?;
    let (admin, sagas) = (&*database.admin, &*database.sagas);
    let most = |older_than| request(older_than, BATCH_MAX, Effect::DryRun);
    let mut count = Count {
        entries: admin.purge(most(settled)).await?.purged,
        rows: admin.purge_inbox(most(accepted)).await?.purged,
        sagas: sagas.purge_sagas(most(ended)).await?.purged,
        at_least: false,
    };
    count.at_least = count.entries.max(count.rows).max(count.sagas) >= u64::from(BATCH_MAX);
    if !args.dry_run && count.entries + count.rows + count.sagas > 0 {
        let [settled_for, accepted_for, ended_for] = [settled, accepted, ended].map(format_duration);
        confirm(
            context.out,
            &format!(
                "{count}, settled more than {settled_for} ago, accepted more than {accepted_for} ago and ended \
                 more than {ended_for} ago, will be deleted"
            ),
            args.yes,
        )?;
        let progress = Progress::new(context.out, "purging", None);
        count = Count {
            entries: batches(settled, &progress, |request| admin.purge(request)).await?,
            rows: batches(accepted, &progress, |request| admin.purge_inbox(request)).await?,
            sagas: batches(ended, &progress, |request| sagas.purge_sagas(request)).await?,
            at_least: false,
        };
    }
    database.staging.close().await;
    if context.out.json {
        let Count { entries: purged, rows: inbox_purged, sagas: sagas_purged, at_least } = count;
        let dry_run = args.dry_run;
        return context.out.json(&PurgedJson { purged, inbox_purged, sagas_purged, dry_run, at_least });
    }
    let verb = if args.dry_run { "would be deleted" } else { "deleted" };
    context.out.data(format_args!("{count} {verb}"))
}

fn request(older_than: Duration, limit: u32, effect: Effect) -> PurgeRequest {
    PurgeRequest { older_than, limit, actor: operator(), effect, now: None }
}

/// Purges batch by batch until one is not full.
async fn batches<'a>(
    older_than: Duration,
    progress: &Progress,
    purge: impl Fn(PurgeRequest) -> BoxFuture<'a, CoreResult<Purged>>,
) -> Result<u64, Fault> {
    let mut purged = 0;
    loop {
        let batch = purge(request(older_than, BATCH, Effect::Apply)).await?.purged;
        purged += batch;
        progress.add(batch);
        if batch < u64::from(BATCH) {
            return Ok(purged);
        }
    }
}
