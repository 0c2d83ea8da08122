//! The daemon: many routes, a new configuration while it runs, a route that fails, lines for machines.

use serde_json::Value;

use crate::doctor::Pg;
use crate::home::{Home, eventually, pgbouncer};

fn config(routes: &[(&str, &str)]) -> String {
    let route = |(name, to): &(&str, &str)| {
        format!("[routes.{name}]\nto = \"{to}\"\npoll_max = \"50ms\"\ngrace = \"300ms\"\n")
    };
    routes.iter().map(route).collect()
}

/// The relays that are announced, by route, with the time at which each started.
fn relays(home: &Home) -> Vec<(String, String)> {
    let status = home.ok(["status", "--json"]).json();
    let relays = status["relays"].as_array().unwrap().iter();
    let text = |relay: &Value, name: &str| relay[name].as_str().unwrap().to_owned();
    let live = relays.filter(|relay| relay["gone"] == false);
    live.map(|relay| (text(relay, "route"), text(relay, "started_at"))).collect()
}

fn routes(home: &Home) -> Vec<String> {
    relays(home).into_iter().map(|(route, _)| route).collect()
}

fn wait_for_routes(home: &Home, wanted: &[&str]) {
    eventually(&format!("{wanted:?} are relayed"), || routes(home) == wanted);
}

#[test]
fn a_reload_starts_and_stops_what_differs_and_leaves_the_rest_alone() {
    let home = Home::migrated();
    home.write("pillarbox.toml", &config(&[("a", "file:a.ndjson"), ("b", "file:b.ndjson"), ("c", "null:")]));
    let mut relay = home.start_logged("log", ["relay"]);
    wait_for_routes(&home, &["a", "b", "c"]);
    let before = relays(&home);
    home.write(
        "pillarbox.toml",
        &config(&[("d", "file:d.ndjson"), ("b", "file:b2.ndjson"), ("a", "file:a.ndjson")]),
    );
    relay.signal("HUP");
    wait_for_routes(&home, &["a", "b", "d"]);
    eventually("the changed route is another run", || relays(&home).get(1) != before.get(1));
    assert_eq!(relays(&home)[0], before[0], "route a was disturbed");
    for route in ["a", "b", "d"] {
        home.stage_many(route, 3);
    }
    eventually("all are delivered", || home.totals()["delivered"] == 9);
    assert_eq!(home.delivered(&["b2.ndjson"]).len(), 3);
    assert_eq!(home.delivered(&["a.ndjson", "d.ndjson"]).len(), 6);
    assert!(
        home.read("log").contains("added d; changed b; removed c; 1 routes unchanged"),
        "{}",
        home.read("log")
    );
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    assert_eq!(routes(&home), Vec::<String>::new(), "a relay that stops says so");
}

#[test]
fn a_broken_file_keeps_the_old_configuration_and_says_so() {
    let home = Home::migrated();
    home.write("pillarbox.toml", &config(&[("a", "file:a.ndjson")]));
    let mut relay = home.start_logged("log", ["relay"]);
    wait_for_routes(&home, &["a"]);
    let before = relays(&home);
    for (broken, said) in [
        ("[routes.a]\nto = \"null:\"\nbatch = 0\n", "routes.a.batch"),
        ("[database]\nurl = \"sqlite://other.db\"\n[routes.a]\nto = \"null:\"\n", "takes a restart"),
    ] {
        home.write("pillarbox.toml", broken);
        relay.signal("HUP");
        eventually("it says why", || {
            let log = home.read("log");
            log.contains("was not reloaded") && log.contains(said)
        });
    }
    // Commands read the file too, so it is mended before the next one.
    home.write("pillarbox.toml", &config(&[("a", "file:a.ndjson")]));
    assert_eq!(relays(&home), before);
    home.stage_many("a", 2);
    eventually("it goes on", || home.totals()["delivered"] == 2);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
}

