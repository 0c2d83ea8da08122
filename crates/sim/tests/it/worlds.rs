//! Worlds of the system as it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pillarbox_sim::{Fault, Plan, Run, failure_report, run, seeds};

/// Seeds of a push: three hundred over all kinds of worlds. `cargo xtask ci --all` tries 200 of each kind.
const SEEDS: u64 = 90;
/// By lanes.
const LANE_SEEDS: u64 = 60;
/// By lanes and by rows.
const MIXED_SEEDS: u64 = 60;
/// With relays that are killed often, by rows, by lanes and by both.
const KILL_SEEDS: u64 = 40;
/// With sagas.
const SAGA_SEEDS: u64 = 40;
/// With sagas that are past their deadline.
const OVERDUE_SEEDS: u64 = 20;

const ALL_SEEDS: u64 = SEEDS + LANE_SEEDS + MIXED_SEEDS + KILL_SEEDS + SAGA_SEEDS + OVERDUE_SEEDS;

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
    let reached = keeps_every_promise("every_seed_keeps_every_promise", SEEDS, Plan::draw);
    strikes_with_everything(&reached);
}

#[test]
fn every_seed_keeps_every_promise_by_lanes() {
    let reached =
        keeps_every_promise("every_seed_keeps_every_promise_by_lanes", LANE_SEEDS, Plan::draw_lanes);
    strikes_with_everything(&reached);
}

#[test]
fn every_seed_keeps_every_promise_by_lanes_and_by_rows() {
    let test = "every_seed_keeps_every_promise_by_lanes_and_by_rows";
    strikes_with_everything(&keeps_every_promise(test, MIXED_SEEDS, Plan::draw_mixed));
}

#[test]
fn no_seed_kills_who_was_only_beside_a_crash() {
    let reached =
        keeps_every_promise("no_seed_kills_who_was_only_beside_a_crash", KILL_SEEDS, Plan::draw_killed);
    strikes_with(&reached, &[Fault::Crash, Fault::CrashAtCall, Fault::PoisonedEntry]);
}

#[test]
fn every_seed_keeps_every_promise_with_sagas() {
    let _ = keeps_every_promise("every_seed_keeps_every_promise_with_sagas", SAGA_SEEDS, Plan::draw_sagas);
}

#[test]
fn no_seed_undoes_a_step_that_nobody_knows_the_end_of() {
    let test = "no_seed_undoes_a_step_that_nobody_knows_the_end_of";
    let _ = keeps_every_promise(test, OVERDUE_SEEDS, Plan::draw_overdue);
}

/// Says what struck.
fn keeps_every_promise(test: &str, count: u64, draw: fn(u64) -> Plan) -> BTreeMap<Fault, u64> {
    let seeds = seeds(count).unwrap();
    let begun = Instant::now();
    let mut total = run_all(seeds.clone(), draw);
    total.failed.sort_by_key(|world| world.plan.seed);
    if let Some(world) = total.failed.into_iter().next() {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        panic!("{}", failure_report(world, test, &directory));
    }
    let Total { committed, deliveries, calls, reached, .. } = total;
    println!(
        "{test}: {} worlds in {:?}, of {ALL_SEEDS} over all kinds; {committed} committed, {deliveries} deliveries, \
         {calls} calls to the store",
        seeds.count(),
        begun.elapsed()
    );
    println!("faults: {reached:?}");
    reached
}

fn strikes_with_everything(reached: &BTreeMap<Fault, u64>) {
    strikes_with(reached, &Fault::ALL);
}

/// What never struck nothing was shown of. One seed alone shows what it shows.
fn strikes_with(reached: &BTreeMap<Fault, u64>, faults: &[Fault]) {
    if seeds(ALL_SEEDS).unwrap().count() >= 100 {
        let never: Vec<_> = faults.iter().filter(|fault| !reached.contains_key(fault)).collect();
        assert!(never.is_empty(), "these faults never struck, so nothing was shown of them: {never:?}");
    }
}

#[test]
fn three_hundred_worlds_are_tried() {
    const { assert!(ALL_SEEDS >= 300, "fewer worlds than promised") };
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in seeds(8).unwrap().take(8) {
        let draws = [Plan::draw, Plan::draw_lanes, Plan::draw_mixed, Plan::draw_killed, Plan::draw_sagas];
        for plan in draws.map(|draw| draw(seed)) {
            let (one, other) = (run(&plan).unwrap(), run(&plan).unwrap());
            assert!(one.history.to_jsonl() == other.history.to_jsonl(), "I-18: not deterministic: {plan}");
        }
    }
}
