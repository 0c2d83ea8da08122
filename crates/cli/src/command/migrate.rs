//! `pillarbox migrate [--plan]`

use clap::Args;
use pillarbox_core::redact_url;
use serde::Serialize;

use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox migrate                                       in ./pillarbox.db
  pillarbox migrate --plan > tables.sql                   for your own migrations
  DATABASE_URL=postgres://app@db/shop pillarbox migrate";

/// How to create or upgrade the tables.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MigrateArgs {
    /// Print the SQL that would run, and change nothing
    #[arg(long)]
    plan: bool,
}

#[derive(Serialize)]
struct MigratedJson {
    from: u32,
    to: u32,
}

#[derive(Serialize)]
struct PlanJson {
    sql: String,
}

pub(crate) async fn run(args: &MigrateArgs, context: &Context) -> Result<(), Fault> {
    let database = if args.plan { context.connect_to_look().await? } else { context.connect().await? };
    let result = if args.plan { plan(context, &database).await } else { migrate(context, &database).await };
    database.staging.close().await;
    result
}

async fn plan(context: &Context, database: &Database) -> Result<(), Fault> {
    let sql = database.schema.plan().await?;
    if context.out.json {
        return context.out.json(&PlanJson { sql });
    }
    if sql.trim().is_empty() {
        context.out.say("nothing to do: the tables are as this version needs them");
        return Ok(());
    }
    context.out.data(sql.trim_end())
}

async fn migrate(context: &Context, database: &Database) -> Result<(), Fault> {
    let migrated = database.schema.migrate().await?;
    // Whatever a migration cannot mend is said now, not by the next command.
    database.schema.inspect().await?.check()?;
    if context.out.json {
        return context.out.json(&MigratedJson { from: migrated.from, to: migrated.to });
    }
    let url = redact_url(&context.database_url());
    context.out.data(match (migrated.from, migrated.to) {
        (0, to) => format!("created the tables in {url}, version {to}"),
        (from, to) if from == to => format!("the tables in {url} have version {to} already"),
        (from, to) => format!("upgraded the tables in {url} from version {from} to {to}"),
    })
}