#[test]
fn a_route_that_cannot_start_does_not_stop_the_others_and_is_tried_again() {
    let home = Home::migrated();
    home.write(
        "pillarbox.toml",
        &config(&[("bad", "file:missing/out.ndjson"), ("good", "file:good.ndjson")]),
    );
    let mut relay = home.start_logged("log", ["relay"]);
    wait_for_routes(&home, &["good"]);
    home.stage_many("good", 2);
    eventually("the good one delivers", || home.totals()["delivered"] == 2);
    assert!(home.read("log").contains("route bad cannot be delivered"), "{}", home.read("log"));
    std::fs::create_dir(home.path("missing")).unwrap();
    wait_for_routes(&home, &["bad", "good"]);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
}

#[test]
fn a_relay_of_which_no_route_can_start_ends() {
    let home = Home::migrated();
    home.write("pillarbox.toml", &config(&[("bad", "file:missing/out.ndjson")]));
    assert_ne!(home.run(["relay"]).code, 0);
}

#[test]
fn without_a_file_a_hangup_stops_in_order() {
    let home = Home::migrated();
    let mut relay = home.start_logged("log", ["relay", "--route", "a", "--to", "null:"]);
    wait_for_routes(&home, &["a"]);
    relay.signal("HUP");
    assert_eq!(relay.end().code, 0);
}

#[test]
fn every_line_of_a_json_log_is_an_object() {
    let home = Home::migrated();
    let text = format!("[log]\nformat = \"json\"\n{}", config(&[("a", "nats://user:canary@127.0.0.1:1/a")]));
    home.write("pillarbox.toml", &text);
    home.stage_many("a", 1);
    let mut relay = home.start_logged("log", ["relay"]);
    eventually("the destination is told to be down", || home.read("log").contains("cannot be reached"));
    wait_for_routes(&home, &["a"]);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let log = home.read("log");
    assert!(log.lines().count() >= 3, "{log}");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["time", "level", "message"] {
            assert!(line[field].is_string(), "{line}");
        }
    }
    assert!(!log.contains("canary"), "{log}");
}

#[test]
fn a_start_tells_what_it_found() {
    let home = Home::migrated();
    home.write("pillarbox.toml", &config(&[("a", "nats://127.0.0.1:1/a"), ("b", "null:")]));
    let mut relay = home.start_logged("log", ["relay"]);
    wait_for_routes(&home, &["a", "b"]);
    eventually("the self-test is done", || home.read("log").contains("self-test:"));
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let log = home.read("log");
    assert!(log.contains("the destination nats://127.0.0.1:1/a of route a cannot be reached"), "{log}");
    assert!(log.contains("self-test:") && log.contains("clock") && log.contains("write_lock"), "{log}");
}

/// Adds these routes to the configuration of a home, and starts a relay that ends with its self-test.
fn self_test(home: &Home) -> String {
    let text = home.read("pillarbox.toml") + &config(&[("a", "null:")]);
    home.write("pillarbox.toml", &text);
    let mut relay = home.start_logged("log", ["relay"]);
    eventually("the self-test is done", || home.read("log").contains("self-test:"));
    relay.signal("TERM");
    relay.end();
    home.read("log")
}

#[test]
fn a_start_tells_which_rights_the_role_lacks_and_what_to_do() {
    let pg = Pg::new();
    let reader = pg.reader();
    let log = self_test(&reader.home);
    let told = log.lines().find(|line| line.contains(&format!("the role {} lacks", reader.role)));
    let told = told.unwrap_or_else(|| panic!("{log}"));
    for part in ["INSERT on pillarbox_outbox", "Grant these rights"] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

#[test]
fn a_start_tells_that_a_transaction_pooler_is_in_front_of_the_server() {
    let pg = Pg::new();
    let (pooled, said) = (pg.through(&pgbouncer()), "a transaction pooler is in front of the server");
    let log = self_test(&pooled);
    assert!(log.contains(said), "{log}");
    let log = self_test(&pg.home);
    assert!(!log.contains(said) && log.contains("self-test:"), "{log}");
}
