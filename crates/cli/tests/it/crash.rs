//! SIGKILL, again and again.

use crate::home::{Home, eventually};
use crate::many_relays::{on_mongodb, on_mysql};
use crate::signals::{CONFIG, hold};

#[test]
fn a_relay_killed_again_and_again_loses_nothing_and_its_entries_move_again() {
    let home = Home::migrated();
    home.write("pillarbox.toml", CONFIG);
    killed_again_and_again(&home);
}

#[test]
fn a_relay_killed_again_and_again_on_mysql_loses_nothing_and_its_entries_move_again() {
    on_a_server(&on_mysql(), CONFIG);
}

#[test]
fn a_relay_killed_again_and_again_on_mongodb_loses_nothing_and_its_entries_move_again() {
    // A relay gives each call up after half its lease. Half a second is little for this server on a busy machine.
    let config = CONFIG.replace("lease = \"1s\"", "lease = \"4s\"");
    assert_ne!(config, CONFIG);
    on_a_server(&on_mongodb(), &config);
}

fn on_a_server(home: &Home, config: &str) {
    let database = home.read("pillarbox.toml");
    home.write("pillarbox.toml", &format!("{database}{config}"));
    killed_again_and_again(home);
}

fn killed_again_and_again(home: &Home) {
    let ids = home.stage_many("r", 300);
    for round in 0..5 {
        let before = home.delivered(&["out.ndjson"]).len();
        let relay = home.start(["relay"]);
        if round % 2 == 0 {
            // In mid-flight for certain: claimed, and the delivery cannot end.
            let _lock = hold(home, "out.ndjson");
            eventually("something is in flight or done", || {
                let totals = home.totals();
                totals["in_flight"] != 0 || totals["delivered"] == 300
            });
            relay.kill();
        } else {
            eventually("something is delivered", || {
                let now = home.delivered(&["out.ndjson"]).len();
                now > before || now == ids.len()
            });
            relay.kill();
        }
    }
    let mut relay = home.start(["relay"]);
    eventually("what the dead ones held moves again", || home.totals()["delivered"] == 300);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let delivered = home.delivered(&["out.ndjson"]);
    assert!(ids.iter().all(|id| delivered.contains_key(id)));
    assert_eq!(delivered.len(), ids.len(), "nothing was invented");
}

#[test]
fn an_entry_that_kills_its_relay_every_time_ends_as_dead() {
    let home = Home::migrated();
    home.write("pillarbox.toml", &format!("{CONFIG}max_attempts = 3\n"));
    let ids = home.stage_many("r", 1);
    let _lock = hold(&home, "out.ndjson");
    // Three crashes that it may have had in company, and three of its own.
    for attempt in 1..=6 {
        let relay = home.start(["relay"]);
        eventually("it is claimed", || {
            let entry = home.ok(["show", &ids[0], "--json"]).json();
            entry["status"] == "in_flight" && entry["attempts"] == attempt
        });
        relay.kill();
    }
    let mut relay = home.start(["relay"]);
    eventually("it is dead", || home.totals()["dead"] == 1);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let entry = home.ok(["show", &ids[0], "--json"]).json();
    assert_eq!((&entry["attempts"], &entry["status"]), (&6.into(), &"dead".into()));
    assert!(entry["last_error"].as_str().unwrap().starts_with("lease_expired"), "{entry}");
    assert_eq!(entry["audit"][0]["kind"], "dead");
    assert_eq!(home.read("out.ndjson"), "");
}
