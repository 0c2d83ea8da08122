//! What a failing world leaves behind.

use std::path::Path;

use pillarbox_sim::{Fault, Plan, failure_report, run};
use pillarbox_testkit::Mutant;

#[test]
fn a_failing_world_is_made_smaller_and_says_how_to_run_it_again() {
    let plan = Plan::draw(1).with(Fault::Rollback, 300).with_mutant(Mutant::RollbackLeaks);
    let (producers, transactions) = (plan.producers, plan.transactions);
    let failed = run(&plan).unwrap();
    assert!(!failed.violations.is_empty(), "{failed}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sim-report");
    let report = failure_report(failed, "a_test", &directory);
    assert!(report.contains("PILLARBOX_SEED=1 cargo test -p pillarbox-sim --test it a_test"), "{report}");
    let smaller = report.rsplit("seed 1: ").next().unwrap();
    assert!(!smaller.starts_with(&format!("{producers} producers x {transactions} ")), "{report}");
    for history in ["history-1.jsonl", "history-1-shrunk.jsonl"] {
        let text = std::fs::read_to_string(directory.join(history)).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert!(first["at"].is_number() && first["what"].is_string(), "{first}");
    }
}
