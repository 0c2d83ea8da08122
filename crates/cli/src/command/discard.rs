//! `pillarbox discard`

use clap::Args;

use super::selection::{OpenSagas, SelectionArgs, Verb, change};
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox discard 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --yes
  pillarbox discard --route orders --type order.test --dry-run
  pillarbox discard --route orders --status dead --yes
  pillarbox discard --route erasures --status dead --sagas --dry-run

Without its dead step a saga could never end, so steps of sagas that have not ended are refused. Retry them \
with `pillarbox requeue` or `pillarbox saga resume`, or skip them with `pillarbox saga skip`. With --sagas, \
their sagas are abandoned.";

/// Which dead entries to give up for good.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// If the entries are steps of sagas that have not ended, abandon these sagas: they end as they are, and
    /// nothing is undone
    #[arg(long)]
    sagas: bool,
}

pub(crate) async fn run(args: &DiscardArgs, context: &Context) -> Result<(), Fault> {
    let sagas = if args.sagas { OpenSagas::Abandon } else { OpenSagas::Refuse };
    change(Verb::Discard(sagas), &args.selection, context).await
}
