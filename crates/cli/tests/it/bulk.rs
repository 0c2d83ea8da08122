//! Many entries at once, waiting entries, paused routes, blocked keys, and everything that is wrong.

use serde_json::{Value, json};

use crate::home::Home;
use crate::operate::with_dead;

const DRAIN: [&str; 7] = ["relay", "--drain", "--route", "r", "--to", "null:", "--json"];

#[test]
fn check_names_everything_that_is_wrong() {
    let (home, _) = with_dead(2);
    home.stage_many("other", 1);
    let check = ["status", "--check", "--max-age", "0s"];
    home.run(check).refused(3, &["2 problems:", "2 dead on route r", "no relay of other is running"]);
    let json = home.run(check.iter().chain(&["--json"]));
    let problems = json.json()["problems"].clone();
    let kinds: Vec<_> =
        problems.as_array().unwrap().iter().map(|problem| (&problem["kind"], &problem["route"])).collect();
    assert_eq!(kinds, [(&json!("unrelayed"), &json!("other")), (&json!("dead"), &json!("r"))]);
    assert_eq!(json.code, 3);
}

#[test]
fn bulk_changes_are_narrowed_bounded_and_paced() {
    let (home, _) = with_dead(7);
    let run = |args: &[&str]| home.ok(args.iter().chain(&["--yes", "--json"])).json()["changed"].clone();
    assert_eq!(run(&["requeue", "--error", "failed", "--dry-run"]), 0);
    assert_eq!(run(&["requeue", "--error", "undecodable", "--dry-run"]), 7);
    assert_eq!(run(&["requeue", "--since", "1h", "--dry-run"]), 7);
    assert_eq!(run(&["requeue", "--until", "1h", "--dry-run"]), 0);
    assert_eq!(run(&["discard", "--tenant", "acme", "--dry-run"]), 0);
    assert_eq!(run(&["requeue", "--route", "r", "--limit", "2"]), 2);
    assert_eq!(run(&["discard", "--route", "r", "--limit", "3", "--rate", "100"]), 3);
    assert_eq!(run(&["requeue", "--route", "r", "--rate", "10"]), 2);
    let totals = home.totals();
    assert_eq!(
        (&totals["pending"], &totals["discarded"], &totals["dead"]),
        (&json!(4), &json!(3), &json!(0))
    );
    home.run(["requeue", "--error", "boom"]).refused(2, &["unknown kind of error", "lease_expired"]);
    home.run(["requeue", "--since", "then"]).refused(2, &["2h"]);
    home.run(["requeue", "--status", "pending"]).refused(2, &["only dead entries can"]);
}

#[test]
fn a_list_goes_on_behind_a_cursor_and_is_counted_by_a_field() {
    let (home, ids) = with_dead(3);
    home.ok(["stage", "--route", "r", "--type", "u", "--payload", "1"]);
    let page = home.ok(["list", "--limit", "2", "--json"]).lines();
    let after = page[1]["seq"].to_string();
    let said = home.ok(["list", "--limit", "2"]);
    assert!(said.stderr.contains(&format!("--after {after}")), "{said:?}");
    let rest = home.ok(["list", "--after", &after, "--json"]).lines();
    assert_eq!((rest.len(), rest[0]["event_id"].as_str()), (2, Some(&*ids[2])));
    let by = |field: &str| home.ok(["list", "--count-by", field, "--json"]).lines();
    assert_eq!(by("type"), [json!({"value": "t", "entries": 3}), json!({"value": "u", "entries": 1})]);
    assert_eq!(by("error")[0], json!({"value": "undecodable/headers", "entries": 3}));
    assert_eq!(by("tenant"), [json!({"value": null, "entries": 4})]);
    assert!(home.ok(["list", "--count-by", "error"]).stdout.contains("undecodable/headers"));
}

