//! What changes by hand share: which entries are meant, asking, acting, telling.

use std::time::Duration;

mod sagas;

use clap::Args;
use pillarbox_core::port::{Admin, Changed, Effect, Selection, SelectionRequest};
use pillarbox_core::{EventId, Result as CoreResult, SagaId, Standing, Status};
use serde::Serialize;

use sagas::Ended;

use super::meant::FilterArgs;
use crate::context::{Context, operator};
use crate::fault::Fault;
use crate::output::confirm;

/// Chunks of a change with --rate in a second.
const CHUNKS_PER_SECOND: u32 = 5;

/// Which entries, how many and how fast, and whether to ask.
#[derive(Args, Debug)]
pub(crate) struct SelectionArgs {
    /// The event ids; each is looked up on every route
    #[arg(
        value_name = "ID",
        conflicts_with_all = ["route", "status", "event_type", "key", "tenant", "error", "since", "until", "limit", "rate"]
    )]
    ids: Vec<EventId>,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many, oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// At most this many entries per second, in small transactions, so that the destination does not get all
    /// of them at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Only count the entries that would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// What is done to the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Try again.
    Requeue,
    /// Give up for good.
    Discard(OpenSagas),
    /// Make due at once.
    Retry,
    /// Give up before it is delivered.
    Cancel,
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
            Self::Retry => "retried now",
            Self::Cancel => "cancelled",
        }
    }

    /// What it is done to.
    fn what(self) -> &'static str {
        match self {
            Self::Requeue | Self::Discard(_) => "dead ",
            Self::Retry | Self::Cancel => "waiting ",
        }
    }

    // Whoever names entries to try again one by one means it; nobody takes a discard or a cancellation back.
    fn asks(self, by_id: bool) -> bool {
        matches!(self, Self::Discard(_) | Self::Cancel) || !by_id
    }

    /// Refuses a status that it never changes.
    fn check(self, status: Option<Standing>) -> Result<(), Fault> {
        let Some(status) = status else { return Ok(()) };
        let allowed = match self {
            Self::Requeue | Self::Discard(_) => &[Standing::Is(Status::Dead)][..],
            Self::Retry | Self::Cancel => {
                &[Standing::Is(Status::Pending), Standing::Is(Status::Retrying), Standing::Blocked]
            }
        };
        if allowed.contains(&status) {
            return Ok(());
        }
        let names: Vec<_> = allowed.iter().map(|standing| standing.as_str()).collect();
        Err(Fault::usage(format!(
            "entries with --status {status} cannot be {}; only {} entries can",
            self.done(),
            names.join(", ")
        )))
    }

    async fn act(self, admin: &dyn Admin, request: SelectionRequest) -> CoreResult<Changed> {
        match self {
            Self::Requeue => admin.requeue(request).await,
            Self::Discard(_) => admin.discard(request).await,
            Self::Retry => admin.hasten(request).await,
            Self::Cancel => admin.cancel(request).await,
        }
    }
}

#[derive(Serialize)]
struct ChangedJson<'a> {
    changed: u64,
    skipped: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skips: Vec<SkippedJson<'a>>,
    missing: &'a [EventId],
    sagas: &'a [SagaId],
    dry_run: bool,
}

#[derive(Serialize)]
struct SkippedJson<'a> {
    event_id: EventId,
    route: &'a str,
    why: String,
}

/// Counts, asks where it must, acts, and tells what came of it.
pub(crate) async fn change(verb: Verb, args: &SelectionArgs, context: &Context) -> Result<(), Fault> {
    verb.check(args.filter.status)?;
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
            let what = format!("{} will be {}{sagas}", entries(changed.changed, verb.what()), verb.done());
            confirm(context.out, &what, args.yes)?;
        }
        let counted = changed.changed;
        let ended = if abandons { sagas::abandon(&database, changed.sagas).await? } else { Ended::default() };
        let request = args.request(Effect::Apply)?;
        changed = match args.rate {
            Some(rate) => paced(verb, &*database.admin, request, counted, rate).await?,
            None => verb.act(&*database.admin, request).await?,
        };
        changed.changed += ended.discarded;
        changed.sagas.extend(ended.sagas);
    }
    database.staging.close().await;
    tell(verb, args, context, &changed)?;
    refuse_missing(&changed)
}

