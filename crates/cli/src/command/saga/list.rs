//! `pillarbox saga list`

use clap::Args;
use pillarbox_core::limits::LIST_DEFAULT;
use pillarbox_core::port::{SagaCursor, SagaFilter};
use pillarbox_core::{Reference, SagaRecord, SagaStatus, StepState};
use serde::Serialize;

use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, Table, shortened};

const EXAMPLES: &str = "\
Examples:
  pillarbox saga list --status blocked
  pillarbox saga list --name erase_person --subject person/p-7
  pillarbox saga list --limit 1000 --after 1763171696123456-0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox saga list --status compensation_failed --json | jq -r .id";

/// Which sagas.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only this status: running, blocked, compensating, compensation_failed, completed,
    /// compensated or abandoned [default: any]
    #[arg(long)]
    status: Option<SagaStatus>,
    /// Only sagas of this name [default: any]
    #[arg(long)]
    name: Option<String>,
    /// Only this subject [default: any]
    #[arg(long, value_name = "KIND/VALUE", value_parser = super::subject)]
    subject: Option<Reference>,
    /// At most this many, oldest first; up to 10000
    #[arg(long, value_name = "N", default_value_t = LIST_DEFAULT)]
    limit: u32,
    /// Continue after the saga with this cursor, the last one of the previous page
    #[arg(long, value_name = "CURSOR")]
    after: Option<SagaCursor>,
}

/// A saga with what --after takes to continue behind it.
#[derive(Serialize)]
struct SagaJson<'a> {
    #[serde(flatten)]
    saga: &'a SagaRecord,
    cursor: String,
}

impl<'a> From<&'a SagaRecord> for SagaJson<'a> {
    fn from(saga: &'a SagaRecord) -> Self {
        Self { saga, cursor: saga.cursor().to_string() }
    }
}

pub(crate) async fn run(args: ListArgs, context: &Context) -> Result<(), Fault> {
    let mut filter = SagaFilter::default().limit(args.limit);
    filter.status = args.status;
    filter.name = args.name;
    filter.subject = args.subject;
    filter.after = args.after;
    filter.check()?;
    let database = context.open().await?;
    let sagas = database.sagas.list_sagas(filter).await?;
    database.staging.close().await;
    if context.out.json {
        return sagas.iter().try_for_each(|saga| context.out.json(&SagaJson::from(saga)));
    }
    let Some(last) = sagas.last() else {
        context.out.say("no sagas match");
        return Ok(());
    };
    context.out.data(table(&sagas))?;
    if sagas.len() >= args.limit as usize {
        context.out.say(format_args!(
            "these are the first {}. Show more with --limit N, or the next ones with --after {}",
            args.limit,
            last.cursor()
        ));
    }
    Ok(())
}

fn table(sagas: &[SagaRecord]) -> Table {
    let mut table = Table::new(&[
        ("saga", Align::Left),
        ("name", Align::Left),
        ("subject", Align::Left),
        ("generation", Align::Right),
        ("status", Align::Left),
        ("done", Align::Right),
        ("at", Align::Left),
        ("staged", Align::Left),
        ("last error", Align::Left),
    ]);
    for saga in sagas {
        let done = saga.steps.iter().filter(|step| step.state == StepState::Done).count();
        let error = saga.steps.iter().rev().find_map(|step| step.error.clone()).unwrap_or_default();
        table.row([
            saga.id.to_string(),
            saga.name.clone(),
            saga.subject.to_string(),
            saga.generation.to_string(),
            saga.status.to_string(),
            format!("{done}/{}", saga.steps.len()),
            under_way(saga),
            saga.created_at.to_string(),
            shortened(&error, 60),
        ]);
    }
    table
}

/// The steps that something is still to become of.
fn under_way(saga: &SagaRecord) -> String {
    let moving = |state| {
        !matches!(
            state,
            StepState::Waiting
                | StepState::Done
                | StepState::Failed
                | StepState::Undoing
                | StepState::Compensated
                | StepState::Skipped
        )
    };
    let steps = saga.steps.iter().filter(|step| moving(step.state));
    steps.map(|step| step.name.as_str()).collect::<Vec<_>>().join(", ")
}
