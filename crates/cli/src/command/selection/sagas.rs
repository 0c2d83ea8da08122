//! What follows for sagas from a requeue or a discard of their dead steps.

use pillarbox_core::port::{Intervention, InterventionRequest};
use pillarbox_core::{ErrorKind, SagaId};

use super::Verb;
use crate::context::operator;
use crate::database::Database;
use crate::fault::Fault;

/// Sagas that are named one by one; of more only the number is told.
const NAMED_MAX: usize = 10;

/// What was abandoned.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) sagas: Vec<SagaId>,
    /// Entries that went with them.
    pub(super) discarded: u64,
}

/// Ends these sagas as they are, each in a transaction of its own. One that has ended meanwhile is left out.
pub(super) async fn abandon(database: &Database, sagas: Vec<SagaId>) -> Result<Ended, Fault> {
    let mut ended = Ended::default();
    for id in sagas {
        let what = Intervention::Abandon { reason: "a dead step of it was discarded".to_owned() };
        let request = InterventionRequest { id, what, actor: operator(), now: None };
        match database.sagas.intervene(request).await {
            Ok(done) => {
                ended.discarded += done.discarded;
                ended.sagas.push(id);
            }
            Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ended)
}

/// Why nothing is discarded, and what to do instead.
pub(super) fn refused(sagas: &[SagaId], again: &str) -> Fault {
    let first = sagas.first().map(ToString::to_string).unwrap_or_default();
    Fault::usage(format!(
        "nothing was discarded: some entries are dead steps of {} not ended, and without them a saga can \
         never end: {}. Retry the steps with `{again} saga resume {first}`, see other choices with `{again} \
         saga show {first}`, or add --sagas to abandon the sagas",
        that_have(sagas.len()),
        names(sagas),
    ))
}

/// What a discard is about to do.
pub(super) fn will_end(sagas: &[SagaId]) -> String {
    format!(", and {} will be abandoned, with nothing undone: {}", count(sagas.len()), names(sagas))
}

/// What has become of them, or would.
pub(super) fn follows(verb: Verb, sagas: &[SagaId], dry_run: bool) -> String {
    let (count, names) = (count(sagas.len()), names(sagas));
    let would = if dry_run { "would be " } else { "" };
    match verb {
        Verb::Requeue if dry_run => format!("{count} would continue: {names}"),
        Verb::Requeue => {
            format!("{count} can continue when a relay with the handlers runs: {names}")
        }
        // They change no dead entry, and so have no sagas to tell of.
        Verb::Retry | Verb::Cancel => String::new(),
        Verb::Discard(_) => format!("{count} {would}abandoned: {names}"),
    }
}

fn count(sagas: usize) -> String {
    if sagas == 1 { "1 saga".to_owned() } else { format!("{sagas} sagas") }
}

fn that_have(sagas: usize) -> String {
    format!("{} that {}", count(sagas), if sagas == 1 { "has" } else { "have" })
}

fn names(sagas: &[SagaId]) -> String {
    let named: Vec<_> = sagas.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = sagas.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}
