//! Worlds of the system as it is.

use std::collections::BTreeMap;
use std::path::Path;

use pillarbox_testkit::sim::{Fault, Plan, failure_report, run, seeds};

/// Seeds of a push.
const SEEDS: u64 = 200;

#[test]
fn every_seed_keeps_every_promise() {
    let mut reached: BTreeMap<Fault, u64> = BTreeMap::new();
    let (mut committed, mut deliveries, mut calls) = (0, 0, 0);
    let seeds = seeds(SEEDS).unwrap();
    for seed in seeds.clone() {
        let world = run(&Plan::draw(seed)).unwrap();
        for (fault, times) in &world.reached {
            *reached.entry(*fault).or_default() += times;
        }
        committed += world.committed;
        deliveries += world.deliveries;
        calls += world.calls;
        if !world.violations.is_empty() {
            let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sim");
            panic!("{}", failure_report(world, "every_seed_keeps_every_promise", &directory));
        }
    }
    println!("seeds {seeds:?}: {committed} committed, {deliveries} deliveries, {calls} calls to the store");
    println!("faults: {reached:?}");
    if seeds.count() >= 100 {
        let never: Vec<_> = Fault::ALL.into_iter().filter(|fault| !reached.contains_key(fault)).collect();
        assert!(never.is_empty(), "these faults never struck, so nothing was shown of them: {never:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in seeds(20).unwrap().take(20) {
        let plan = Plan::draw(seed);
        let (one, other) = (run(&plan).unwrap(), run(&plan).unwrap());
        assert!(one.history.to_jsonl() == other.history.to_jsonl(), "I-18: seed {seed} is not deterministic");
    }
}
