//! What `resume`, `skip` and `abandon` share: saying what would come of it, asking, acting, telling.

use pillarbox_core::port::{Clock, Intervened, Intervention, InterventionRequest, SagaStory};
use pillarbox_core::{Error, ErrorKind, SagaId, SagaStatus, SagaWork, StepSeen};
use pillarbox_host::SystemClock;
use serde::Serialize;

use crate::command::selection::entries;
use crate::context::{Context, operator};
use crate::fault::Fault;
use crate::output::confirm;

/// What an operator wants, and how sure they are.
pub(super) struct Wish<'a> {
    pub(super) id: SagaId,
    pub(super) what: Intervention,
    /// What is asked before it is done; `None`: whoever names it means it.
    pub(super) asks: Option<&'a dyn Fn(&SagaStory) -> String>,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
}

#[derive(Serialize)]
struct IntervenedJson {
    saga: SagaId,
    status: SagaStatus,
    requeued: u64,
    discarded: u64,
    dry_run: bool,
}

/// Plans, asks where it must, acts, and tells what came of it.
pub(super) async fn run(wish: Wish<'_>, context: &Context) -> Result<(), Fault> {
    let database = context.open().await?;
    let story = super::story(&database, wish.id).await?;
    let mut done = plan(&story, &wish.what).map_err(refused)?;
    if !wish.dry_run {
        if let Some(asks) = wish.asks {
            confirm(context.out, &asks(&story), wish.yes)?;
        }
        let request = InterventionRequest { id: wish.id, what: wish.what, actor: operator(), now: None };
        done = database.sagas.intervene(request).await.map_err(refused)?;
    }
    database.staging.close().await;
    tell(wish.id, wish.dry_run, context, done)
}

/// What would come of it: the same decision that the store takes, on what was read.
pub(super) fn plan(story: &SagaStory, what: &Intervention) -> Result<Intervened, Error> {
    let seen = story.entries.iter().map(|entry| StepSeen {
        held: entry.held(),
        event_id: entry.event_id,
        status: entry.status,
        attempts: entry.attempts,
        last_error: entry.last_error.clone(),
    });
    let work = SagaWork::intervene(story.saga.clone(), seen.collect(), what, SystemClock.now())?;
    Ok(work.intervened())
}

// Not a wrong command line: the saga is elsewhere than the operator thought.
fn refused(error: Error) -> Fault {
    match error.kind() {
        ErrorKind::Invalid => Fault::failed(error.to_string()),
        _ => error.into(),
    }
}

fn tell(saga: SagaId, dry_run: bool, context: &Context, done: Intervened) -> Result<(), Fault> {
    let Intervened { status, requeued, discarded } = done;
    if context.out.json {
        return context.out.json(&IntervenedJson { saga, status, requeued, discarded, dry_run });
    }
    let is = if dry_run { "would be" } else { "is" };
    let count = |number: u64, what: &str| match number {
        0 => String::new(),
        number => format!(", {} {what}", entries(number, "")),
    };
    let (again, gone) = (count(requeued, "requeued"), count(discarded, "discarded"));
    context.out.data(format_args!("saga {saga} {is} {status}{again}{gone}"))
}
