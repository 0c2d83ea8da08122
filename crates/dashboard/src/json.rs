//! What the API answers with. Fields keep the names of the SQL contract.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillarbox_core::port::{CountGroup, RelaySeen, SagaCounts, Story};
use pillarbox_core::{AuditRecord, Entry, SagaRecord, SagaStatus, Status, StepRecord, TimelineItem};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::sampler::{Outage, RouteView};

/// A dead entry that blocks its key.
#[derive(Serialize, ToSchema)]
pub(crate) struct HeadJson {
    event_id: String,
    key: String,
    /// How many entries wait behind it.
    blocked: u64,
}

/// Who paused a route.
#[derive(Serialize, ToSchema)]
pub(crate) struct PauseJson {
    at: String,
    by: String,
    reason: String,
}

/// A route with its counts.
#[derive(Serialize, ToSchema)]
pub(crate) struct RouteJson {
    route: String,
    /// `circuit_open`, `unrelayed`, `late`, `blocked`, `has_dead`, `paused`, `moving` or `idle`.
    state: &'static str,
    pending: u64,
    in_flight: u64,
    retrying: u64,
    blocked: u64,
    delivered: u64,
    dead: u64,
    discarded: u64,
    /// The statuses of which there may be more: only the newest 100,000 delivered or discarded events are counted.
    at_least: Vec<&'static str>,
    oldest_due_age_seconds: Option<f64>,
    /// Events that came per second, over the last ten seconds.
    in_per_second: f64,
    /// Events that were delivered per second, over the last ten seconds.
    out_per_second: f64,
    blocked_by: Vec<HeadJson>,
    paused: Option<PauseJson>,
    /// The last ten times in which the destination was down, as far as this process has seen them, the newest first.
    outages: Vec<OutageJson>,
}

/// A time in which a destination was down.
#[derive(Serialize, ToSchema)]
pub(crate) struct OutageJson {
    from: String,
    /// `null`: it is not over.
    until: Option<String>,
    reason: Option<String>,
}

impl From<&Outage> for OutageJson {
    fn from(outage: &Outage) -> Self {
        Self {
            from: outage.from.to_string(),
            until: outage.until.map(|until| until.to_string()),
            reason: outage.reason.clone(),
        }
    }
}

impl From<&RouteView> for RouteJson {
    fn from(view: &RouteView) -> Self {
        let (counts, now) = (&view.counts, view.history.now());
        let head = |head: &pillarbox_core::port::BlockingHead| HeadJson {
            event_id: head.event_id.to_string(),
            key: head.key.clone(),
            blocked: head.blocked,
        };
        Self {
            route: counts.route.to_string(),
            state: view.state.as_str(),
            pending: counts.of(Status::Pending),
            in_flight: counts.of(Status::InFlight),
            retrying: counts.of(Status::Retrying),
            blocked: counts.blocked,
            delivered: counts.of(Status::Delivered),
            dead: counts.of(Status::Dead),
            discarded: counts.of(Status::Discarded),
            at_least: counts.at_least.iter().map(|status| status.as_str()).collect(),
            oldest_due_age_seconds: counts.oldest_due_age.map(|age| thousandths(age.as_secs_f64())),
            in_per_second: thousandths(now.came),
            out_per_second: thousandths(now.went),
            blocked_by: counts.heads.iter().map(head).collect(),
            paused: counts.paused.as_ref().map(|pause| PauseJson {
                at: pause.at.to_string(),
                by: pause.actor.clone(),
                reason: pause.reason.clone(),
            }),
            outages: view.outages.newest().map(OutageJson::from).collect(),
        }
    }
}

fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// A relay as it was last seen.
#[derive(Serialize, ToSchema)]
pub(crate) struct RelayJson {
    route: String,
    owner: String,
    mode: String,
    wake: String,
    /// Whether it was silent for so long that it must have died or lost the database.
    gone: bool,
    in_flight: u64,
    /// `closed`, `open` or `probing`.
    circuit: &'static str,
    down_since: Option<String>,
    outages: u32,
    reason: Option<String>,
    started_at: String,
    seen_at: String,
    seen_seconds_ago: f64,
}

