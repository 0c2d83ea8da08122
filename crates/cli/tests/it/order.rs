//! Order per key through the binary: several relays, some of them killed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::home::{Home, eventually};
use crate::many_relays::{on_mongodb, on_mysql, on_postgres};

const ROUTE: &str = "[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\nlease = \"2s\"\ngrace = \"300ms\"\n\
    batch = 20\nbackoff = { base = \"1ms\", max = \"10ms\" }\n";
const KEYS: usize = 20;

/// Stages so many events, key by key in turn, as one file. Returns the ids of each key in order.
pub(crate) fn stage(home: &Home, count: usize) -> BTreeMap<String, Vec<String>> {
    let mut staged: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut lines = String::new();
    for n in 0..count {
        let (id, key) = (uuid::Uuid::now_v7().to_string(), format!("k-{}", n % KEYS));
        lines += &format!(
            "{{\"route\":\"r\",\"type\":\"t\",\"key\":\"{key}\",\"event_id\":\"{id}\",\"payload\":{n}}}\n"
        );
        staged.entry(key).or_default().push(id);
    }
    home.write("staged.ndjson", &lines);
    home.ok(["stage", "--ndjson", "staged.ndjson"]);
    staged
}

/// The ids of each key in the order in which they arrived for the first time.
pub(crate) fn arrived(home: &Home) -> BTreeMap<String, Vec<String>> {
    let mut arrived: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in home.read("out.ndjson").lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        let of_key = arrived.entry(text("subject")).or_default();
        if !of_key.contains(&text("id")) {
            of_key.push(text("id"));
        }
    }
    arrived
}

fn keys_stay_in_order_although_relays_are_killed(home: &Home) {
    let mut staged = stage(home, 200);
    for _ in 0..3 {
        let lines =
            || if home.path("out.ndjson").exists() { home.read("out.ndjson").lines().count() } else { 0 };
        let (before, all) = (lines(), staged.values().map(Vec::len).sum::<usize>());
        let relays = [home.start(["relay"]), home.start(["relay"])];
        eventually("something is delivered", || lines() > before || home.totals()["delivered"] == all);
        for relay in relays {
            relay.kill();
        }
        for (key, ids) in stage(home, 100) {
            staged.entry(key).or_default().extend(ids);
        }
    }
    let mut relay = home.start(["relay"]);
    eventually("everything is delivered", || home.totals()["delivered"] == 500);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    assert_eq!(arrived(home), staged);
    assert!(home.read("out.ndjson").lines().all(|line| line.contains("\"pillarboxlane\":\"r/")));
}

#[test]
fn keys_stay_in_order_on_sqlite_although_relays_are_killed() {
    let home = Home::migrated();
    home.write("pillarbox.toml", ROUTE);
    keys_stay_in_order_although_relays_are_killed(&home);
}

#[test]
fn keys_stay_in_order_on_servers_although_relays_are_killed() {
    for home in [on_postgres(), on_mysql()] {
        on_a_server(&home);
    }
}

#[test]
fn keys_stay_in_order_on_mongodb_although_relays_are_killed() {
    on_a_server(&on_mongodb());
}

fn on_a_server(home: &Home) {
    let database = home.read("pillarbox.toml");
    home.write("pillarbox.toml", &format!("{database}{ROUTE}"));
    keys_stay_in_order_although_relays_are_killed(home);
}

#[test]
fn a_drain_of_an_ordered_route_leaves_its_lanes_to_the_next_one() {
    let home = Home::migrated();
    home.write("pillarbox.toml", ROUTE);
    for round in 1..=3 {
        stage(&home, 40);
        let tally = home.ok(["relay", "--drain", "--json"]).json();
        assert_eq!((&tally["delivered"], &home.totals()["delivered"]), (&40.into(), &(40 * round).into()));
    }
}

#[test]
fn what_is_in_force_for_an_ordered_route_is_shown() {
    let home = Home::new();
    home.write("pillarbox.toml", ROUTE);
    let shown = home.ok(["config", "show", "--json"]).json();
    let route = &shown["routes"]["r"];
    assert_eq!(
        (&route["order"], &route["relays_max"], &route["on_dead"]),
        (&"key".into(), &64.into(), &"block".into())
    );
}

#[test]
fn a_delayed_event_with_a_key_is_refused_on_a_route_that_is_configured_as_ordered() {
    let home = Home::migrated();
    home.write("pillarbox.toml", ROUTE);
    let stage = ["stage", "--route", "r", "--type", "t", "--payload", "1", "--delay", "1h"];
    home.run(stage.into_iter().chain(["--key", "k"])).refused(2, &["delay", "ordered route"]);
    let line = r#"{"route":"r","type":"t","payload":1,"key":"k","delay":"1h"}"#;
    home.write("late.ndjson", &format!("{}\n{line}\n", line.replace(r#","delay":"1h""#, "")));
    home.run(["stage", "--ndjson", "late.ndjson"]).refused(2, &["line 2", "delay", "nothing was staged"]);
    home.ok(stage);
    assert_eq!(home.ok(["list", "--json"]).lines().len(), 1);
}
