//! `pillarbox saga show ID`

use clap::Args;
use pillarbox_core::port::{Clock, SagaStory};
use pillarbox_core::{
    AuditRecord, Direction, Entry, SagaId, SagaRecord, SagaStatus, Status, StepKind, StepRecord,
    TimelineItem, Timestamp,
};
use pillarbox_host::SystemClock;
use serde::Serialize;

use super::advice::{Advice, advice};
use crate::context::Context;
use crate::fault::Fault;
use crate::output::{Align, EntryJson, Table, shortened};

const EXAMPLES: &str = "\
Examples:
  pillarbox saga show 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox saga show 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --json | jq '.timeline[] | {at, what, step}'

Only the last attempt of a step has a time. Delivered entries are purged by age; audit records are kept.";

/// Which saga.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// The saga's id
    #[arg(value_name = "ID")]
    id: SagaId,
}

#[derive(Serialize)]
struct StoryJson<'a> {
    #[serde(flatten)]
    saga: &'a SagaRecord,
    deadline_at: Option<Timestamp>,
    entries: Vec<EntryJson<'a>>,
    audit: &'a [AuditRecord],
    timeline: Vec<TimelineItem>,
    /// What an operator can do about it; nothing where it goes on by itself or has ended.
    advice: Vec<String>,
}

pub(crate) async fn run(args: &ShowArgs, context: &Context) -> Result<(), Fault> {
    let database = context.open().await?;
    let story = super::story(&database, args.id).await;
    database.staging.close().await;
    let story = story?;
    if context.out.json {
        return context.out.json(&StoryJson {
            saga: &story.saga,
            deadline_at: story.saga.deadline(),
            entries: story.entries.iter().map(EntryJson::from).collect(),
            audit: &story.audit,
            timeline: story.timeline(),
            advice: commands(context, &story).into_iter().map(|advice| advice.command).collect(),
        });
    }
    people(context, &story)
}

fn people(context: &Context, story: &SagaStory) -> Result<(), Fault> {
    let saga = &story.saga;
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let lines = [
        ("id", Some(saga.id.to_string())),
        ("name", Some(saga.name.clone())),
        ("subject", Some(saga.subject.to_string())),
        ("generation", Some(saga.generation.to_string())),
        ("status", Some(saga.status.to_string())),
        ("route", Some(saga.route.to_string())),
        ("created_at", time(Some(saga.created_at))),
        ("updated_at", time(Some(saga.updated_at))),
        ("deadline_at", time(saga.deadline())),
        ("ended_at", time(saga.ended_at)),
    ];
    // Control characters of somebody's subject must not rearrange the terminal.
    for (name, value) in lines.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        let value: String = value.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        context.out.data(format_args!("{name:>16}  {value}"))?;
    }
    context.out.data(format_args!("\n{}", steps(story)))?;
    context.out.data(format_args!("\n{}", timeline(story)))?;
    if is_left_behind(story) {
        context.out.warn("none of its entries is left to run; they were removed by hand");
    }
    let advice = commands(context, story);
    if !advice.is_empty() {
        context.out.say("it waits for an operator, who can:");
    }
    for Advice { what, command } in advice {
        context.out.say(format_args!("  {what:<24}  {command}"));
    }
    Ok(())
}

/// What an operator can do about a saga that does not go on by itself.
fn commands(context: &Context, story: &SagaStory) -> Vec<Advice> {
    // A relay has not noticed yet that an entry of it is dead.
    let dead =
        !story.saga.status.is_ended() && story.entries.iter().any(|entry| entry.status == Status::Dead);
    let needed = story.saga.is_stuck(SystemClock.now()) || is_left_behind(story) || dead;
    if needed { advice(context, story) } else { Vec::new() }
}

/// A running saga always has an entry that somebody may claim, unless its entries were settled without it.
fn is_left_behind(story: &SagaStory) -> bool {
    let gone = |entry: &Entry| entry.status.is_terminal() && entry.status != Status::Dead;
    story.saga.status == SagaStatus::Running && story.entries.iter().all(gone)
}

fn steps(story: &SagaStory) -> Table {
    let mut table = Table::new(&[
        ("step", Align::Left),
        ("handler", Align::Left),
        ("kind", Align::Left),
        ("state", Align::Left),
        ("attempts", Align::Right),
        ("last error", Align::Left),
    ]);
    for step in &story.saga.steps {
        let entry = entry_of(story, step);
        let tried = entry.and_then(|entry| entry.last_error.as_ref()).map(ToString::to_string);
        table.row([
            step.name.clone(),
            step.handler.clone(),
            kind(step),
            step.state.to_string(),
            entry.map(|entry| entry.attempts.to_string()).unwrap_or_default(),
            shortened(&step.error.clone().or(tried).unwrap_or_default(), 80),
        ]);
    }
    table
}

/// What is said of a step in one word, and who undoes it.
fn kind(step: &StepRecord) -> String {
    let kind = match step.kind {
        StepKind::Compensatable => "compensatable",
        StepKind::Pivot => "pivot",
        StepKind::Retryable => "retryable",
    };
    match &step.compensation {
        Some(handler) => format!("{kind}, undone by {handler}"),
        None => kind.to_owned(),
    }
}

/// The entry that is at work on a step, or was last: the compensation comes after what it undoes.
fn entry_of<'a>(story: &'a SagaStory, step: &StepRecord) -> Option<&'a Entry> {
    [Direction::Compensation, Direction::Forward].into_iter().find_map(|direction| {
        let key = story.saga.key_of(&step.name, direction);
        story.entries.iter().find(|entry| entry.event_id == key)
    })
}

fn timeline(story: &SagaStory) -> Table {
    let mut table = Table::new(&[
        ("when", Align::Left),
        ("what", Align::Left),
        ("step", Align::Left),
        ("by", Align::Left),
        ("detail", Align::Left),
    ]);
    for item in story.timeline() {
        table.row([
            item.at.to_string(),
            item.what,
            item.step.unwrap_or_default(),
            item.actor.unwrap_or_default(),
            item.detail,
        ]);
    }
    table
}
