//! `pillarbox retry`

use clap::Args;

use super::selection::{SelectionArgs, Verb, change};
use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox retry 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox retry --route orders --status retrying --rate 100 --yes";

/// Which waiting entries to try now.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    selection: SelectionArgs,
}

pub(crate) async fn run(args: &RetryArgs, context: &Context) -> Result<(), Fault> {
    change(Verb::Retry, &args.selection, context).await
}