/// Chunk by chunk, each behind the one before: what dies again meanwhile is not changed twice, and no more are changed than
/// were counted.
async fn paced(
    verb: Verb,
    admin: &dyn Admin,
    mut request: SelectionRequest,
    counted: u64,
    rate: u32,
) -> Result<Changed, Fault> {
    let chunk = rate.div_ceil(CHUNKS_PER_SECOND);
    let pause = Duration::from_secs(1).mul_f64(f64::from(chunk) / f64::from(rate));
    let mut total = Changed::default();
    loop {
        let left = u32::try_from(counted.saturating_sub(total.changed)).unwrap_or(u32::MAX);
        request.limit = Some(left.min(chunk));
        let changed = verb.act(admin, request.clone()).await?;
        total.changed += changed.changed;
        total.skipped += changed.skipped;
        total.skips.extend(changed.skips);
        total.sagas.extend(changed.sagas);
        total.sagas.sort_unstable();
        total.sagas.dedup();
        let Some(cursor) = changed.cursor.filter(|_| total.changed < counted) else { return Ok(total) };
        if let Selection::Matching(filter) = &mut request.selection {
            filter.after = Some(cursor);
        }
        tokio::time::sleep(pause).await;
    }
}

impl SelectionArgs {
    fn by_id(&self) -> bool {
        !self.ids.is_empty()
    }

    fn request(&self, effect: Effect) -> Result<SelectionRequest, Fault> {
        let selection = if self.by_id() { Selection::Ids(self.ids.clone()) } else { self.matching()? };
        Ok(SelectionRequest { selection, limit: self.limit, actor: operator(), effect, now: None })
    }

    // Without any filter, a forgotten id would mean everything.
    fn matching(&self) -> Result<Selection, Fault> {
        if self.filter.is_empty() {
            return Err(Fault::usage(
                "no entries are selected. Give event ids, or --status S, --route R, --type T, --key K, \
                 --tenant T, --error KIND, --since TIME or --until TIME",
            ));
        }
        Ok(Selection::Matching(self.filter.filter()))
    }
}

fn tell(verb: Verb, args: &SelectionArgs, context: &Context, changed: &Changed) -> Result<(), Fault> {
    if context.out.json {
        let skips = changed.skips.iter().map(|skip| SkippedJson {
            event_id: skip.event_id,
            route: skip.route.as_str(),
            why: skip.why.to_string(),
        });
        return context.out.json(&ChangedJson {
            changed: changed.changed,
            skipped: changed.skipped,
            skips: skips.collect(),
            missing: &changed.missing,
            sagas: &changed.sagas,
            dry_run: args.dry_run,
        });
    }
    for skip in &changed.skips {
        context
            .out
            .say(format_args!("{} on route {} was not changed: {}", skip.event_id, skip.route, skip.why));
    }
    let done = if args.dry_run { format!("would be {}", verb.done()) } else { verb.done().to_owned() };
    let skipped = match (changed.skipped, verb) {
        (0, _) => String::new(),
        (skipped, Verb::Requeue | Verb::Discard(_)) => {
            format!(", {skipped} not changed because they are not dead")
        }
        (skipped, Verb::Retry | Verb::Cancel) => format!(", {skipped} not changed"),
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
    Err(Fault::failed(format!(
        "no route has an entry for {}; `pillarbox list` lists the entries",
        ids.join(", ")
    )))
}

/// `1 dead entry`, `2 dead entries`.
pub(crate) fn entries(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "entry" } else { "entries" })
}
