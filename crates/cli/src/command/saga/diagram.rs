//! `pillarbox saga diagram ID`

use clap::Args;
use pillarbox_core::SagaId;
use serde::Serialize;

use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox saga diagram 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e > saga.mmd
  pillarbox saga diagram 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --json | jq -r .mermaid";

/// Which saga.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiagramArgs {
    /// The saga's id
    #[arg(value_name = "ID")]
    id: SagaId,
}

#[derive(Serialize)]
struct DiagramJson {
    id: SagaId,
    mermaid: String,
}

pub(crate) async fn run(args: &DiagramArgs, context: &Context) -> Result<(), Fault> {
    let database = context.open().await?;
    let story = super::story(&database, args.id).await;
    database.staging.close().await;
    let mermaid = story?.saga.mermaid();
    if context.out.json {
        return context.out.json(&DiagramJson { id: args.id, mermaid });
    }
    context.out.data(mermaid.trim_end())
}
