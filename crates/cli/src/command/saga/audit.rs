//! `pillarbox saga audit KIND/VALUE`

use clap::Args;
use pillarbox_core::{AuditRecord, Reference};

use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  pillarbox saga audit person/p-7
  pillarbox saga audit person/p-7 --json | jq 'select(.kind == \"completed\") | .at'";

/// Of whom or what.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// The subject of the sagas
    #[arg(value_name = "KIND/VALUE", value_parser = super::subject)]
    subject: Reference,
}

pub(crate) async fn run(args: &AuditArgs, context: &Context) -> Result<(), Fault> {
    let database = context.open().await?;
    let records = database.sagas.audit_of(&args.subject).await?;
    database.staging.close().await;
    if context.out.json {
        return records.iter().try_for_each(|record| context.out.json(record));
    }
    if records.is_empty() {
        context.out.say(format_args!("there is no audit record of {}", args.subject));
        return Ok(());
    }
    context.out.data(table(&records))
}

fn table(records: &[AuditRecord]) -> Table {
    let mut table = Table::new(&[
        ("seq", Align::Right),
        ("when", Align::Left),
        ("saga", Align::Left),
        ("what", Align::Left),
        ("step", Align::Left),
        ("by", Align::Left),
        ("detail", Align::Left),
    ]);
    for record in records {
        table.row([
            record.seq.to_string(),
            record.at.to_string(),
            record.saga_id.map(|id| id.to_string()).unwrap_or_default(),
            record.kind.to_string(),
            record.step.clone().unwrap_or_default(),
            record.actor.clone(),
            record.detail.clone(),
        ]);
    }
    table
}
