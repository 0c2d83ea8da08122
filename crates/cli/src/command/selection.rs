//! What `requeue` and `discard` share: which dead entries are meant, asking, acting, telling.

mod sagas;

use clap::Args;
use pillarbox_core::port::{Admin, Changed, Effect, Filter, Selection, SelectionRequest};
use pillarbox_core::{EventId, Result as CoreResult, RouteName, SagaId, Status};
use serde::Serialize;

use sagas::Ended;

use super::operator;
use crate::context::Context;
use crate::fault::Fault;
use crate::output::confirm;

/// Which dead entries, and whether to ask.
#[derive(Args, Debug)]
pub(crate) struct SelectionArgs {
    /// The event ids; every route that carries one is meant
    #[arg(value_name = "ID", conflicts_with_all = ["route", "status", "event_type", "key"])]
    ids: Vec<EventId>,
    /// Dead entries of this route
    #[arg(long)]
    route: Option<RouteName>,
    /// Says that all dead entries that match are meant; no other status is allowed
    #[arg(long, value_parser = only_dead)]
    status: Option<Status>,
    /// Dead entries of this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Dead entries of this key
    #[arg(long)]
    key: Option<String>,
    /// Only count what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

fn only_dead(text: &str) -> Result<Status, String> {
    match text.parse::<Status>() {
        Ok(Status::Dead) => Ok(Status::Dead),
        Ok(other) => Err(format!("{other} entries are not changed by hand; only dead is allowed")),
        Err(error) => Err(error.to_string()),
    }
}

/// What is done to the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Try again.
    Requeue,
    /// Give up for good.
    Discard(OpenSagas),
}

/// What a discard does about sagas that have not ended: without their dead steps they never could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenSagas {
    /// Nothing is discarded.
    Refuse,
    /// They end as they are.
    Abandon,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Discard(_) => "discarded",
        }
    }

    // Whoever names entries to requeue one by one means it; nobody takes a discard back.
    fn asks(self, by_id: bool) -> bool {
        matches!(self, Self::Discard(_)) || !by_id
    }

    async fn act(self, admin: &dyn Admin, request: SelectionRequest) -> CoreResult<Changed> {
        match self {
            Self::Requeue => admin.requeue(request).await,
            Self::Discard(_) => admin.discard(request).await,
        }
    }
}

#[derive(Serialize)]
struct ChangedJson<'a> {
    changed: u64,
    skipped: u64,
    missing: &'a [EventId],
    sagas: &'a [SagaId],
    dry_run: bool,
}

/// Counts, asks where it must, acts, and tells what came of it.
pub(crate) async fn change(verb: Verb, args: &SelectionArgs, context: &Context) -> Result<(), Fault> {
    let count = args.request(Effect::DryRun)?;
    let database = context.open().await?;
    let mut changed = verb.act(&*database.admin, count).await?;
    let abandons = matches!(verb, Verb::Discard(_)) && !changed.sagas.is_empty();
    if verb == Verb::Discard(OpenSagas::Refuse) && abandons {
        return Err(sagas::refused(&changed.sagas, &context.again()));
    }
    if !args.dry_run && (changed.changed > 0 || abandons) {
        if verb.asks(args.by_id()) {
            let sagas = if abandons { sagas::will_end(&changed.sagas) } else { String::new() };
            let what = format!("{} will be {}{sagas}", entries(changed.changed, "dead "), verb.done());
            confirm(context.out, &what, args.yes)?;
        }
        let ended = if abandons { sagas::abandon(&database, changed.sagas).await? } else { Ended::default() };
        changed = verb.act(&*database.admin, args.request(Effect::Apply)?).await?;
        changed.changed += ended.discarded;
        changed.sagas.extend(ended.sagas);
    }
    database.staging.close().await;
    tell(verb, args, context, &changed)?;
    refuse_missing(&changed)
}

impl SelectionArgs {
    fn by_id(&self) -> bool {
        !self.ids.is_empty()
    }

    fn request(&self, effect: Effect) -> Result<SelectionRequest, Fault> {
        let selection = if self.by_id() { Selection::Ids(self.ids.clone()) } else { self.matching()? };
        Ok(SelectionRequest { selection, actor: operator(), effect, now: None })
    }

    // Without any filter, a forgotten id would mean everything.
    fn matching(&self) -> Result<Selection, Fault> {
        if self.route.is_none() && self.status.is_none() && self.event_type.is_none() && self.key.is_none() {
            return Err(Fault::usage(
                "which entries? Give event ids, or --status dead, --route R, --type T or --key K",
            ));
        }
        let mut filter = Filter::dead();
        filter.route = self.route.clone();
        filter.event_type = self.event_type.clone();
        filter.key = self.key.clone();
        Ok(Selection::Matching(filter))
    }
}

fn tell(verb: Verb, args: &SelectionArgs, context: &Context, changed: &Changed) -> Result<(), Fault> {
    if context.out.json {
        return context.out.json(&ChangedJson {
            changed: changed.changed,
            skipped: changed.skipped,
            missing: &changed.missing,
            sagas: &changed.sagas,
            dry_run: args.dry_run,
        });
    }
    let done = if args.dry_run { format!("would be {}", verb.done()) } else { verb.done().to_owned() };
    let skipped = if changed.skipped == 0 {
        String::new()
    } else {
        format!(", {} not dead and left as they are", changed.skipped)
    };
    context.out.data(format_args!("{} {done}{skipped}", entries(changed.changed, "")))?;
    if !changed.sagas.is_empty() {
        context.out.say(sagas::follows(verb, &changed.sagas, args.dry_run));
    }
    Ok(())
}

// Ids that nobody carries are a failure of the command, after it has done what it could.
fn refuse_missing(changed: &Changed) -> Result<(), Fault> {
    if changed.missing.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = changed.missing.iter().map(ToString::to_string).collect();
    Err(Fault::failed(format!("no route carries {}; `pillarbox list` shows what there is", ids.join(", "))))
}

/// `1 dead entry`, `2 dead entries`.
pub(crate) fn entries(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "entry" } else { "entries" })
}
