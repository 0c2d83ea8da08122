//! `pillarbox saga resume ID`

use clap::Args;
use pillarbox_core::SagaId;
use pillarbox_core::port::{Intervention, SagaStory};

use super::intervene::Wish;
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --compensate --dry-run
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --compensate --yes
  pillarbox requeue --route erasures --status dead        the dead steps of many sagas at once

The relay of the saga's route then continues the saga. Exit 1 if the saga does not wait for an operator.";

/// Which saga, and how it is to go on.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResumeArgs {
    /// The saga's id
    #[arg(value_name = "ID")]
    id: SagaId,
    /// Retry its dead steps or compensations with all their attempts and the same keys; this is the default
    #[arg(long, conflicts_with = "compensate")]
    retry: bool,
    /// Give up on the step whose outcome is unknown, and undo everything that may have run, including that
    /// step
    #[arg(long)]
    compensate: bool,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: &ResumeArgs, context: &Context) -> Result<(), Fault> {
    let undone = |story: &SagaStory| {
        let saga = &story.saga;
        format!("the steps of {} of {} that may have run will be undone", saga.name, saga.subject)
    };
    // Whoever names a saga to be tried again means it; nobody takes a compensation back.
    let what = if args.compensate { Intervention::Compensate } else { Intervention::Retry };
    let asks = args.compensate.then_some(&undone as &dyn Fn(&SagaStory) -> String);
    let wish = Wish { id: args.id, what, asks, dry_run: args.dry_run, yes: args.yes };
    super::intervene::run(wish, context).await
}
