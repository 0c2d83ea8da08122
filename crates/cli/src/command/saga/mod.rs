//! `pillarbox saga list|show|resume|skip|abandon|audit|diagram`

mod abandon;
mod advice;
mod audit;
mod diagram;
mod intervene;
mod list;
mod resume;
mod show;
mod skip;

use clap::Subcommand;
use pillarbox_core::port::SagaStory;
use pillarbox_core::{Reference, SagaId};

use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox saga list --status blocked
  pillarbox saga show 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox saga resume 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox saga abandon 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --reason 'settled by phone'
  pillarbox saga audit person/p-7 --json";

/// What to do with sagas.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum SagaCommand {
    /// List sagas, oldest first
    List(list::ListArgs),
    /// Show one saga: its steps, and a timeline of steps, attempts and audit records
    Show(show::ShowArgs),
    /// Resume a saga that waits for an operator: retry, or undo everything that may have run; recorded in the audit
    /// trail
    Resume(resume::ResumeArgs),
    /// Let a saga continue without a dead step that cannot be undone; recorded in the audit trail
    Skip(skip::SkipArgs),
    /// End a saga as it is, in any state; recorded in the audit trail
    Abandon(abandon::AbandonArgs),
    /// Print the audit records of all sagas on a subject, oldest first
    Audit(audit::AuditArgs),
    /// Draw a saga as it was staged, with the state of each step, as Mermaid text
    Diagram(diagram::DiagramArgs),
}

pub(crate) async fn run(command: SagaCommand, context: &Context) -> Result<(), Fault> {
    match command {
        SagaCommand::List(args) => list::run(args, context).await,
        SagaCommand::Show(args) => show::run(&args, context).await,
        SagaCommand::Resume(args) => resume::run(&args, context).await,
        SagaCommand::Skip(args) => skip::run(args, context).await,
        SagaCommand::Abandon(args) => abandon::run(args, context).await,
        SagaCommand::Audit(args) => audit::run(&args, context).await,
        SagaCommand::Diagram(args) => diagram::run(&args, context).await,
    }
}

/// Everything known of a saga that must be there.
async fn story(database: &Database, id: SagaId) -> Result<SagaStory, Fault> {
    let story = database.sagas.show_saga(id).await?;
    story
        .ok_or_else(|| Fault::failed(format!("there is no saga {id}; `pillarbox saga list` lists the sagas")))
}

/// A subject as people type it. A value may have slashes, a kind has none.
fn subject(text: &str) -> Result<Reference, String> {
    let Some((kind, value)) = text.split_once('/') else {
        return Err("write a subject as KIND/VALUE, for example person/p-7".to_owned());
    };
    let subject = Reference::new(kind, value);
    subject.check("the subject").map_err(|error| error.to_string())?;
    Ok(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_a_kind_and_a_value() {
        assert_eq!(subject("file/a/b").unwrap(), Reference::new("file", "a/b"));
        for wrong in ["person", "/p-7", "person/", ""] {
            assert!(subject(wrong).is_err(), "{wrong:?}");
        }
    }
}
