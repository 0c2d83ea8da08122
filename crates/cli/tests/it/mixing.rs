//! A route that is changed from rows to lanes and back, with entries in flight and with relays of both kinds at once.

use std::collections::BTreeMap;

use crate::home::{Home, Running, eventually};
use crate::many_relays::{on_mongodb, on_mysql, on_postgres};
use crate::order;
use crate::signals::hold;
use crate::storm::Dice;

const ROUTE: &str = "[routes.r]\nto = \"file:out.ndjson\"\nlease = \"LEASE\"\nreap_interval = \"200ms\"\ngrace = \"300ms\"\n\
    batch = 20\nbackoff = { base = \"1ms\", max = \"10ms\" }\n";

/// Two configurations that differ in nothing but the order of the route; the usual one is by rows.
fn configure(home: &Home, lease: &str) {
    let database =
        if home.path("pillarbox.toml").exists() { home.read("pillarbox.toml") } else { String::new() };
    for (file, order) in [("pillarbox.toml", "none"), ("rows.toml", "none"), ("lanes.toml", "key")] {
        let route = ROUTE.replace("LEASE", lease);
        home.write(file, &format!("{database}{route}order = \"{order}\"\n"));
    }
}

/// A relay of that kind is killed with entries in flight; the next one is of the other kind.
fn killed_in_flight(home: &Home, kind: &str, lease: &str) -> BTreeMap<String, Vec<String>> {
    configure(home, lease);
    let mut staged = order::stage(home, 100);
    let lock = hold(home, "out.ndjson");
    let relay = home.start(["--config", kind, "relay"]);
    eventually("something is in flight", || home.totals()["in_flight"] != 0);
    relay.kill();
    drop(lock);
    for (key, ids) in order::stage(home, 100) {
        staged.entry(key).or_default().extend(ids);
    }
    staged
}

fn from_rows_to_lanes(home: &Home) {
    let staged = killed_in_flight(home, "rows.toml", "2s");
    let mut relay = home.start(["--config", "lanes.toml", "relay"]);
    eventually("everything is delivered", || home.totals()["delivered"] == 200);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    assert_eq!(order::arrived(home), staged);
    home.ok(["--config", "lanes.toml", "verify", "--serialized", "--allow-duplicates"]);
}

#[test]
fn a_route_changed_from_rows_to_lanes_on_sqlite_keeps_the_order_and_strands_nothing() {
    from_rows_to_lanes(&Home::migrated());
}

#[test]
fn a_route_changed_from_rows_to_lanes_on_postgres_keeps_the_order_and_strands_nothing() {
    from_rows_to_lanes(&on_postgres());
}

fn from_lanes_to_rows(home: &Home) {
    killed_in_flight(home, "lanes.toml", "2s");
    let mut relay = home.start(["--config", "rows.toml", "relay"]);
    eventually("everything is delivered", || home.totals()["delivered"] == 200);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    assert_eq!(home.delivered(&["out.ndjson"]).len(), 200);
}

#[test]
fn a_route_changed_from_lanes_to_rows_on_sqlite_strands_nothing() {
    from_lanes_to_rows(&Home::migrated());
}

#[test]
fn a_route_changed_from_lanes_to_rows_on_mongodb_strands_nothing() {
    from_lanes_to_rows(&on_mongodb());
}

#[test]
fn a_route_changed_from_lanes_to_rows_on_mysql_strands_nothing() {
    from_lanes_to_rows(&on_mysql());
}

#[test]
fn a_route_changed_from_lanes_to_rows_on_postgres_strands_nothing() {
    from_lanes_to_rows(&on_postgres());
}

fn a_drain_takes_what_the_other_kind_left(home: &Home, left: &str, drained: &str) {
    // Long enough for a first drain before its end, also where much else is to be done.
    killed_in_flight(home, left, "10s");
    let drain = || home.ok(["--config", drained, "relay", "--drain"]);
    let said = drain();
    let held = said.stderr.split_once("another relay has ").and_then(|(_, rest)| rest.split_once(' '));
    let (count, rest) = held.unwrap_or_else(|| panic!("it does not say why: {said:?}"));
    assert!(
        count.parse::<u32>().unwrap() > 0 && rest.starts_with("entries of route r in flight"),
        "{said:?}"
    );
    eventually("a drain takes everything once the lease is over", || {
        drain();
        home.totals()["delivered"] == 200
    });
}

