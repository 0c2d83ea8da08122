//! `pillarbox saga skip ID STEP --reason TEXT`

use clap::Args;
use pillarbox_core::SagaId;
use pillarbox_core::port::{Intervention, SagaStory};

use super::intervene::Wish;
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox saga skip 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e mail --reason 'sent by hand'
  pillarbox saga skip 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e mail --reason 'sent by hand' --dry-run

Only a dead or abandoned step that cannot be undone can be skipped: a step of a group, or a step after the \
pivot. The relay that has the saga's handlers then runs the next step or completes the saga. Exit 1 if the \
step cannot be skipped.";

/// Which step of which saga, and why.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SkipArgs {
    /// The saga's id
    #[arg(value_name = "ID")]
    id: SagaId,
    /// The step's name
    #[arg(value_name = "STEP")]
    step: String,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: SkipArgs, context: &Context) -> Result<(), Fault> {
    let step = args.step.clone();
    let asks = move |story: &SagaStory| {
        format!("{} of {} will continue without its step {step}", story.saga.name, story.saga.subject)
    };
    let what = Intervention::Skip { step: args.step, reason: args.reason };
    let wish = Wish { id: args.id, what, asks: Some(&asks), dry_run: args.dry_run, yes: args.yes };
    super::intervene::run(wish, context).await
}
