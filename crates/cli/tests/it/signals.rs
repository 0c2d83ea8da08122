//! Stopping in mid-flight. A lock on the destination's file holds deliveries under way for as long as a test wants.

use std::fs::{File, OpenOptions};

use crate::home::{Home, eventually};

pub(crate) const CONFIG: &str = "[routes.r]\nto = \"file:out.ndjson\"\nlease = \"1s\"\nreap_interval = \"200ms\"\n\
    grace = \"300ms\"\nbackoff = { base = \"1ms\", max = \"10ms\" }\n";

/// Holds every delivery to this file under way until it is dropped.
pub(crate) fn hold(home: &Home, name: &str) -> File {
    let file = OpenOptions::new().append(true).create(true).open(home.path(name)).unwrap();
    file.lock().unwrap();
    file
}

fn stopped_in_mid_flight(signal: &str) {
    let home = Home::migrated();
    home.write("pillarbox.toml", CONFIG);
    let ids = home.stage_many("r", 100);
    let lock = hold(&home, "out.ndjson");
    let mut relay = home.start(["relay"]);
    eventually("everything is in flight", || home.totals()["in_flight"] == 100);
    relay.signal(signal);
    let said = relay.end();
    assert_eq!(said.code, 0, "{said:?}");
    let totals = home.totals();
    assert_eq!(totals["in_flight"], 0, "nothing stays leased: {totals}");
    assert_eq!(totals["dead"], 0, "{totals}");
    drop(lock);
    eventually("the next run delivers everything", || {
        home.ok(["relay", "--drain"]);
        home.totals()["delivered"] == 100
    });
    let delivered = home.delivered(&["out.ndjson"]);
    assert!(ids.iter().all(|id| delivered.contains_key(id)));
}

#[test]
fn sigterm_in_mid_flight_exits_0_and_leaves_nothing_in_flight() {
    stopped_in_mid_flight("TERM");
}

#[test]
fn sigint_in_mid_flight_exits_0_and_leaves_nothing_in_flight() {
    stopped_in_mid_flight("INT");
}

#[test]
fn a_drain_can_be_stopped_as_well() {
    let home = Home::migrated();
    home.write("pillarbox.toml", CONFIG);
    home.stage_many("r", 100);
    let _lock = hold(&home, "out.ndjson");
    let mut drain = home.start(["relay", "--drain", "--json"]);
    eventually("everything is in flight", || home.totals()["in_flight"] == 100);
    drain.signal("TERM");
    let said = drain.end();
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["delivered"], 0);
    assert_eq!(home.totals()["in_flight"], 0);
}

#[test]
fn a_second_signal_stops_at_once() {
    let home = Home::migrated();
    home.write("pillarbox.toml", &CONFIG.replace("grace = \"300ms\"", "grace = \"1h\""));
    home.stage_many("r", 10);
    let _lock = hold(&home, "out.ndjson");
    let mut relay = home.start(["relay"]);
    eventually("everything is in flight", || home.totals()["in_flight"] == 10);
    relay.signal("TERM");
    eventually("it ends at a later one", || {
        if !relay.has_ended() {
            relay.signal("TERM");
        }
        relay.has_ended()
    });
    let said = relay.end();
    said.refused(1, &["stopped at once"]);
}
