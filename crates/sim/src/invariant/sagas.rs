//! I-09, I-10 and I-11: a saga ends once, what is known of it is in its trail, and it goes back the way it came.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::{
    AuditKind, AuditRecord, Direction, SagaId, SagaRecord, SagaStatus, Status, StepRecord, StepState,
};
use pillarbox_testkit::JumpingClock;

use super::super::fault::Fault;
use super::super::history::Happened;
use super::{Check, Evidence, Findings};

pub(super) const CHECKS: &[Check] = &[super::broken::check, ends_once, trail, compensation, deadlines];

/// I-09: one end, one mark of the callback, one record; and never while all entries are at their end without it.
fn ends_once(evidence: &Evidence, findings: &mut Findings) {
    for saga in &evidence.sagas {
        let id = saga.id;
        let count = |kind: AuditKind| {
            evidence.audit.iter().filter(|record| record.saga_id == Some(id) && record.kind == kind).count()
        };
        let (completed, compensated) = (count(AuditKind::Completed), count(AuditKind::Compensated));
        let ends = usize::from(saga.status == SagaStatus::Completed);
        if completed != ends || compensated != usize::from(saga.status == SagaStatus::Compensated) {
            let status = saga.status;
            findings.add(
                "I-09",
                format!("{id} is {status}, completed {completed}, compensated {compensated} times"),
            );
        }
        let abandoned = saga.status == SagaStatus::Abandoned;
        if count(AuditKind::Abandoned) != usize::from(abandoned) {
            findings.add("I-09", format!("{id} is {} and abandoned in its trail", saga.status));
        }
        // Whoever abandons a saga does it without the application.
        if evidence.ended.contains(&id) != (saga.status.is_ended() && !abandoned) {
            findings.add("I-09", format!("{id} is {} and its callback was not of that opinion", saga.status));
        }
        let open = evidence.rows.iter().any(|row| saga.find(row.id).is_some() && !row.status.is_terminal());
        let dead = evidence.rows.iter().any(|row| saga.find(row.id).is_some() && row.status == Status::Dead);
        if !saga.status.is_ended() && !open && !dead {
            findings.add("I-09", format!("{id} is {} and nothing of it is left to do", saga.status));
        }
        if abandoned && (open || dead) {
            findings.add("I-09", format!("{id} is abandoned and something of it may still run"));
        }
        let done = |step: &StepRecord| matches!(step.state, StepState::Done | StepState::Skipped);
        let done = saga.steps.iter().all(done);
        if (saga.status == SagaStatus::Completed) != done && !abandoned {
            findings.add("I-09", format!("{id} is {}, all steps done: {done}", saga.status));
        }
    }
}

/// I-10 at the end.
fn trail(evidence: &Evidence, findings: &mut Findings) {
    for saga in &evidence.sagas {
        if let Some(detail) = missing(saga, &evidence.audit) {
            findings.add("I-10", detail);
        }
    }
}

/// What of a saga's state is not in the trail.
pub(crate) fn missing(saga: &SagaRecord, audit: &[AuditRecord]) -> Option<String> {
    let has = |kind: AuditKind, step: Option<&str>| {
        audit.iter().any(|record| {
            record.saga_id == Some(saga.id)
                && record.kind == kind
                && (step.is_none() || record.step.as_deref() == step)
        })
    };
    let wants = |state: StepState| match state {
        StepState::Done => Some(AuditKind::StepSucceeded),
        StepState::Dead | StepState::Failed => Some(AuditKind::StepFailed),
        StepState::Skipped => Some(AuditKind::StepSkipped),
        StepState::Compensated => Some(AuditKind::StepCompensated),
        StepState::CompensationFailed => Some(AuditKind::CompensationFailed),
        _ => None,
    };
    let step =
        saga.steps.iter().find(|step| wants(step.state).is_some_and(|kind| !has(kind, Some(&step.name))));
    if let Some(step) = step {
        return Some(format!("step {} of {} is {} without a record", step.name, saga.id, step.state));
    }
    let end = match saga.status {
        SagaStatus::Completed => AuditKind::Completed,
        SagaStatus::Compensated => AuditKind::Compensated,
        SagaStatus::Abandoned => AuditKind::Abandoned,
        _ => return None,
    };
    (!has(end, None)).then(|| format!("{} is {} without a record", saga.id, saga.status))
}