impl From<&RelaySeen> for RelayJson {
    fn from(relay: &RelaySeen) -> Self {
        Self {
            route: relay.route.to_string(),
            owner: relay.owner.clone(),
            mode: relay.mode.clone(),
            wake: relay.wake.clone(),
            gone: relay.is_gone(),
            in_flight: relay.in_flight,
            circuit: relay.circuit.as_str(),
            down_since: relay.down_since.map(|at| at.to_string()),
            outages: relay.outages,
            reason: relay.reason.as_ref().map(ToString::to_string),
            started_at: relay.started_at.to_string(),
            seen_at: relay.seen_at.to_string(),
            seen_seconds_ago: thousandths(relay.unseen_for.as_secs_f64()),
        }
    }
}

/// How many sagas there are.
#[derive(Serialize, ToSchema)]
pub(crate) struct SagaCountsJson {
    running: u64,
    blocked: u64,
    compensating: u64,
    compensation_failed: u64,
    completed: u64,
    compensated: u64,
    abandoned: u64,
    overdue: u64,
}

impl From<&SagaCounts> for SagaCountsJson {
    fn from(counts: &SagaCounts) -> Self {
        Self {
            running: counts.of(SagaStatus::Running),
            blocked: counts.of(SagaStatus::Blocked),
            compensating: counts.of(SagaStatus::Compensating),
            compensation_failed: counts.of(SagaStatus::CompensationFailed),
            completed: counts.of(SagaStatus::Completed),
            compensated: counts.of(SagaStatus::Compensated),
            abandoned: counts.of(SagaStatus::Abandoned),
            overdue: counts.overdue,
        }
    }
}

/// An entry's columns. The payload is only there if it was asked for.
#[derive(Serialize, ToSchema)]
pub(crate) struct EntryJson {
    seq: i64,
    event_id: String,
    route: String,
    #[serde(rename = "type")]
    event_type: String,
    key: Option<String>,
    /// The payload as it is stored, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    payload_bytes: usize,
    content_type: String,
    /// The headers, not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    tenant: Option<String>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    execution_id: Option<String>,
    occurred_at: Option<String>,
    priority: i16,
    group_id: Option<String>,
    status: &'static str,
    blocked_by: Option<String>,
    attempts: u32,
    crashes: u32,
    max_attempts: Option<u32>,
    due_at: Option<String>,
    fence: i64,
    owner: Option<String>,
    last_error: Option<String>,
    last_attempt_at: Option<String>,
    created_at: String,
    settled_at: Option<String>,
}

impl EntryJson {
    /// An entry of a list, without what its application wrote for its receivers only.
    pub(crate) fn listed(entry: &Entry) -> Self {
        Self { headers: None, ..Self::new(entry, false) }
    }

    /// An entry, with its payload if that was asked for.
    fn new(entry: &Entry, with_payload: bool) -> Self {
        let payload = json_payload(entry).filter(|_| with_payload);
        let payload_base64 = (with_payload && payload.is_none()).then(|| STANDARD.encode(&entry.payload));
        let headers = entry.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self {
            seq: entry.seq,
            event_id: entry.event_id.to_string(),
            route: entry.route.to_string(),
            event_type: entry.event_type.clone(),
            key: entry.key.clone(),
            payload,
            payload_base64,
            payload_bytes: entry.payload.len(),
            content_type: entry.content_type.clone(),
            headers: Some(headers.collect()),
            tenant: entry.tenant.clone(),
            correlation_id: entry.correlation_id.clone(),
            causation_id: entry.causation_id.clone(),
            execution_id: entry.execution_id.clone(),
            occurred_at: entry.occurred_at.map(|at| at.to_string()),
            priority: entry.priority,
            group_id: entry.group_id.clone(),
            status: entry.standing().as_str(),
            blocked_by: entry.blocked_by.map(|id| id.to_string()),
            attempts: entry.attempts,
            crashes: entry.crashes,
            max_attempts: entry.max_attempts,
            due_at: entry.due_at.map(|at| at.to_string()),
            fence: entry.fence.0,
            owner: entry.owner.clone(),
            last_error: entry.last_error.as_ref().map(ToString::to_string),
            last_attempt_at: entry.last_attempt_at.map(|at| at.to_string()),
            created_at: entry.created_at.to_string(),
            settled_at: entry.settled_at.map(|at| at.to_string()),
        }
    }
}