#[test]
fn waiting_entries_are_retried_now_or_cancelled() {
    let home = Home::migrated();
    for n in ["1", "2", "3"] {
        home.ok(["stage", "--route", "r", "--type", "t", "--delay", "1h", "--payload", n]);
    }
    let ids: Vec<String> =
        home.ok(["list", "--json"]).lines().iter().map(|entry| text(&entry["event_id"])).collect();
    assert_eq!(home.ok(DRAIN).json()["claimed"], 0);
    assert_eq!(home.ok(["retry", &ids[0], "--json"]).json()["changed"], 1);
    home.run(["cancel", &ids[1]]).refused(2, &["1 waiting entry will be cancelled", "--yes"]);
    assert_eq!(home.ok(["cancel", &ids[1], "--yes", "--json"]).json()["changed"], 1);
    assert_eq!(home.ok(DRAIN).json()["delivered"], 1);
    let again = home.ok(["retry", &ids[0], "--json"]).json();
    assert_eq!(again["skips"], json!([{"event_id": ids[0], "route": "r", "why": "it is delivered"}]));
    assert_eq!(home.ok(["cancel", "--route", "r", "--yes", "--json"]).json()["changed"], 1);
    let totals = home.totals();
    assert_eq!((&totals["delivered"], &totals["discarded"]), (&json!(1), &json!(2)));
    assert!(home.ok(["show", &ids[1]]).stdout.contains("cancelled by"));
}

#[test]
fn a_paused_route_is_seen_and_nothing_of_it_is_delivered() {
    let home = Home::migrated();
    home.stage_many("r", 3);
    let said = home.ok(["pause", "r", "--reason", "moving"]);
    assert!(said.stdout.contains("r is paused") && !said.stderr.contains("check its spelling"), "{said:?}");
    assert!(home.ok(["pause", "rr"]).stderr.contains("rr has no entries and is not configured"));
    home.ok(["resume", "rr"]);
    assert_eq!(
        home.ok(["pause", "r", "--json"]).json(),
        json!({"route": "r", "paused": true, "changed": false})
    );
    for order in ["none", "key"] {
        home.write("pillarbox.toml", &format!("[routes.r]\nto = \"null:\"\norder = \"{order}\""));
        let drain = home.ok(["relay", "--drain", "--json"]);
        assert_eq!(drain.json()["claimed"], 0, "{order}");
        assert!(drain.stderr.contains("pillarbox resume r"), "{drain:?}");
    }
    let status = home.ok(["status", "--json"]).json();
    assert_eq!(status["routes"][0]["paused"]["reason"], "moving");
    assert!(home.ok(["status"]).stdout.contains("moving"));
    home.run(["status", "--check", "--max-age", "0s"])
        .refused(3, &["the route was paused by", "pillarbox resume r"]);
    assert!(home.ok(["resume", "r"]).stdout.contains("relays deliver its entries again"));
    assert_eq!(
        home.ok(["relay", "--drain", "--max", "2", "--json"]).json()["delivered"],
        2,
        "as many as it may"
    );
    assert_eq!(home.ok(["relay", "--drain", "--json"]).json()["delivered"], 1);
}

#[test]
fn a_blocked_key_is_counted_apart_and_names_what_it_waits_for() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.r]\nto = \"null:\"\norder = \"key\"");
    for n in ["1", "2", "3"] {
        home.ok(["stage", "--route", "r", "--type", "t", "--key", "a", "--payload", n]);
    }
    home.sql(
        "pragma ignore_check_constraints = on; update pillarbox_outbox set headers = '[]' where seq = 1",
    );
    assert_eq!(home.ok(["relay", "--drain", "--json"]).json()["dead"], 1);
    let head = text(&home.ok(["list", "--status", "dead", "--json"]).lines()[0]["event_id"]);
    let status = home.ok(["status", "--json"]).json();
    let counts = &status["routes"][0];
    assert_eq!(
        (&counts["pending"], &counts["in_flight"], &counts["blocked"]),
        (&json!(0), &json!(0), &json!(2))
    );
    assert_eq!(counts["blocked_by"], json!([{"event_id": head, "key": "a", "blocked": 2}]));
    let blocked = home.ok(["list", "--status", "blocked", "--json"]).lines();
    assert_eq!(blocked.len(), 2);
    assert!(blocked.iter().all(|entry| entry["status"] == "blocked" && entry["blocked_by"] == *head));
    assert!(home.ok(["list"]).stdout.contains(&format!("waits for dead entry {head}")));
    assert!(home.ok(["show", blocked[0]["event_id"].as_str().unwrap()]).stdout.contains(&head));
    assert!(home.ok(["status"]).stdout.contains(&head));
    home.run(["status", "--check"]).refused(3, &["1 dead on route r", "they block 2 entries", &head]);
    home.ok(["discard", &head, "--yes"]);
    assert_eq!(home.ok(["relay", "--drain", "--json"]).json()["delivered"], 2);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
