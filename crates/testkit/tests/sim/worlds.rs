//! Worlds of the system as it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox_testkit::sim::{Fault, Plan, Run, failure_report, run, seeds};

/// Seeds of a push.
const SEEDS: u64 = 200;
/// Seeds of a push, by lanes.
const LANE_SEEDS: u64 = 150;

/// Seeds of a push, with sagas.
const SAGA_SEEDS: u64 = 150;

/// What happened over all seeds together.
#[derive(Default)]
struct Total {
    committed: u64,
    deliveries: u64,
    calls: u64,
    reached: BTreeMap<Fault, u64>,
    failed: Vec<Run>,
}

impl Total {
    fn add(&mut self, world: Run) {
        self.committed += world.committed;
        self.deliveries += world.deliveries;
        self.calls += world.calls;
        for (fault, times) in &world.reached {
            *self.reached.entry(*fault).or_default() += times;
        }
        if !world.violations.is_empty() {
            self.failed.push(world);
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.committed += other.committed;
        self.deliveries += other.deliveries;
        self.calls += other.calls;
        for (fault, times) in other.reached {
            *self.reached.entry(fault).or_default() += times;
        }
        self.failed.extend(other.failed);
        self
    }
}

/// Worlds do not touch each other: as many run at once as there are processors, up to the first failure.
fn run_all(seeds: std::ops::RangeInclusive<u64>, draw: fn(u64) -> Plan) -> Total {
    let next = AtomicU64::new(*seeds.start());
    let work = || {
        let mut total = Total::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > *seeds.end() {
                return total;
            }
            total.add(run(&draw(seed)).unwrap());
            if !total.failed.is_empty() {
                next.store(seeds.end() + 1, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).fold(Total::default(), Total::merge)
    })
}

#[test]
fn every_seed_keeps_every_promise() {
    keeps_every_promise("every_seed_keeps_every_promise", SEEDS, Plan::draw);
}

#[test]
fn every_seed_keeps_every_promise_by_lanes() {
    keeps_every_promise("every_seed_keeps_every_promise_by_lanes", LANE_SEEDS, Plan::draw_lanes);
}

#[test]
fn every_seed_keeps_every_promise_with_sagas() {
    let test = "every_seed_keeps_every_promise_with_sagas";
    let mut total = run_all(seeds(SAGA_SEEDS).unwrap(), Plan::draw_sagas);
    total.failed.sort_by_key(|world| world.plan.seed);
    if let Some(world) = total.failed.into_iter().next() {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        panic!("{}", failure_report(world, test, &directory));
    }
    println!("{} calls to the store, faults: {:?}", total.calls, total.reached);
}

fn keeps_every_promise(test: &str, count: u64, draw: fn(u64) -> Plan) {
    let seeds = seeds(count).unwrap();
    let mut total = run_all(seeds.clone(), draw);
    total.failed.sort_by_key(|world| world.plan.seed);
    if let Some(world) = total.failed.into_iter().next() {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        panic!("{}", failure_report(world, test, &directory));
    }
    let Total { committed, deliveries, calls, reached, .. } = total;
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
        for plan in [Plan::draw(seed), Plan::draw_lanes(seed), Plan::draw_sagas(seed)] {
            let (one, other) = (run(&plan).unwrap(), run(&plan).unwrap());
            assert!(one.history.to_jsonl() == other.history.to_jsonl(), "I-18: not deterministic: {plan}");
        }
    }
}
