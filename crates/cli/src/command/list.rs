//! `pillarbox list`

use clap::{Args, ValueEnum};
use pillarbox_core::Entry;
use pillarbox_core::limits::LIST_DEFAULT;
use pillarbox_core::port::{CountBy, CountByRequest, Filter};
use serde::Serialize;

use super::meant::FilterArgs;
use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;
use crate::output::{Align, EntryJson, Table, shortened};

const EXAMPLES: &str = "\
Examples:
  pillarbox list --status dead
  pillarbox list --status dead --count-by error
  pillarbox list --status blocked --route orders
  pillarbox list --limit 1000 --after 52817
  pillarbox list --route orders --key o-1 --json | jq .payload";

/// Which entries.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many entries, oldest first; up to 10000. With --count-by: at most this many groups,
    /// largest first
    #[arg(long, value_name = "N", default_value_t = LIST_DEFAULT)]
    limit: u32,
    /// Continue after the entry with this seq, the last one of the previous page
    #[arg(long, value_name = "SEQ")]
    after: Option<i64>,
    /// Count the entries by this field instead of listing them
    #[arg(long, value_name = "FIELD")]
    count_by: Option<Field>,
}

/// The fields that entries are counted by.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Field {
    Type,
    Error,
    Key,
    Tenant,
}

impl From<Field> for CountBy {
    fn from(field: Field) -> Self {
        match field {
            Field::Type => Self::Type,
            Field::Error => Self::Error,
            Field::Key => Self::Key,
            Field::Tenant => Self::Tenant,
        }
    }
}

#[derive(Serialize)]
struct GroupJson<'a> {
    value: &'a Option<String>,
    entries: u64,
}

pub(crate) async fn run(args: ListArgs, context: &Context) -> Result<(), Fault> {
    let mut filter = args.filter.filter().limit(args.limit);
    filter.after = args.after;
    filter.check()?;
    let database = context.open().await?;
    if let Some(by) = args.count_by {
        return count(by.into(), filter, database, context).await;
    }
    let entries = database.admin.list(filter).await?;
    database.staging.close().await;
    if context.out.json {
        return entries.iter().try_for_each(|entry| context.out.json(&EntryJson::from(entry)));
    }
    let Some(last) = entries.last() else {
        context.out.say("no entries match");
        return Ok(());
    };
    context.out.data(table(&entries))?;
    if entries.len() >= args.limit as usize {
        context.out.say(format_args!(
            "these are the first {}. Show more with --limit N, or the next ones with --after {}",
            args.limit, last.seq
        ));
    }
    Ok(())
}

async fn count(by: CountBy, filter: Filter, database: Database, context: &Context) -> Result<(), Fault> {
    let groups = database.admin.count_by(CountByRequest { filter, by }).await?;
    database.staging.close().await;
    if context.out.json {
        let json = groups.iter().map(|group| GroupJson { value: &group.value, entries: group.entries });
        return json.into_iter().try_for_each(|group| context.out.json(&group));
    }
    let mut table = Table::new(&[(by.as_str(), Align::Left), ("entries", Align::Right)]);
    for group in &groups {
        table.row([group.value.clone().unwrap_or_else(|| "-".to_owned()), group.entries.to_string()]);
    }
    context.out.data(table)
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
        let why = match (entry.blocked_by, &entry.last_error) {
            (Some(head), _) => format!("waits for dead entry {head}"),
            (None, error) => error.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        table.row([
            entry.event_id.to_string(),
            entry.route.to_string(),
            entry.event_type.clone(),
            entry.key.clone().unwrap_or_default(),
            entry.standing().to_string(),
            entry.attempts.to_string(),
            entry.created_at.to_string(),
            shortened(&why, 60),
        ]);
    }
    table
}
