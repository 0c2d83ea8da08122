//! `pillarbox stage`

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::{Home, Said};

const ID: &str = "0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e";

fn with_input(home: &Home, args: &[&str], input: &[u8]) -> Said {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

fn only_entry(home: &Home) -> Value {
    let entries = home.ok(["list", "--json"]).lines();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].clone()
}

#[test]
fn an_event_round_trips_with_everything_that_was_said() {
    let home = Home::migrated();
    let said = home.ok([
        "stage",
        "--route",
        "orders",
        "--type",
        "order.placed",
        "--key",
        "o-1",
        "--payload",
        r#"{"b":1.50, "a":[]}"#,
        "--header",
        "shop=north",
        "--header",
        "empty=",
        "--event-id",
        ID,
        "--tenant",
        "t1",
        "--correlation-id",
        "c1",
        "--causation-id",
        "c0",
        "--execution-id",
        "e1",
        "--occurred-at",
        "2026-01-31T12:00:00Z",
        "--priority",
        "-5",
        "--group-id",
        "g1",
        "--max-attempts",
        "7",
        "--json",
    ]);
    assert_eq!(said.json(), json!({"event_id": ID, "outcome": "staged"}));
    let entry = only_entry(&home);
    for (name, value) in [
        ("event_id", json!(ID)),
        ("route", json!("orders")),
        ("type", json!("order.placed")),
        ("key", json!("o-1")),
        ("content_type", json!("application/json")),
        ("headers", json!({"shop": "north", "empty": ""})),
        ("tenant", json!("t1")),
        ("correlation_id", json!("c1")),
        ("causation_id", json!("c0")),
        ("execution_id", json!("e1")),
        ("occurred_at", json!("2026-01-31T12:00:00Z")),
        ("priority", json!(-5)),
        ("group_id", json!("g1")),
        ("max_attempts", json!(7)),
        ("status", json!("pending")),
        ("attempts", json!(0)),
        ("settled_at", Value::Null),
    ] {
        assert_eq!(entry[name], value, "{name}");
    }
    let shown = home.ok(["list", "--json"]).stdout;
    assert!(shown.contains(r#""payload":{"b":1.50, "a":[]}"#), "the text itself is kept: {shown}");
}

#[test]
fn the_same_event_id_on_the_same_route_is_a_duplicate() {
    let home = Home::migrated();
    let stage = |route: &str, payload: &str| {
        home.ok(["stage", "--route", route, "--type", "t", "--payload", payload, "--event-id", ID, "--json"])
            .json()
    };
    assert_eq!(stage("a", "1"), json!({"event_id": ID, "outcome": "staged"}));
    assert_eq!(stage("a", "2"), json!({"event_id": ID, "outcome": "duplicate"}));
    assert_eq!(stage("b", "3"), json!({"event_id": ID, "outcome": "staged"}));
    let payloads: Vec<_> =
        home.ok(["list", "--json"]).lines().iter().map(|entry| entry["payload"].clone()).collect();
    assert_eq!(payloads, [1, 3]);
    let said = home.ok(["stage", "--route", "a", "--type", "t", "--payload", "4", "--event-id", ID]);
    assert_eq!(said.stdout.trim(), ID);
    assert!(said.stderr.contains("duplicate"), "{said:?}");
}

#[test]
fn a_payload_comes_from_a_file_or_from_stdin_byte_for_byte() {
    let home = Home::migrated();
    home.write("event.json", "{\n  \"id\": 1\n}\n");
    home.ok(["stage", "--route", "r", "--type", "t", "--payload", "@event.json"]);
    assert_eq!(only_entry(&home)["payload"], json!({"id": 1}));

    let home = Home::migrated();
    let args = ["stage", "--route", "r", "--type", "t", "--payload", "-", "--content-type", "image/png"];
    assert_eq!(with_input(&home, &args, &[0, 159, 255]).code, 0);
    let entry = only_entry(&home);
    assert_eq!(entry["payload_base64"], "AJ//");
    assert_eq!(entry.get("payload"), None);
}

#[test]
fn a_delayed_event_is_invisible_until_due() {
    let home = Home::migrated();
    home.ok(["stage", "--route", "r", "--type", "t", "--payload", "1", "--delay", "1h"]);
    let said = home.ok(["relay", "--drain", "--route", "r", "--to", "file:out.ndjson", "--json"]);
    assert_eq!(said.json()["claimed"], 0);
    assert_eq!(home.totals()["pending"], 1);
    assert_eq!(home.totals()["oldest_due_age_seconds"], Value::Null);
}

#[test]
fn ndjson_stages_every_line_of_a_file_or_of_stdin() {
    let home = Home::migrated();
    let lines = format!(
        "{}\n\n{}\n{}",
        json!({"route": "a", "type": "t", "payload": {"n": 1}, "event_id": ID, "headers": {"h": "v"}}),
        json!({"route": "b", "type": "t", "payload": null, "event_id": ID, "key": "k", "delay": "1h"}),
        json!({"route": "a", "type": "t", "payload_base64": "AP8=", "content_type": "image/png", "event_id": ID}),
    );
    home.write("events.ndjson", &lines);
    let said = home.ok(["stage", "--ndjson", "events.ndjson", "--json"]);
    assert_eq!(said.json(), json!({"staged": 2, "duplicates": 1}));
    let said = with_input(&home, &["stage", "--ndjson", "-", "--json"], lines.as_bytes());
    assert_eq!(said.json(), json!({"staged": 0, "duplicates": 3}));
    let said = with_input(&home, &["stage", "--ndjson", "-"], b"");
    assert_eq!((said.code, said.stdout.trim()), (0, "0 staged, 0 duplicates"));
}

#[test]
fn a_bad_line_is_named_and_nothing_of_that_run_is_staged() {
    let home = Home::migrated();
    let good = json!({"route": "r", "type": "t", "payload": 1}).to_string();
    for (bad, with) in [
        ("{", "EOF"),
        (r#"{"route":"r","type":"t"}"#, "payload"),
        (r#"{"route":"r","type":"t","payload":1,"prio":2}"#, "prio"),
        (r#"{"route":"","type":"t","payload":1}"#, "route must not be empty"),
        ("[1]", "invalid type"),
    ] {
        // Beyond the first batches: what they staged goes too.
        let mut lines: Vec<&str> = vec![&good; 2500];
        lines.push(bad);
        lines.push(&good);
        home.write("events.ndjson", &lines.join("\n"));
        home.run(["stage", "--ndjson", "events.ndjson"])
            .refused(2, &["line 2501:", with, "nothing was staged"]);
        assert_eq!(home.totals()["pending"], 0);
    }
    home.run(["stage", "--ndjson", "nowhere.ndjson"]).refused(2, &["nowhere.ndjson"]);
    home.run(["stage", "--ndjson", "x", "--route", "r"]).refused(2, &["cannot be used with"]);
}
