//! The dashboard and the rules that are shipped know these metrics and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pillarbox_core::Event;
use pillarbox_metrics::{Metrics, Pool, StoreSample};
use pillarbox_testkit::{MemorySink, MemoryStore};
use serde_json::Value;

use crate::rig::{TRACEPARENT, relay, stage};

/// Metrics of which every one has a value that a relay or a consumer counts. What was staged only an application can
/// tell, so the dashboard does not ask for it.
async fn live() -> Metrics {
    let (store, metrics) = (MemoryStore::new(), Metrics::new());
    stage(&store, "orders", Event::new("a", "{}").header("traceparent", TRACEPARENT)).await;
    relay(&store, Arc::new(MemorySink::new()), "orders", &metrics).build().unwrap().drain().await.unwrap();
    drop(metrics.consumer("billing"));
    let sample = StoreSample::read(&store, &store, &store, []).await.unwrap();
    let sample = sample.pool(Some(Pool { open: 1, idle: 1, max: 4 }));
    metrics.set_store(&sample.accepted(BTreeMap::from([("billing".to_owned(), 0.5)])));
    metrics
}

fn shipped(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(shipped(path)).unwrap()
}

/// Every word of a text that is the name of a metric of ours.
fn names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("pillarbox_"))
        .map(str::to_owned)
        .collect()
}

/// Names of samples in the text of a scrape.
fn samples(text: &str) -> BTreeSet<String> {
    let name = |line: &str| line.split(['{', ' ']).next().unwrap().to_owned();
    text.lines().filter(|line| !line.starts_with('#')).map(name).collect()
}

/// The expressions of the dashboard, and the queries of its variables.
fn expressions(dashboard: &Value) -> String {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let of_panels = targets.map(|target| target["expr"].as_str().unwrap());
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let of_variables = variables.map(|variable| variable["query"].as_str().unwrap());
    of_panels.chain(of_variables).collect::<Vec<_>>().join("\n")
}

fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let program = std::env::var("PILLARBOX_TEST_PROMTOOL").expect(
        "PILLARBOX_TEST_PROMTOOL is not set: run this through `cargo xtask services promtool -- cargo test`",
    );
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(shipped("prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn every_metric_of_the_dashboard_and_of_the_rules_is_there() {
    let there = samples(&live().await.encode());
    let dashboard: Value = serde_json::from_str(&read("grafana/pillarbox.json")).unwrap();
    let rules = read("prometheus/pillarbox.rules.yml");
    let rules: String = rules.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    for (place, named) in [("dashboard", names(&expressions(&dashboard))), ("rules", names(&rules))] {
        assert!(named.len() > 5, "{place} names only {named:?}");
        let unknown: Vec<_> = named.difference(&there).collect();
        assert!(unknown.is_empty(), "the {place} asks for {unknown:?}, but there is only {there:?}");
    }
}

#[tokio::test]
async fn every_metric_is_on_the_dashboard() {
    let dashboard: Value = serde_json::from_str(&read("grafana/pillarbox.json")).unwrap();
    let shown = names(&expressions(&dashboard));
    let is_shown = |name: &str| {
        let base = name.strip_suffix("_count").or(name.strip_suffix("_sum")).unwrap_or(name);
        shown.contains(name) || shown.contains(&format!("{base}_bucket")) || name == "pillarbox_build_info"
    };
    let missing: Vec<_> =
        samples(&live().await.encode()).into_iter().filter(|name| !is_shown(name)).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let (accepted, said) = promtool(&["check", "metrics"], &live().await.encode_plain());
    assert!(accepted, "{said}");
    let (accepted, said) = promtool(&["check", "metrics"], "pillarbox_a{ 1\n");
    assert!(!accepted, "promtool accepts everything: {said}");
}

#[test]
fn promtool_accepts_the_rules_and_they_tell_what_they_should() {
    let (accepted, said) = promtool(&["check", "rules", "pillarbox.rules.yml"], "");
    assert!(accepted, "{said}");
    let (passed, said) = promtool(&["test", "rules", "pillarbox.rules.test.yml"], "");
    assert!(passed, "{said}");
}
