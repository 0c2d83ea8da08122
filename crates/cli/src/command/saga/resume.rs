//! `pillarbox saga resume ID`

use clap::Args;
use pillarbox_core::port::{Clock, ResumeHow, ResumeRequest, Resumed, SagaStory};
use pillarbox_core::{Error, ErrorKind, SagaId, SagaStatus, SagaWork, StepSeen};
use pillarbox_host::SystemClock;
use serde::Serialize;

use crate::command::operator;
use crate::command::selection::entries;
use crate::context::Context;
use crate::fault::Fault;
use crate::output::confirm;

const EXAMPLES: &str = "\
Examples:
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --compensate --dry-run
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --compensate --yes
  pillarbox requeue --route erasures --status dead        the dead steps of many sagas at once

The relay that runs the saga's route goes on from there. Exit 1 when the saga does not wait for anybody.";

/// Which saga, and how it is to go on.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResumeArgs {
    /// The saga's id
    #[arg(value_name = "ID")]
    id: SagaId,
    /// Try its dead steps or compensations again, with a fresh budget and the same keys; this is the default
    #[arg(long, conflicts_with = "compensate")]
    retry: bool,
    /// Give the step up whose outcome is unknown, and undo what may have run, that step included
    #[arg(long)]
    compensate: bool,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize)]
struct ResumedJson {
    saga: SagaId,
    status: SagaStatus,
    requeued: u64,
    dry_run: bool,
}

pub(crate) async fn run(args: &ResumeArgs, context: &Context) -> Result<(), Fault> {
    let how = if args.compensate { ResumeHow::Compensate } else { ResumeHow::Retry };
    let database = context.open().await?;
    let story = super::story(&database, args.id).await?;
    let mut resumed = plan(&story, how)?;
    if !args.dry_run {
        // Whoever names a saga to be tried again means it; nobody takes a compensation back.
        if how == ResumeHow::Compensate {
            let saga = &story.saga;
            let what = format!("{} of {} will be undone as far as it may have run", saga.name, saga.subject);
            confirm(context.out, &what, args.yes)?;
        }
        let request = ResumeRequest { id: args.id, how, actor: operator(), now: None };
        resumed = database.sagas.resume_saga(request).await.map_err(refused)?;
    }
    database.staging.close().await;
    tell(args, context, resumed)
}

/// What would come of it: the same decision that the store takes, on what was read.
fn plan(story: &SagaStory, how: ResumeHow) -> Result<Resumed, Fault> {
    let seen = story.entries.iter().map(|entry| StepSeen {
        held: entry.held(),
        event_id: entry.event_id,
        status: entry.status,
        attempts: entry.attempts,
        last_error: entry.last_error.clone(),
    });
    let work =
        SagaWork::resume(story.saga.clone(), seen.collect(), how, SystemClock.now()).map_err(refused)?;
    Ok(Resumed { status: work.saga.status, requeued: work.requeued() })
}

// Not a wrong command line: the saga is elsewhere than the operator thought.
fn refused(error: Error) -> Fault {
    match error.kind() {
        ErrorKind::Invalid => Fault::failed(error.to_string()),
        _ => error.into(),
    }
}

fn tell(args: &ResumeArgs, context: &Context, resumed: Resumed) -> Result<(), Fault> {
    let Resumed { status, requeued } = resumed;
    if context.out.json {
        return context.out.json(&ResumedJson { saga: args.id, status, requeued, dry_run: args.dry_run });
    }
    let is = if args.dry_run { "would be" } else { "is" };
    let again = if requeued == 0 { String::new() } else { format!(", {} requeued", entries(requeued, "")) };
    context.out.data(format_args!("saga {} {is} {status}{again}", args.id))
}
