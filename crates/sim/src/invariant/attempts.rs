//! I-08: attempts are the claims that were not given back; nothing is claimed beyond what is allowed; an entry is
//! dead exactly when its attempts are spent or it was refused for good; and each claim is handed over once.

use std::collections::BTreeSet;

use pillarbox_core::{FailureKind, Status, attempts_counted};

use super::super::history::Settling;
use super::super::life::{Life, LifeEvent, State, What};
use super::{Evidence, Findings};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for life in &evidence.lives {
        let (mut granted, mut handed) = (BTreeSet::new(), BTreeSet::new());
        evidence.walk(life, |state, step| {
            if let Some(wrong) = wrong(state, step) {
                findings.add("I-08", told(life, step, &wrong));
            }
            match step.what {
                What::Granted { fence, .. } => drop(granted.insert(fence)),
                // By lanes an entry may be handed over again under the fence of its lane.
                What::Handed { fence } if granted.contains(&fence) && !handed.insert(fence) => {
                    findings.add("I-08", told(life, step, &format!("handed over twice under fence {fence}")));
                }
                _ => {}
            }
        });
    }
}

fn told(life: &Life, step: &LifeEvent, wrong: &str) -> String {
    format!("at {} ms seq {} by {}: {wrong}", step.at, life.seq, step.who)
}

fn wrong(state: &State, step: &LifeEvent) -> Option<String> {
    match step.what {
        What::Granted { attempts, max_attempts, .. } if attempts != state.attempts + 1 => {
            Some(format!("claimed as attempt {attempts} of {max_attempts}, after {}", state.attempts))
        }
        What::Granted { attempts, max_attempts, .. }
            if attempts_counted(attempts, state.crashes) > max_attempts =>
        {
            Some(format!("claimed as attempt {attempts} of {max_attempts}"))
        }
        What::Settled { verdict, accepted: true, .. } => wrong_verdict(state, verdict),
        What::Reaped { to } => {
            let spent = attempts_counted(state.attempts, state.crashes + 1) >= state.max_attempts;
            let right = if spent { Status::Dead } else { Status::Retrying };
            (to != Some(right)).then(|| format!("reaped to {to:?} instead of {right}"))
        }
        What::Seen(Some(row)) if row.attempts != state.attempts => {
            Some(format!("has {} attempts instead of {}", row.attempts, state.attempts))
        }
        _ => None,
    }
}

fn wrong_verdict(state: &State, verdict: Settling) -> Option<String> {
    let spent = attempts_counted(state.attempts, state.crashes) >= state.max_attempts;
    match verdict {
        Settling::Dead(kind) => {
            let for_good = matches!(
                kind,
                FailureKind::Rejected | FailureKind::Undecodable | FailureKind::UnknownHandler
            );
            (!for_good && !spent)
                .then(|| format!("dead of {kind:?} at attempt {} of {}", state.attempts, state.max_attempts))
        }
        Settling::Retry if spent => {
            Some(format!("to be retried after attempt {} of that many", state.attempts))
        }
        _ => None,
    }
}
