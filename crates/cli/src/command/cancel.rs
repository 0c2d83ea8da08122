//! `pillarbox cancel`

use clap::Args;

use super::selection::{SelectionArgs, Verb, change};
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox cancel 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --yes
  pillarbox cancel --route orders --type order.test --dry-run

On a route with order = \"key\", a running relay may already have read the entry. Then pause the route, \
cancel the entry, and resume the route.";

/// Which waiting entries to give up.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    selection: SelectionArgs,
}

pub(crate) async fn run(args: &CancelArgs, context: &Context) -> Result<(), Fault> {
    change(Verb::Cancel, &args.selection, context).await
}
