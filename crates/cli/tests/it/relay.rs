//! `pillarbox relay`

use serde_json::{Value, json};

use crate::home::{Home, eventually};

#[test]
fn a_drain_writes_complete_cloudevents_lines_and_prints_its_tally() {
    let home = Home::migrated();
    home.ok([
        "stage",
        "--route",
        "orders",
        "--type",
        "order.placed",
        "--key",
        "o-1",
        "--payload",
        r#"{"id":1}"#,
    ]);
    home.ok([
        "stage",
        "--route",
        "orders",
        "--type",
        "photo.added",
        "--payload",
        "hé",
        "--content-type",
        "text/plain",
    ]);
    home.ok(["stage", "--route", "other", "--type", "t", "--payload", "1"]);
    let said = home.ok(["relay", "--drain", "--route", "orders", "--to", "file:out.ndjson", "--json"]);
    let mut tally = said.json();
    assert!(tally["seconds"].take().is_number());
    assert_eq!(
        tally,
        json!({"claimed": 2, "delivered": 2, "retried": 0, "dead": 0, "released": 0, "fenced": 0, "seconds": null})
    );
    let lines: Vec<Value> =
        home.read("out.ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["specversion"], "1.0");
        assert!(line["id"].is_string() && line["source"].is_string() && line["time"].is_string(), "{line}");
    }
    assert_eq!((&lines[0]["type"], &lines[0]["subject"]), (&json!("order.placed"), &json!("o-1")));
    assert_eq!(lines[0]["data"], json!({"id": 1}));
    assert_eq!(lines[1]["datacontenttype"], "text/plain");
    assert_eq!(home.totals()["delivered"], 2);
    assert_eq!(home.totals()["pending"], 1);

    let again = home.ok(["relay", "--drain", "--route", "orders", "--to", "file:out.ndjson", "--json"]);
    assert_eq!(again.json()["claimed"], 0);
    assert_eq!(home.read("out.ndjson").lines().count(), 2);
}

#[test]
fn stdout_carries_the_events_alone() {
    let home = Home::migrated();
    home.stage_many("r", 3);
    let said = home.ok(["relay", "--drain", "--route", "r", "--to", "stdout:", "--json"]);
    assert_eq!(said.lines().len(), 3);
    assert!(said.lines().iter().all(|line| line["specversion"] == "1.0"));
    assert!(said.stderr.contains("\"delivered\":3"), "{said:?}");
}

#[test]
fn configured_routes_run_side_by_side_and_can_be_chosen() {
    let home = Home::migrated();
    home.write(
        "pillarbox.toml",
        "[routes.a]\nto = \"file:all.ndjson\"\n[routes.b]\nto = \"file:all.ndjson\"\n[routes.c]\nto = \"file:{route}.ndjson\"",
    );
    for route in ["a", "b", "c"] {
        home.stage_many(route, 50);
    }
    assert_eq!(home.ok(["relay", "--drain", "--route", "c", "--json"]).json()["delivered"], 50);
    assert_eq!(home.read("c.ndjson").lines().count(), 50);
    assert_eq!(home.ok(["relay", "--drain", "--json"]).json()["delivered"], 100);
    assert_eq!(home.delivered(&["all.ndjson"]).len(), 100);
    home.run(["relay", "--drain", "--route", "d"]).refused(2, &["configured: a, b, c"]);
}

#[test]
fn a_destination_that_cannot_be_opened_is_named() {
    let home = Home::migrated();
    home.run(["relay", "--drain", "--route", "r", "--to", "file:nowhere/out.ndjson"])
        .refused(1, &["nowhere/out.ndjson"]);
}

#[test]
fn a_daemon_delivers_what_is_staged_while_it_runs() {
    let home = Home::migrated();
    let mut relay = home.start(["relay", "--route", "r", "--to", "file:out.ndjson"]);
    let ids = home.stage_many("r", 200);
    eventually("everything is delivered", || home.delivered(&["out.ndjson"]).len() == ids.len());
    eventually("everything is settled", || home.totals()["delivered"] == 200);
    relay.signal("TERM");
    let said = relay.end();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(home.delivered(&["out.ndjson"]).values().all(|count| *count == 1));
}

#[test]
fn a_daemon_waits_for_its_database_and_says_so() {
    let home = Home::new();
    let url = "postgres://app:hunter2@127.0.0.1:1/x";
    let mut relay = home.start_logged("log", ["--database", url, "relay", "--route", "r", "--to", "null:"]);
    eventually("it says so twice", || home.read("log").matches("the relay tries again in").count() >= 2);
    assert!(!relay.has_ended());
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    assert!(!home.read("log").contains("hunter2"));
}

#[test]
fn a_closed_stderr_does_not_end_a_relay() {
    let home = Home::migrated();
    home.stage_many("r", 10);
    let script =
        format!("{} relay --drain --route r --to file:out.ndjson 2>&-", env!("CARGO_BIN_EXE_pillarbox"));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(home.path("."));
    assert!(command.status().unwrap().success());
    assert_eq!(home.delivered(&["out.ndjson"]).len(), 10);
}
