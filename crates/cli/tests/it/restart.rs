//! A database that is killed under load and comes back: nothing that it has acknowledged is lost, and every key keeps its
//! order. Nobody restarts the relays.

use std::collections::BTreeMap;

use pillarbox_conformance::mariadb::OwnMariaDb;
use serde_json::Value;

use crate::home::{Home, Running, eventually};
use crate::place::wait;

const KEYS: u64 = 20;
const KILLS: u64 = 3;
/// Events that are staged in each round, in one transaction.
const EVENTS: u64 = 300;

/// What arrived, by key: the numbers in the order of their first arrival.
fn arrived(home: &Home) -> BTreeMap<String, Vec<u64>> {
    let text = if home.path("out.ndjson").exists() { home.read("out.ndjson") } else { String::new() };
    let mut by_key: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let numbers = by_key.entry(event["subject"].as_str().unwrap().to_owned()).or_default();
        let number = event["data"].as_u64().unwrap();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    by_key
}

fn stage(home: &Home, round: u64) {
    let line =
        |n: u64| format!("{{\"route\":\"r\",\"type\":\"t\",\"key\":\"k-{}\",\"payload\":{n}}}\n", n % KEYS);
    let lines: String = (round * EVENTS..(round + 1) * EVENTS).map(line).collect();
    home.write("staged.ndjson", &lines);
    home.ok(["stage", "--ndjson", "staged.ndjson"]);
}

#[test]
fn a_mariadb_killed_under_load_loses_nothing_and_every_key_keeps_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let server = wait(OwnMariaDb::start(directory.path(), &[]));
    let home = Home::new();
    let config = format!(
        "[database]\nurl = \"{}\"\n[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\nlease = \"4s\"\nbatch = 20\n",
        server.url("app")
    );
    home.write("pillarbox.toml", &config);
    home.ok(["migrate"]);
    let mut relays: Vec<Running> =
        ["log-0", "log-1"].map(|log| home.start_logged(log, ["relay"])).into_iter().collect();
    for round in 0..KILLS {
        let before = arrived(&home).values().map(Vec::len).sum::<usize>();
        stage(&home, round);
        eventually("something arrives", || arrived(&home).values().map(Vec::len).sum::<usize>() > before);
        server.kill();
        wait(server.restart());
    }
    stage(&home, KILLS);
    eventually("everything is delivered", || {
        assert!(!relays.iter_mut().any(Running::has_ended), "a relay has ended");
        home.totals()["delivered"] == (KILLS + 1) * EVENTS
    });
    let wanted: BTreeMap<String, Vec<u64>> = (0..KEYS)
        .map(|key| (format!("k-{key}"), (0..(KILLS + 1) * EVENTS).filter(|n| n % KEYS == key).collect()))
        .collect();
    assert_eq!(arrived(&home), wanted);
    for relay in &mut relays {
        relay.signal("TERM");
    }
    for relay in relays {
        assert_eq!(relay.end().code, 0);
    }
}
