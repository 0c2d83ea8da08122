//! Decisions on sagas as the values of `saga_write.sql`: one array a column. Other lists name a saga by its place among
//! the sagas, from 1.

use pillarbox_core::port::Keep;
use pillarbox_core::port::shared::headers_json;
use pillarbox_core::{Result, SagaWork, Timestamp};
use pillarbox_host::process_clock;
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use crate::bind::Bind;
use crate::row::At;

/// What is written of any number of sagas.
#[derive(Default)]
pub(super) struct SagaWrites {
    sagas: Sagas,
    entries: Entries,
    audit: Audit,
    staged: Staged,
}

#[derive(Default)]
struct Sagas {
    ids: Vec<String>,
    versions: Vec<i64>,
    statuses: Vec<String>,
    dead: Vec<i64>,
    due_ats: Vec<Option<At>>,
    bodies: Vec<String>,
    ended: Vec<bool>,
}

#[derive(Default)]
struct Entries {
    sagas: Vec<i64>,
    seqs: Vec<i64>,
    fences: Vec<i64>,
    seen: Vec<&'static str>,
    changes: Vec<&'static str>,
    errors: Vec<Option<String>>,
}

#[derive(Default)]
struct Audit {
    sagas: Vec<i64>,
    saga_ids: Vec<String>,
    routes: Vec<String>,
    subject_kinds: Vec<String>,
    subject_values: Vec<String>,
    kinds: Vec<&'static str>,
    event_ids: Vec<Option<Uuid>>,
    steps: Vec<Option<String>>,
    details: Vec<String>,
}

#[derive(Default)]
struct Staged {
    sagas: Vec<i64>,
    saga_ids: Vec<String>,
    routes: Vec<String>,
    event_ids: Vec<Uuid>,
    types: Vec<String>,
    payloads: Vec<Vec<u8>>,
    content_types: Vec<String>,
    headers: Vec<String>,
    tenants: Vec<Option<String>>,
    correlation_ids: Vec<Option<String>>,
    hlcs: Vec<i64>,
    max_attempts: Vec<Option<i32>>,
}

impl SagaWrites {
    pub(super) fn push(&mut self, work: &SagaWork) -> Result<()> {
        let saga = work.saga.columns()?;
        self.sagas.ids.push(saga.id.clone());
        self.sagas.versions.push(work.version);
        self.sagas.statuses.push(saga.status);
        self.sagas.dead.push(saga.dead);
        self.sagas.due_ats.push(saga.due_at.map(At::from));
        self.sagas.bodies.push(saga.body);
        self.sagas.ended.push(work.moves.ended);
        let place = i64::try_from(self.sagas.ids.len()).unwrap_or(i64::MAX);
        for entry in work.entries() {
            let (change, failure) = entry.change.parts();
            self.entries.sagas.push(place);
            self.entries.seqs.push(entry.held.seq);
            self.entries.fences.push(entry.held.fence.0);
            self.entries.seen.push(entry.seen.as_str());
            self.entries.changes.push(change);
            self.entries.errors.push(failure.map(ToString::to_string));
        }
        for record in &work.moves.audit {
            self.audit.sagas.push(place);
            self.audit.saga_ids.push(saga.id.clone());
            self.audit.routes.push(saga.route.clone());
            self.audit.subject_kinds.push(saga.subject_kind.clone());
            self.audit.subject_values.push(saga.subject_value.clone());
            self.audit.kinds.push(record.kind.as_str());
            self.audit.event_ids.push(record.event_id.map(|id| id.0));
            self.audit.steps.push(record.step.clone());
            self.audit.details.push(record.detail.clone());
        }
        for entry in work.staged(|| process_clock().now())? {
            let headers = headers_json(&entry.event.headers)?;
            self.staged.sagas.push(place);
            self.staged.saga_ids.push(saga.id.clone());
            self.staged.routes.push(saga.route.clone());
            self.staged.event_ids.push(entry.event_id.0);
            self.staged.hlcs.push(entry.hlc.raw());
            let event = entry.event;
            self.staged.types.push(event.event_type);
            self.staged.payloads.push(event.payload);
            self.staged.content_types.push(event.content_type);
            self.staged.headers.push(headers);
            self.staged.tenants.push(event.tenant);
            self.staged.correlation_ids.push(event.correlation_id);
            self.staged.max_attempts.push(event.max_attempts.and_then(|most| i32::try_from(most).ok()));
        }
        Ok(())
    }

    pub(super) fn bind(self, now: Timestamp, actor: &str, keep: Keep) -> Result<PgArguments> {
        let Self { sagas, entries, audit, staged } = self;
        Bind::new()
            .at(Some(now))
            .text(actor)
            .value(keep == Keep::No)
            .value(sagas.ids)
            .value(sagas.versions)
            .value(sagas.statuses)
            .value(sagas.dead)
            .value(sagas.due_ats)
            .value(sagas.bodies)
            .value(sagas.ended)
            .value(entries.sagas)
            .value(entries.seqs)
            .value(entries.fences)
            .value(entries.seen)
            .value(entries.changes)
            .value(entries.errors)
            .value(audit.sagas)
            .value(audit.saga_ids)
            .value(audit.routes)
            .value(audit.subject_kinds)
            .value(audit.subject_values)
            .value(audit.kinds)
            .value(audit.event_ids)
            .value(audit.steps)
            .value(audit.details)
            .value(staged.sagas)
            .value(staged.saga_ids)
            .value(staged.routes)
            .value(staged.event_ids)
            .value(staged.types)
            .value(staged.payloads)
            .value(staged.content_types)
            .value(staged.headers)
            .value(staged.tenants)
            .value(staged.correlation_ids)
            .value(staged.hlcs)
            .value(staged.max_attempts)
            .done()
    }
}
