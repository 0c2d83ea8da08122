//! I-15: no relay asks the store more often than its polling allows, whatever goes wrong; and an idle one is quiet.

use std::time::Duration;

use super::super::history::{Happened, Record};
use super::{Evidence, Findings};

/// Renewals, reaps, retries of failed calls and wake-ups of one second, generously.
const CALLS_BESIDE_POLLS_MAX: u64 = 120;

/// A relay by lanes looks at least this often whether others have come or gone.
const SIGNS_INTERVAL_MAX: Duration = Duration::from_secs(1);

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let poll_min = u64::try_from(evidence.plan.options.poll_min.as_millis()).unwrap_or(1).max(1);
    // Waits grow while nothing is found and are spread by up to a quarter downwards.
    let polls = 1_000 * 4 / 3 / poll_min + 1;
    // By lanes a claim may be a heartbeat, a hand-over, a read, a look at what is dead, and a second read.
    let polls = if evidence.plan.lanes.is_some() { polls * 5 } else { polls };
    for ((who, second), calls) in &evidence.calls {
        // A call that moves entries may be followed by one that finds nothing.
        let most = CALLS_BESIDE_POLLS_MAX + polls + 2 * calls.useful;
        if calls.all > most {
            findings.add(
                "I-15",
                format!("{who} made {} idle calls in second {second}; at most {most}", calls.all),
            );
        }
    }
    idle(evidence, findings);
}

fn idle(evidence: &Evidence, findings: &mut Findings) {
    let quiet =
        evidence.records.iter().find(|record| matches!(record.what, Happened::Quiet { undrained: 0 }));
    let Some(quiet) = quiet else { return };
    let options = &evidence.plan.options;
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(1).max(1);
    let mut signs_interval = options.reap_interval;
    if evidence.plan.lanes.is_some() {
        signs_interval = signs_interval.min(options.lease / 4).min(SIGNS_INTERVAL_MAX);
    }
    // Relays that come and go move lanes between the idle ones.
    let moves = if evidence.plan.lanes.is_some() { 8 } else { 0 };
    let most = 1_000 * 4 / 3 / millis(options.poll_max) + 1_000 / millis(signs_interval) + 3 + moves;
    for ((who, second), calls) in &evidence.calls {
        let started =
            |record: &&Record| matches!(record.what, Happened::Started { .. }) && record.who == *who;
        let started_at = evidence.records.iter().find(started).map_or(0, |record| record.at);
        let idle_from = (quiet.at.max(started_at) + millis(evidence.plan.calming_down())) / 1_000 + 1;
        if *second >= idle_from && calls.all + calls.useful > most {
            findings.add(
                "I-15",
                format!("the idle {who} made {calls:?} calls in second {second}; at most {most}"),
            );
        }
    }
}
