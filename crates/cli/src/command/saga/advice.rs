//! What an operator can do about a saga, as commands that work when they are typed.

use pillarbox_core::SagaRecord;
use pillarbox_core::port::{Intervention, SagaStory};

use super::intervene::plan;
use crate::context::Context;
use crate::output::quoted;

/// What one of them is for, and the command.
pub(super) struct Advice {
    pub(super) what: String,
    pub(super) command: String,
}

/// Every intervention that the saga takes as it is now: each was tried on what was read of it.
pub(super) fn advice(context: &Context, story: &SagaStory) -> Vec<Advice> {
    let (saga, again) = (&story.saga, context.again());
    let id = saga.id;
    let reason = || "WHY".to_owned();
    let resume = |what: &str, option: &str| (what.to_owned(), format!("{again} saga resume {id}{option}"));
    let mut possible = vec![
        (Intervention::Retry, resume("retry the dead steps", "")),
        (Intervention::Compensate, resume("undo everything that may have run", " --compensate")),
    ];
    for name in names(saga) {
        let what = Intervention::Skip { step: name.to_owned(), reason: reason() };
        let command = format!("{again} saga skip {id} {} --reason WHY", quoted(name));
        possible.push((what, (format!("continue without step {name}"), command)));
    }
    let command = format!("{again} saga abandon {id} --reason WHY");
    possible.push((Intervention::Abandon { reason: reason() }, ("end it as it is".to_owned(), command)));
    let works = |(what, _): &(Intervention, _)| plan(story, what).is_ok();
    let advice = |(_, (what, command))| Advice { what, command };
    possible.into_iter().filter(works).map(advice).collect()
}

fn names(saga: &SagaRecord) -> impl Iterator<Item = &str> {
    saga.steps.iter().map(|step| step.name.as_str())
}
