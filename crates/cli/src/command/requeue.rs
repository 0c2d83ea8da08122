//! `pillarbox requeue`

use clap::Args;

use super::selection::{SelectionArgs, Verb, change};
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox requeue 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox requeue --route orders --status dead --dry-run
  pillarbox requeue --route orders --status dead --yes

If dead steps of a saga are requeued, the saga continues, as with `pillarbox saga resume`.";

/// Which dead entries to try again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    selection: SelectionArgs,
}

pub(crate) async fn run(args: &RequeueArgs, context: &Context) -> Result<(), Fault> {
    change(Verb::Requeue, &args.selection, context).await
}
