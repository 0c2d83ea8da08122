//! Sagas: the list by state, and one saga as a timeline.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillarbox_core::port::SagaStory;
use pillarbox_core::{
    Failure, FailureKind, SagaId, SagaRecord, SagaStatus, StepRecord, StepState, Timestamp,
};

use crate::api::{SagasQuery, wishes};
use crate::error::Refusal;
use crate::security::Visitor;
use crate::shared::Shared;
use crate::text;

use super::layout::Frame;
use super::parts::{self, Mark};
use super::refused;

pub(crate) async fn sagas(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<SagasQuery>,
) -> Response {
    match listed(&shared, &visitor, &query).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn listed(shared: &Shared, visitor: &Visitor, query: &SagasQuery) -> Result<Markup, Refusal> {
    let snapshot = shared.first_look().await;
    let sagas = shared.ports.sagas.list_sagas(query.filter()?).await?;
    let now = shared.clock.now();
    let path = |query: SagasQuery| shared.path(&format!("/sagas?{}", query.link()));
    let beginning = query.beginning().map(path);
    let next = query.next_cursor(&sagas);
    let next = next.map(|cursor| path(SagasQuery { cursor: Some(cursor), ..query.clone() }));
    let chip = |status: Option<SagaStatus>| {
        let name = status.map_or("any", SagaStatus::as_str);
        let path = status.map_or_else(|| "/sagas".to_owned(), |status| format!("/sagas?status={status}"));
        let is_here =
            query.status.as_deref().filter(|status| !status.is_empty()) == status.map(SagaStatus::as_str);
        html! {
            a href=(shared.path(&path)) aria-current=[is_here.then_some("true")] {
                @if let Some(status) = status { (parts::mark(Mark::of_saga(status))) (name.replace('_', " ")) " " (text::count(snapshot.sagas.of(status))) } @else { (name) }
            }
        }
    };
    let frame = Frame::new(shared, visitor, "Sagas").here("/sagas");
    Ok(frame.page(&html! {
        h1 { "Sagas" }
        nav.chips aria-label="Status" { (chip(None)) @for status in SagaStatus::ALL { (chip(Some(status))) } }
        @if sagas.is_empty() {
            (nothing(query, beginning))
        } @else {
            table.sagas data-rows="" {
                caption.hidden { "Sagas" }
                thead { tr { th scope="col" { "state" } th scope="col" { "saga" } th scope="col" { "subject" } th scope="col" { "steps" } th scope="col" { "stands at" } th.number scope="col" { "age" } } }
                tbody { @for saga in &sagas { (row(shared, saga, now)) } }
            }
            (parts::pages(beginning, next))
        }
    }))
}

/// What a page without sagas says. Behind the last saga of a list there is nothing either.
fn nothing(query: &SagasQuery, beginning: Option<String>) -> Markup {
    html! {
        section.empty {
            @match beginning {
                Some(beginning) => {
                    p { "There are no more sagas." }
                    p { a href=(beginning) { "Show the list from the beginning" } }
                }
                None if query.status.is_some() => { p { "No saga has this status." } }
                None => {
                    p { "No saga was staged yet. A saga is a group of steps with one outcome; the guide shows how to stage one." }
                }
            }
        }
    }
}

fn row(shared: &Shared, saga: &SagaRecord, now: Timestamp) -> Markup {
    html! {
        tr data-key=(saga.id) {
            td data-label="state" { (parts::state(Mark::of_saga(saga.status), &saga.status.as_str().replace('_', " "))) }
            td.break data-label="saga" { a.name href=(shared.path(&format!("/sagas/{}", saga.id))) data-open="" { (parts::cut(&saga.name, 60)) } }
            td.break data-label="subject" { (parts::cut(&saga.subject.to_string(), 60)) }
            td data-label="steps" { span.dots { @for step in &saga.steps { (parts::mark(Mark::of_step(step.state))) } } }
            td.break data-label="stands at" { (stands_at(saga)) }
            td.number data-label="age" { (text::age(now.since(saga.created_at))) }
        }
    }
}

fn stands_at(saga: &SagaRecord) -> String {
    let waits = |step: &&StepRecord| {
        !matches!(
            step.state,
            StepState::Done | StepState::Compensated | StepState::Skipped | StepState::Waiting
        )
    };
    match saga.steps.iter().find(waits) {
        Some(step) => {
            let error =
                step.error.as_ref().map(|error| format!(": {}", parts::cut(error, 80))).unwrap_or_default();
            format!("{} {}{error}", step.name, step.state.as_str().replace('_', " "))
        }
        None => String::new(),
    }
}

pub(crate) async fn saga(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
) -> Response {
    match shown(&shared, &visitor, &id).await {
        Ok(page) => page.into_response(),
        Err(refusal) => refused(&shared, &visitor, &refusal),
    }
}

async fn shown(shared: &Shared, visitor: &Visitor, id: &str) -> Result<Markup, Refusal> {
    let id: SagaId = id.parse()?;
    let story = shared.ports.sagas.show_saga(id).await?;
    let story = story.ok_or_else(|| Refusal::not_found(format!("There is no saga {id}.")))?;
    let (saga, now) = (&story.saga, shared.clock.now());
    let frame = Frame::new(shared, visitor, text::visible(&saga.name)).here("/sagas");
    Ok(frame.page(&html! {
        article.story {
            div.title-line {
                h1.break { (text::visible(&saga.name)) }
                (parts::state(Mark::of_saga(saga.status), &saga.status.as_str().replace('_', " ")))
            }
            p.ids { (parts::cut(&saga.subject.to_string(), 80)) ", number " (saga.generation) " · on " a href=(parts::route_path(shared, saga.route.as_str())) { (parts::cut(saga.route.as_str(), 60)) } " · " code { (id) } }
            (advice(&story, now))
            ol.steps { @for step in &saga.steps { (drawn(step)) } }
            h2 { "Timeline" }
            ol.timeline {
                @for item in story.timeline() {
                    li {
                        span.when { (item.what.replace('_', " ")) }
                        time datetime=(item.at) title=(item.at) { (text::moment(item.at, now)) }
                        span.what.break {
                            @if let Some(step) = &item.step { strong { (text::visible(step)) } " " }
                            (text::visible(&item.detail))
                            @if let Some(actor) = &item.actor { " by " (text::visible(actor)) }
                            @if let Some(event) = item.event_id { " " a href=(parts::entry_path(shared, event)) { "entry" } }
                        }
                    }
                }
            }
            details { summary { "Diagram as Mermaid text" } @let mermaid = saga.mermaid(); button.quiet type="button" data-copy=(mermaid) { "copy" } pre.payload { (text::visible(&mermaid)) } }
        }
    }))
}

/// What an operator can do now, each with its button.
fn advice(story: &SagaStory, now: Timestamp) -> Markup {
    let wishes = wishes(story, now);
    let saga = &story.saga;
    html! {
        @if saga.status.is_stuck() { p.notice { "It waits for an operator. " (parts::words(&stands_at(saga))) } }
        @if !wishes.is_empty() {
            p.act {
                @for (place, wish) in wishes.iter().enumerate() {
                    button.(if matches!(wish.verb, "abandon" | "skip") { "danger" } else if place == 0 && saga.status.is_stuck() { "primary" } else { "plain-button" })
                        type="button" data-saga=(saga.id) data-saga-verb=(wish.verb) data-step=(wish.step.clone().unwrap_or_default()) { (wish.words) }
                }
            }
        }
    }
}

/// Whether nobody knows if the handler did what the step, or its compensation, was last tried for.
fn is_unknown(step: &StepRecord) -> bool {
    let is_open = !matches!(step.state, StepState::Waiting | StepState::Done | StepState::Compensated);
    let kind = step.error.as_deref().map(|error| {
        let error = error.strip_prefix("abandoned: ").unwrap_or(error);
        Failure::parse(error).kind
    });
    is_open && matches!(kind, Some(FailureKind::Unknown | FailureKind::LeaseExpired))
}

fn drawn(step: &StepRecord) -> Markup {
    let mark = Mark::of_step(step.state);
    let is_unknown = is_unknown(step);
    html! {
        li.step.(step.state.as_str()).unknown[is_unknown] {
            span.step-mark { (parts::mark(mark)) }
            strong.break { (text::visible(&step.name)) }
            span.step-state { (step.state.as_str().replace('_', " ")) @if is_unknown { ", outcome unknown" } }
            @if let Some(error) = &step.error { span.error-text.break { (parts::cut(error, 120)) } }
            @if let Some(compensation) = &step.compensation { span.undo { "undone by " (text::visible(compensation)) } }
        }
    }
}
