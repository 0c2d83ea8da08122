//! `pillarbox discard`

use clap::Args;

use super::selection::{SelectionArgs, Verb, change};
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox discard 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --yes
  pillarbox discard --route orders --type order.test --dry-run
  pillarbox discard --route orders --status dead --yes";

/// Which dead entries to give up for good.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    selection: SelectionArgs,
}

pub(crate) async fn run(args: &DiscardArgs, context: &Context) -> Result<(), Fault> {
    change(Verb::Discard, &args.selection, context).await
}