#[test]
fn a_drain_by_lanes_takes_what_rows_left_on_sqlite() {
    a_drain_takes_what_the_other_kind_left(&Home::migrated(), "rows.toml", "lanes.toml");
}

#[test]
fn a_drain_by_lanes_takes_what_rows_left_on_postgres() {
    a_drain_takes_what_the_other_kind_left(&on_postgres(), "rows.toml", "lanes.toml");
}

#[test]
fn a_drain_by_rows_takes_what_lanes_left_on_sqlite() {
    a_drain_takes_what_the_other_kind_left(&Home::migrated(), "lanes.toml", "rows.toml");
}

#[test]
fn a_drain_by_rows_takes_what_lanes_left_on_postgres() {
    a_drain_takes_what_the_other_kind_left(&on_postgres(), "lanes.toml", "rows.toml");
}

/// Whether this relay is announced.
fn takes_part(home: &Home, relay: &Running) -> bool {
    let owner = format!("-{}", relay.id());
    let status = home.ok(["status", "--json"]).json();
    let mut relays = status["relays"].as_array().unwrap().iter();
    relays.any(|relay| relay["owner"].as_str().unwrap().ends_with(&owner) && relay["gone"] == false)
}

/// Relays by rows are replaced one by one, and some of each kind are killed. Order is promised from the first claim by
/// lanes on, and as long as somebody by lanes has the route: rows may claim after the last of them has gone. So the one
/// that stays has been there for a whole round.
fn rolling_deployment(home: &Home) {
    // A lease that relays by lanes renew in time also where much else is to be done.
    configure(home, "6s");
    let mut dice = Dice(7);
    let start = |config: &str| home.start(["--config", config, "relay"]);
    let mut before = order::stage(home, 200);
    let mut rows = vec![start("rows.toml"), start("rows.toml")];
    eventually("rows deliver", || home.totals()["delivered"] != 0);
    rows.remove(0).kill();
    let mut lanes = vec![start("lanes.toml")];
    let mut staged: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_by_lanes = || home.read("out.ndjson").contains("pillarboxlane");
    eventually("lanes deliver", || {
        for (key, ids) in order::stage(home, 20) {
            before.entry(key).or_default().extend(ids);
        }
        is_by_lanes()
    });
    lanes.push(start("lanes.toml"));
    eventually("a second one by lanes takes part", || takes_part(home, &lanes[1]));
    for _ in 0..5 {
        for (key, ids) in order::stage(home, 100) {
            staged.entry(key).or_default().extend(ids);
        }
        dice.pause(200..1_000);
        // Somebody of each kind stays: by rows somebody would like to, and by lanes somebody has the route.
        rows.push(start("rows.toml"));
        rows.remove(0).kill();
        lanes.push(start("lanes.toml"));
        eventually("the newest one takes part", || takes_part(home, &lanes[2]));
        lanes.remove(0).kill();
    }
    let all = before.values().chain(staged.values()).map(Vec::len).sum::<usize>();
    eventually("everything is delivered", || home.totals()["delivered"] == all);
    for mut relay in rows.into_iter().chain(lanes) {
        relay.signal("TERM");
        assert_eq!(relay.end().code, 0);
    }
    assert_eq!(home.delivered(&["out.ndjson"]).len(), all);
    let mut arrived = order::arrived(home);
    for (key, ids) in &mut arrived {
        ids.retain(|id| staged.get(key).is_some_and(|staged| staged.contains(id)));
    }
    assert_eq!(arrived, staged);
}

#[test]
fn relays_of_both_kinds_at_once_on_sqlite_keep_the_order_and_strand_nothing() {
    rolling_deployment(&Home::migrated());
}

#[test]
fn relays_of_both_kinds_at_once_on_mongodb_keep_the_order_and_strand_nothing() {
    rolling_deployment(&on_mongodb());
}

#[test]
fn relays_of_both_kinds_at_once_on_mysql_keep_the_order_and_strand_nothing() {
    rolling_deployment(&on_mysql());
}

#[test]
fn relays_of_both_kinds_at_once_on_postgres_keep_the_order_and_strand_nothing() {
    rolling_deployment(&on_postgres());
}
