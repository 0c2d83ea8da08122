//! `pillarbox saga abandon ID --reason TEXT`

use clap::Args;
use pillarbox_core::SagaId;
use pillarbox_core::port::{Intervention, SagaStory};

use super::intervene::Wish;
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox saga abandon 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --reason 'settled by phone' --dry-run
  pillarbox saga abandon 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --reason 'settled by phone' --yes

Works in every state until the saga has ended. Its open entries are discarded. Nothing is undone, and the \
application's callback is not called. A handler that is running now may still take effect. Exit 1 if the \
saga has already ended.";

/// Which saga, and why.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AbandonArgs {
    /// The saga's id
    #[arg(value_name = "ID")]
    id: SagaId,
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

pub(crate) async fn run(args: AbandonArgs, context: &Context) -> Result<(), Fault> {
    let asks = |story: &SagaStory| {
        let saga = &story.saga;
        format!("{} of {} will end as it is, and nothing will be undone", saga.name, saga.subject)
    };
    let what = Intervention::Abandon { reason: args.reason };
    let wish = Wish { id: args.id, what, asks: Some(&asks), dry_run: args.dry_run, yes: args.yes };
    super::intervene::run(wish, context).await
}
