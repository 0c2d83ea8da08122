//! `pillarbox purge`

use std::time::Duration;

use clap::Args;
use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Effect, PurgeRequest};
use pillarbox_core::{format_duration, parse_duration};
use serde::Serialize;

use super::operator;
use super::selection::entries;
use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Progress, confirm};

/// Entries of one deleting transaction: small, so that live traffic is never blocked for long.
const BATCH: u32 = 1000;

const EXAMPLES: &str = "\
A running relay does this by itself. Dead entries are never purged: requeue or discard them \
first.

Examples:
  pillarbox purge --dry-run
  pillarbox purge --older-than 7d --yes";

/// How old is old.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PurgeArgs {
    /// Only what was settled at least this long ago [default: retention.delivered of the configuration, 1d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    /// Only count what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize)]
struct PurgedJson {
    purged: u64,
    dry_run: bool,
    /// A dry run counts so many at most: there may be more.
    at_least: bool,
}

pub(crate) async fn run(args: &PurgeArgs, context: &Context) -> Result<(), Fault> {
    let older_than = args.older_than.unwrap_or(context.config.retention.delivered());
    let request = |limit, effect| PurgeRequest { older_than, limit, actor: operator(), effect, now: None };
    let database = context.open().await?;
    let mut purged = database.admin.purge(request(BATCH_MAX, Effect::DryRun)).await?.purged;
    let mut at_least = purged >= u64::from(BATCH_MAX);
    let count = |purged: u64, at_least: bool| {
        format!("{}{}", if at_least { "at least " } else { "" }, entries(purged, ""))
    };
    if !args.dry_run && purged > 0 {
        let age = format_duration(older_than);
        confirm(
            context.out,
            &format!("{} settled more than {age} ago will be deleted", count(purged, at_least)),
            args.yes,
        )?;
        (purged, at_least) = (0, false);
        let progress = Progress::new(context.out, "purging", None);
        loop {
            let batch = database.admin.purge(request(BATCH, Effect::Apply)).await?.purged;
            purged += batch;
            progress.add(batch);
            if batch < u64::from(BATCH) {
                break;
            }
        }
    }
    database.staging.close().await;
    if context.out.json {
        return context.out.json(&PurgedJson { purged, dry_run: args.dry_run, at_least });
    }
    let verb = if args.dry_run { "would be deleted" } else { "deleted" };
    context.out.data(format_args!("{} {verb}", count(purged, at_least)))
}
