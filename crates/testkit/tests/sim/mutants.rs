//! Planted defects: each must be caught within a few seeds, by the invariant that it breaks, or the simulator
//! proves nothing.

use pillarbox_testkit::Mutant;
use pillarbox_testkit::sim::{Plan, SimMutant, run};

/// Worlds within which a defect must show. A night's run has a thousand times as many.
const SEEDS_MAX: u64 = 60;

/// Runs worlds with this defect until one fails; one of its violations must be of this invariant.
#[track_caller]
fn is_caught(mutant: impl Into<SimMutant>, invariant: &str) {
    let mutant = mutant.into();
    for seed in 1..=SEEDS_MAX {
        let world = run(&Plan::draw(seed).with_mutant(mutant)).unwrap();
        if world.violations.iter().any(|violation| violation.invariant == invariant) {
            println!("{mutant:?} was caught by seed {seed}:\n{world}");
            return;
        }
    }
    panic!("no world of {SEEDS_MAX} showed {mutant:?} by {invariant}");
}

#[test]
fn the_simulator_catches_a_settle_that_ignores_the_fence() {
    is_caught(Mutant::SettleIgnoresFence, "I-06");
}

#[test]
fn the_simulator_catches_a_claim_that_ignores_the_lease() {
    is_caught(Mutant::ClaimIgnoresLease, "I-05");
}

#[test]
fn the_simulator_catches_a_claim_that_is_not_counted() {
    is_caught(Mutant::ClaimIsNotCounted, "I-08");
}

#[test]
fn the_simulator_catches_a_cursor_that_passes_by_late_commits() {
    is_caught(Mutant::ReadsByLastSeq, "I-13");
}

#[test]
fn the_simulator_catches_a_rollback_that_leaks() {
    is_caught(Mutant::RollbackLeaks, "I-02");
}

#[test]
fn the_simulator_catches_a_reap_that_loses_entries() {
    is_caught(Mutant::ReapForgetsEntry, "I-01");
}

#[test]
fn the_simulator_catches_a_fence_that_does_not_grow() {
    is_caught(Mutant::FenceRestarts, "I-07");
}

#[test]
fn the_simulator_catches_dead_entries_that_vanish() {
    is_caught(Mutant::DeadIsDropped, "I-12");
}

#[test]
fn the_simulator_catches_released_entries_that_vanish() {
    is_caught(Mutant::ReleaseLosesEntry, "I-01");
}

#[test]
fn the_simulator_catches_a_sink_that_confirms_before_it_delivers() {
    is_caught(SimMutant::ConfirmBeforeDelivery, "I-01");
}

#[test]
fn the_simulator_catches_a_release_that_is_recorded_as_delivered() {
    is_caught(SimMutant::ReleaseIsDelivered, "I-01");
}

#[test]
fn the_simulator_catches_a_store_that_never_reaps() {
    is_caught(SimMutant::NeverReaps, "I-13");
}

#[test]
fn the_simulator_catches_a_lease_that_is_not_prolonged() {
    is_caught(SimMutant::ExtendDoesNothing, "I-05");
}

#[test]
fn the_simulator_catches_a_relay_that_stops_without_giving_back() {
    is_caught(SimMutant::ReleaseIsForgotten, "F-02");
}

#[test]
fn the_simulator_catches_a_relay_that_publishes_after_its_lease() {
    is_caught(SimMutant::PublishesTooLate, "lease");
}

#[test]
fn the_simulator_catches_a_relay_that_asks_in_a_loop() {
    is_caught(SimMutant::AsksInALoop, "I-15");
}
