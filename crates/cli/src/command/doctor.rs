//! `pillarbox doctor`

use std::time::Duration;

use clap::Args;
use pillarbox_core::parse_duration;
use pillarbox_core::port::{Finding, Severity};
use serde::Serialize;

use crate::checkup::{self, Limits};
use crate::config::AdminConfig;
use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, Table};

const EXAMPLES: &str = "\
The doctor looks at the tables, the plans of a relay's queries, indexes, vacuum, open transactions, connections, \
rights, the clock, retention, routes, relays, circuits, sagas and destinations. It changes nothing. Of a \
destination it only looks whether somebody listens.

Exit code 3 means that there is a problem. Warnings alone exit with 0.

Examples:
  pillarbox doctor
  pillarbox doctor --json | jq '.findings[] | select(.severity == \"problem\")'
  pillarbox doctor --quiet || page-the-operator";

/// When a finding is a problem.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The longest wait of a due entry that is no problem [default: max_age of [admin], or 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    max_age: Option<Duration>,
    /// The longest time that a transaction may be open [default: max_transaction_age of [admin], or 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    max_transaction_age: Option<Duration>,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    healthy: bool,
    problems: usize,
    warnings: usize,
    findings: &'a [Finding],
}

pub(crate) async fn run(args: &DoctorArgs, context: &Context) -> Result<(), Fault> {
    let url = context.database_url();
    crate::database::refuse_missing_file(&url)?;
    let database = context.connect().await?;
    let configured = context.config.admin.as_ref().map_or_else(Limits::default, AdminConfig::limits);
    let limits = Limits {
        transaction_age: args.max_transaction_age.unwrap_or(configured.transaction_age),
        due_age: args.max_age.unwrap_or(configured.due_age),
    };
    let examined = checkup::examine(&database, &context.config, limits).await;
    database.staging.close().await;
    let findings = examined?;
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    if context.out.json {
        context.out.json(&ReportJson { healthy: problems == 0, problems, warnings, findings: &findings })?;
    } else {
        context.out.data(table(&findings))?;
    }
    let said = format!(
        "{}, {}, {}",
        counted(problems, "problem"),
        counted(warnings, "warning"),
        counted(findings.len(), "check")
    );
    if problems > 0 {
        return Err(Fault::Unhealthy(said));
    }
    context.out.say(said);
    Ok(())
}

fn counted(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// What is wrong has a second line with what to do.
fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new(&[("", Align::Left), ("check", Align::Left), ("finding", Align::Left)]);
    for finding in findings {
        table.row([finding.severity.as_str().to_owned(), finding.check.to_owned(), finding.reason.clone()]);
        if !finding.next.is_empty() {
            table.row([String::new(), String::new(), format!("→ {}", finding.next)]);
        }
    }
    table
}
