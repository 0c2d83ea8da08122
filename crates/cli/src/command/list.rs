//! `pillarbox list`

use clap::Args;
use pillarbox_core::limits::LIST_DEFAULT;
use pillarbox_core::port::Filter;
use pillarbox_core::{Entry, RouteName, Status};

use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, EntryJson, Table, shortened};

const EXAMPLES: &str = "\
Examples:
  pillarbox list --status dead
  pillarbox list --route orders --key o-1 --json | jq .payload";

/// Which entries.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only this status: pending, in_flight, retrying, delivered, dead or discarded [default: any]
    #[arg(long)]
    status: Option<Status>,
    /// Only this route [default: any]
    #[arg(long)]
    route: Option<RouteName>,
    /// Only this event type [default: any]
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only this key [default: any]
    #[arg(long)]
    key: Option<String>,
    /// At most this many, oldest first; up to 10000
    #[arg(long, value_name = "N", default_value_t = LIST_DEFAULT)]
    limit: u32,
}

pub(crate) async fn run(args: ListArgs, context: &Context) -> Result<(), Fault> {
    let mut filter = Filter::default().limit(args.limit);
    filter.status = args.status;
    filter.route = args.route;
    filter.event_type = args.event_type;
    filter.key = args.key;
    filter.check()?;
    let database = context.open().await?;
    let entries = database.admin.list(filter).await?;
    database.staging.close().await;
    if context.out.json {
        return entries.iter().try_for_each(|entry| context.out.json(&EntryJson::from(entry)));
    }
    if entries.is_empty() {
        context.out.say("no entries match");
        return Ok(());
    }
    context.out.data(table(&entries))?;
    if entries.len() >= args.limit as usize {
        context.out.say(format_args!("the first {}; --limit N shows more", args.limit));
    }
    Ok(())
}

fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new(&[
        ("event id", Align::Left),
        ("route", Align::Left),
        ("type", Align::Left),
        ("key", Align::Left),
        ("status", Align::Left),
        ("attempts", Align::Right),
        ("staged", Align::Left),
        ("last error", Align::Left),
    ]);
    for entry in entries {
        let error = entry.last_error.as_ref().map(ToString::to_string).unwrap_or_default();
        table.row([
            entry.event_id.to_string(),
            entry.route.to_string(),
            entry.event_type.clone(),
            entry.key.clone().unwrap_or_default(),
            entry.status.to_string(),
            entry.attempts.to_string(),
            entry.created_at.to_string(),
            shortened(&error, 60),
        ]);
    }
    table
}
