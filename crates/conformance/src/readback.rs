//! Helpers for tests that read with a foreign client what a sink has published.

use std::process::Command;

use pillarbox_core::{Entry, Event};
use serde_json::Value;

use super::delivery::entry;

/// An entry that sets everything that an envelope carries, and an entry of bare bytes.
#[must_use]
pub fn published() -> [Entry; 2] {
    let full = Event::new("order.placed", br#"{"id": 7}"#.to_vec())
        .key("Euro \u{20ac} 100% \"\u{1f600}\"")
        .tenant("acme")
        .correlation_id("c-1")
        .causation_id("b-1")
        .execution_id("e-1")
        .header("shop", "north")
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let bytes = Event::new("blob", vec![0, 255, 13, 10]).content_type("application/octet-stream");
    [entry(full), entry(bytes)]
}

/// Asserts that these are the attributes of the first of those entries.
#[track_caller]
pub fn assert_attributes(attributes: &Value, full: &Entry, source: &str) {
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", full.event_id.to_string().as_str()),
        ("source", source),
        ("type", "order.placed"),
        ("subject", "Euro \u{20ac} 100% \"\u{1f600}\""),
        ("partitionkey", "Euro \u{20ac} 100% \"\u{1f600}\""),
        ("datacontenttype", "application/json"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("correlationid", "c-1"),
        ("causationid", "b-1"),
        ("tenantid", "acme"),
        ("executionid", "e-1"),
        ("pillarboxhlc", full.hlc.unwrap().to_string().as_str()),
        ("pillarboxseq", "1"),
    ] {
        assert_eq!(attributes[name], value, "{name}");
    }
}

/// Runs a Python script, and reads each line of its output as JSON.
///
/// # Panics
/// When the script fails.
pub fn python(program: &str, script: &str, arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(program).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
