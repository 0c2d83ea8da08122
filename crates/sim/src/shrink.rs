//! Making a failing world smaller, so that its history can be read.

use super::fault::Fault;
use super::plan::Plan;
use super::run::{Run, run};

/// Most worlds that are tried.
const RUNS_MAX: u32 = 200;

/// The smallest failing world that was found.
#[must_use]
pub struct Shrunk {
    /// That world.
    pub run: Run,
    /// Worlds that were tried on the way.
    pub tried: u32,
}

/// Drops actors, then events, then kinds of faults, for as long as the same invariant still fails.
///
/// # Errors
/// Only when no runtime can be started.
pub fn shrink(failed: Run) -> pillarbox_core::Result<Shrunk> {
    let mut shrunk = Shrunk { run: failed, tried: 0 };
    // Twice: what could not be dropped at first can often be dropped once something else is gone.
    for _ in 0..2 {
        for step in steps(&shrunk.run.plan) {
            // The same step again for as long as it helps.
            loop {
                let mut plan = shrunk.run.plan.clone();
                if !step(&mut plan) {
                    break;
                }
                if shrunk.tried == RUNS_MAX {
                    return Ok(shrunk);
                }
                shrunk.tried += 1;
                let run = run(&plan)?;
                if !fails_alike(&shrunk.run, &run) {
                    break;
                }
                shrunk.run = run;
            }
        }
    }
    Ok(shrunk)
}

fn fails_alike(one: &Run, other: &Run) -> bool {
    one.violations
        .iter()
        .any(|violation| other.violations.iter().any(|candidate| candidate.invariant == violation.invariant))
}

/// Makes a plan a little smaller; `false` when it cannot.
type Reduction = Box<dyn Fn(&mut Plan) -> bool>;

/// Ways to make a world smaller, the best hope first.
fn steps(plan: &Plan) -> Vec<Reduction> {
    let mut steps: Vec<Reduction> = vec![
        Box::new(|plan| halve(&mut plan.relays)),
        Box::new(|plan| halve(&mut plan.producers)),
        Box::new(|plan| halve(&mut plan.transactions)),
    ];
    let faults: Vec<Fault> = plan.faults.keys().copied().collect();
    for size in [8, 1] {
        for some in faults.chunks(size) {
            let some = some.to_vec();
            steps.push(Box::new(move |plan| {
                let before = plan.faults.len();
                plan.faults.retain(|fault, _| !some.contains(fault));
                plan.faults.len() < before
            }));
        }
    }
    steps.push(Box::new(|plan| decrease(&mut plan.relays)));
    steps.push(Box::new(|plan| decrease(&mut plan.producers)));
    steps.push(Box::new(|plan| decrease(&mut plan.transactions)));
    steps
}

fn halve(number: &mut u32) -> bool {
    let smaller = (*number / 2).max(1);
    std::mem::replace(number, smaller) > smaller
}

fn decrease(number: &mut u32) -> bool {
    let smaller = number.saturating_sub(1).max(1);
    std::mem::replace(number, smaller) > smaller
}
