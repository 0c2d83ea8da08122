//! `pillarbox migrate [--plan] [--create-schema]`

use clap::Args;
use pillarbox_core::redact_url;
use serde::Serialize;

use crate::context::Context;
use crate::database::{Database, DatabaseOptions};
use crate::fault::Fault;

const EXAMPLES: &str = "\
On PostgreSQL the tables are in the schema that the configuration names (database.schema), or in public. If \
that schema does not exist, its name may be misspelt, so it is only created with --create-schema.

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
    /// Create the schema of the configuration if it does not exist (PostgreSQL)
    #[arg(long)]
    create_schema: bool,
}

#[derive(Serialize)]
struct MigratedJson {
    from: u32,
    to: u32,
    database: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
}

#[derive(Serialize)]
struct PlanJson {
    sql: String,
}

pub(crate) async fn run(args: &MigrateArgs, context: &Context) -> Result<(), Fault> {
    let options = DatabaseOptions { create_schema: args.create_schema, ..context.database_options() };
    let place = options.place(&context.database_url());
    let database = match args.plan {
        true => context.connect_to_look(options).await?,
        false => context.connect_with(options).await?,
    };
    let result =
        if args.plan { plan(context, &database).await } else { migrate(context, &database, &place).await };
    let result = result.map_err(|fault| fault.context(&place));
    database.staging.close().await;
    result
}

async fn plan(context: &Context, database: &Database) -> Result<(), Fault> {
    let sql = database.schema.plan().await?;
    if context.out.json {
        return context.out.json(&PlanJson { sql });
    }
    if sql.trim().is_empty() {
        context.out.say("nothing to do: the tables already have the version that this program needs");
        return Ok(());
    }
    context.out.data(sql.trim_end())
}

async fn migrate(context: &Context, database: &Database, place: &str) -> Result<(), Fault> {
    let migrated = database.schema.migrate().await?;
    // Whatever a migration cannot mend is said now, not by the next command.
    database.schema.inspect().await?.check()?;
    if context.out.json {
        let url = context.database_url();
        let schema = context.database_options().schema_at(&url);
        let (from, to) = (migrated.from, migrated.to);
        return context.out.json(&MigratedJson { from, to, database: redact_url(&url), schema });
    }
    context.out.data(match (migrated.from, migrated.to) {
        (0, to) => format!("created the tables in {place}, version {to}"),
        (from, to) if from == to => format!("the tables in {place} have version {to} already"),
        (from, to) => format!("upgraded the tables in {place} from version {from} to {to}"),
    })
}