/// I-11: in reverse, only what may have run, and all of it.
fn compensation(evidence: &Evidence, findings: &mut Findings) {
    #[derive(Default)]
    struct Seen {
        claimed: BTreeSet<u32>,
        done: BTreeSet<u32>,
        undone: Vec<u32>,
    }
    // A relay that stood still past its lease, or whose lease was cut by the clock, may begin what is not its any more.
    let zombies = [Fault::Freeze, Fault::ClockForward, Fault::LateEffect];
    let zombies = zombies.iter().any(|fault| evidence.plan.faults.contains_key(fault));
    let mut seen: BTreeMap<SagaId, Seen> = BTreeMap::new();
    let mut keys = BTreeMap::new();
    for saga in &evidence.sagas {
        for direction in [Direction::Forward, Direction::Compensation] {
            let steps = (0_u32..).zip(&saga.steps);
            keys.extend(steps.map(|(n, step)| (saga.key_of(&step.name, direction), (saga.id, n, direction))));
        }
    }
    for record in &evidence.records {
        match record.what {
            // By claims and not by runs: what was claimed may have run, whoever held it may have died before it could
            // tell; and a compensation that died without a run has had its turn.
            Happened::Granted { id, .. } => {
                let Some((saga, step, direction)) = keys.get(&id).copied() else { continue };
                let seen = seen.entry(saga).or_default();
                if direction == Direction::Forward {
                    seen.claimed.insert(step);
                    continue;
                }
                if !seen.claimed.contains(&step) {
                    findings
                        .add("I-11", format!("step {step} of {saga} was undone and nobody had ever had it"));
                }
                if !seen.undone.contains(&step) {
                    if seen.undone.last().is_some_and(|last| *last < step) {
                        findings.add("I-11", format!("{saga} undid {:?} and then {step}", seen.undone));
                    }
                    seen.undone.push(step);
                }
            }
            Happened::StepBegan { saga, step, direction: Direction::Forward } => {
                let turned_back = seen.get(&saga).is_some_and(|seen| !seen.undone.is_empty());
                if turned_back && !zombies {
                    findings.add("I-11", format!("step {step} of {saga} began after its saga turned back"));
                }
            }
            Happened::StepDone { saga, step, direction: Direction::Forward } => {
                seen.entry(saga).or_default().done.insert(step);
            }
            _ => {}
        }
    }
    for saga in evidence.sagas.iter().filter(|saga| saga.status == SagaStatus::Compensated) {
        let Some(seen) = seen.get(&saga.id) else { continue };
        for (number, step) in (0_u32..).zip(&saga.steps) {
            let undone = seen.undone.contains(&number);
            if step.compensation.is_some() && seen.done.contains(&number) && !undone {
                findings.add("I-11", format!("{} is compensated, and step {} was done", saga.id, step.name));
            }
        }
    }
}

/// I-11: past its deadline a saga gives up only a step of whose last run it is known what came of it.
fn deadlines(evidence: &Evidence, findings: &mut Findings) {
    // Whoever begins a step under a lease that is over is not who is waited for; and times are compared here.
    let excused = [Fault::Freeze, Fault::ClockForward, Fault::ClockBackward, Fault::LateEffect];
    if excused.iter().any(|fault| evidence.plan.faults.contains_key(fault)) {
        return;
    }
    let given_up = evidence
        .audit
        .iter()
        .filter(|record| record.kind == AuditKind::StepFailed && record.detail.contains("failed/deadline"));
    for record in given_up {
        let Some(saga) = evidence.sagas.iter().find(|saga| record.saga_id == Some(saga.id)) else { continue };
        let steps = (0_u32..).zip(&saga.steps);
        let number =
            steps.filter(|(_, step)| record.step.as_deref() == Some(&*step.name)).map(|(n, _)| n).next();
        let until = (record.at.as_micros() - JumpingClock::ORIGIN_MICROS).div_euclid(1_000);
        let mut known = true;
        for happened in evidence.records.iter().filter(|happened| happened.db <= until) {
            match happened.what {
                Happened::StepBegan { saga: of, step, direction: Direction::Forward }
                    if of == saga.id && Some(step) == number =>
                {
                    known = false;
                }
                Happened::StepAnswered { saga: of, step, direction: Direction::Forward }
                    if of == saga.id && Some(step) == number =>
                {
                    known = true;
                }
                _ => {}
            }
        }
        if !known {
            let step = record.step.as_deref().unwrap_or_default();
            findings.add(
                "I-11",
                format!(
                    "{} gave up {step} at its deadline, and nobody knew what came of its last run",
                    saga.id
                ),
            );
        }
    }
}