// The text itself is kept: a number of twenty digits stays one.
fn json_payload(entry: &Entry) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(&entry.payload).ok()?;
    serde_json::from_str::<Box<RawValue>>(text).ok()
}

/// One record of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditJson {
    /// The record's number in the trail.
    seq: i64,
    at: String,
    kind: &'static str,
    actor: String,
    event_id: Option<String>,
    route: Option<String>,
    saga_id: Option<String>,
    step: Option<String>,
    detail: String,
}

impl From<&AuditRecord> for AuditJson {
    fn from(record: &AuditRecord) -> Self {
        Self {
            seq: record.seq,
            at: record.at.to_string(),
            kind: record.kind.as_str(),
            actor: record.actor.clone(),
            event_id: record.event_id.map(|id| id.to_string()),
            route: record.route.as_ref().map(ToString::to_string),
            saga_id: record.saga_id.map(|id| id.to_string()),
            step: record.step.clone(),
            detail: record.detail.clone(),
        }
    }
}

/// Everything known about one event on one route.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoryJson {
    entry: EntryJson,
    audit: Vec<AuditJson>,
}

impl StoryJson {
    pub(crate) fn new(story: &Story, with_payload: bool) -> Self {
        let audit = story.audit.iter().map(AuditJson::from).collect();
        Self { entry: EntryJson::new(&story.entry, with_payload), audit }
    }
}

/// Entries of one type with one error.
#[derive(Serialize, ToSchema)]
pub(crate) struct GroupJson {
    #[serde(rename = "type")]
    event_type: String,
    /// The kind and the code of the last error.
    error: Option<String>,
    entries: u64,
}

impl From<&CountGroup> for GroupJson {
    fn from(group: &CountGroup) -> Self {
        let (event_type, error) = group.pair().unwrap_or_default();
        Self {
            event_type: event_type.to_owned(),
            error: error.map(ToOwned::to_owned),
            entries: group.entries,
        }
    }
}

/// A step of a saga.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepJson {
    name: String,
    handler: String,
    compensation: Option<String>,
    state: &'static str,
    error: Option<String>,
}

impl From<&StepRecord> for StepJson {
    fn from(step: &StepRecord) -> Self {
        Self {
            name: step.name.clone(),
            handler: step.handler.clone(),
            compensation: step.compensation.clone(),
            state: step.state.as_str(),
            error: step.error.clone(),
        }
    }
}

/// A saga.
#[derive(Serialize, ToSchema)]
pub(crate) struct SagaJson {
    id: String,
    name: String,
    route: String,
    subject: String,
    generation: u32,
    status: &'static str,
    steps: Vec<StepJson>,
    due_at: Option<String>,
    created_at: String,
    updated_at: String,
    ended_at: Option<String>,
}

impl From<&SagaRecord> for SagaJson {
    fn from(saga: &SagaRecord) -> Self {
        Self {
            id: saga.id.to_string(),
            name: saga.name.clone(),
            route: saga.route.to_string(),
            subject: saga.subject.to_string(),
            generation: saga.generation,
            status: saga.status.as_str(),
            steps: saga.steps.iter().map(StepJson::from).collect(),
            due_at: saga.due_at.map(|at| at.to_string()),
            created_at: saga.created_at.to_string(),
            updated_at: saga.updated_at.to_string(),
            ended_at: saga.ended_at.map(|at| at.to_string()),
        }
    }
}

/// One item of a saga's timeline.
#[derive(Serialize, ToSchema)]
pub(crate) struct TimelineJson {
    at: String,
    what: String,
    step: Option<String>,
    event_id: Option<String>,
    actor: Option<String>,
    detail: String,
}

impl From<&TimelineItem> for TimelineJson {
    fn from(item: &TimelineItem) -> Self {
        Self {
            at: item.at.to_string(),
            what: item.what.clone(),
            step: item.step.clone(),
            event_id: item.event_id.map(|id| id.to_string()),
            actor: item.actor.clone(),
            detail: item.detail.clone(),
        }
    }
}
