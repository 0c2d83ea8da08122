//! A standby is promoted under ordered relays that nobody restarts: what the new primary has is delivered, in order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::home::{Home, Running, eventually, postgres};
use crate::many_relays::on_postgres;
use crate::pair::{Follows, Pair, execute};
use crate::signals::hold;

/// Default settings but for the order.
const ROUTE: &str = "[routes.r]\nto = \"file:out.ndjson\"\norder = \"key\"\n";
const KEYS: usize = 20;
const STANDBY_SAYS: &str = "accepts no writes: it is a standby or read-only";

/// Stages so many events, key by key in turn, in one transaction. Returns their ids if that is known to be committed.
fn stage(home: &Home, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut lines = String::new();
    for n in 0..count {
        let (id, key) = (uuid::Uuid::now_v7().to_string(), format!("k-{}", n % KEYS));
        lines += &format!(
            "{{\"route\":\"r\",\"type\":\"t\",\"key\":\"{key}\",\"event_id\":\"{id}\",\"payload\":{n}}}\n"
        );
        ids.push(id);
    }
    home.write("staged.ndjson", &lines);
    home.ok(["stage", "--ndjson", "staged.ndjson"]);
    ids
}

/// What arrived, line by line: id, key, lane and fence.
fn arrived(home: &Home) -> Vec<(String, String, String, i64)> {
    let text = if home.path("out.ndjson").exists() { home.read("out.ndjson") } else { String::new() };
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    events
        .map(|event| {
            let fence = text(&event, "pillarboxfence").parse().unwrap();
            (text(&event, "id"), text(&event, "subject"), text(&event, "pillarboxlane"), fence)
        })
        .collect()
}

/// Relays that run until they are told to stop, with what they say in files.
struct Relays<'a> {
    home: &'a Home,
    running: Vec<Running>,
}

impl<'a> Relays<'a> {
    fn start(home: &'a Home) -> Self {
        let running = ["log-0", "log-1"].map(|log| home.start_logged(log, ["relay"])).into();
        Self { home, running }
    }

    fn logs(&self) -> [String; 2] {
        ["log-0", "log-1"].map(|log| self.home.read(log))
    }

    fn assert_running(&mut self) {
        let ended = self.running.iter_mut().any(Running::has_ended);
        assert!(!ended, "a relay has ended: {:#?}", self.logs());
    }

    /// They meet the standby before it is promoted, say so, and hold.
    fn hold(&mut self) {
        eventually("every relay says that it waits", || {
            self.assert_running();
            self.logs().iter().all(|log| log.contains(STANDBY_SAYS))
        });
    }

    fn stop(mut self) {
        self.assert_running();
        for relay in &mut self.running {
            relay.signal("TERM");
        }
        for relay in self.running.drain(..) {
            assert_eq!(relay.end().code, 0);
        }
    }
}

/// Everything that the new primary has is delivered, and every key in its order; no owner of a lane publishes after a newer
/// one has.
fn check(home: &Home, pair: &Pair) {
    let committed = pair.column("select event_id::text from pillarbox_outbox order by seq");
    let known: BTreeSet<&String> = committed.iter().collect();
    let arrived = arrived(home);
    let mut first: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
    for (id, key, lane, fence) in &arrived {
        // What the old primary took along was delivered all the same, and is not part of any order that is left.
        if known.contains(id) && seen.insert(id) {
            first.entry(key).or_default().push(id);
        }
        let newest = newest.entry(lane).or_insert(*fence);
        assert!(fence >= newest, "{id} came under the fence {fence} of {lane} after {newest}");
        *newest = *fence;
    }
    let keys = pair.column("select key || ' ' || event_id from pillarbox_outbox order by seq");
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, id) in keys.iter().filter_map(|line| line.split_once(' ')) {
        wanted.entry(key).or_default().push(id);
    }
    let first: BTreeMap<&str, Vec<&str>> =
        first.iter().map(|(key, ids)| (*key, ids.iter().map(|id| id.as_str()).collect())).collect();
    assert_eq!(first, wanted);
}

fn is_delivered(home: &Home, pair: &Pair) -> bool {
    let open = "select event_id::text from pillarbox_outbox where status <> 'delivered' limit 1";
    pair.column(open).is_empty() && !arrived(home).is_empty()
}

fn promoted_in_mid_relay(pair: &str, follows: Follows) {
    let (pair, home) = Pair::start(pair);
    home.write("pillarbox.toml", &format!("{}{ROUTE}", home.read("pillarbox.toml")));
    pair.follow(follows);
    home.ok(["migrate"]);
    let mut acknowledged = stage(&home, 200);
    let mut relays = Relays::start(&home);
    eventually("the relays are at work", || !arrived(&home).is_empty());
    // From here on whatever a relay delivers stays in flight, until the primary is gone.
    let lock = hold(&home, "out.ndjson");
    acknowledged.extend(stage(&home, 400));
    eventually("something is in flight", || home.totals()["in_flight"] != 0);
    if follows == Follows::Asynchronously {
        pair.catch_up();
        pair.cut_off();
        // The old primary takes these along; the relays may have delivered them.
        let _ = stage(&home, 100);
    }
    pair.kill_primary();
    drop(lock);
    pair.lead_to_standby();
    relays.hold();
    pair.promote();
    acknowledged.extend(stage(&home, 200));
    eventually("everything is delivered", || {
        relays.assert_running();
        is_delivered(&home, &pair)
    });
    let committed: BTreeSet<_> =
        pair.column("select event_id::text from pillarbox_outbox").into_iter().collect();
    assert!(acknowledged.iter().all(|id| committed.contains(id)), "what was acknowledged is there");
    check(&home, &pair);
    home.ok(["status", "--check"]);
    relays.stop();
}

/// The standby has heard of the tables by the write-ahead log only, and has made no restartpoint since.
fn promoted_right_after_migrate(pair: &str) {
    let (pair, home) = Pair::start(pair);
    home.write("pillarbox.toml", &format!("{}{ROUTE}", home.read("pillarbox.toml")));
    home.ok(["migrate"]);
    let mut relays = Relays::start(&home);
    stage(&home, 40);
    pair.catch_up();
    pair.kill_primary();
    pair.lead_to_standby();
    relays.hold();
    pair.promote();
    stage(&home, 40);
    eventually("everything is delivered", || {
        relays.assert_running();
        is_delivered(&home, &pair)
    });
    check(&home, &pair);
    home.ok(["status", "--check"]);
    assert!(!home.ok(["migrate"]).stderr.contains("lane sessions"), "nothing was damaged");
    relays.stop();
}

#[test]
fn ordered_relays_go_on_after_an_asynchronous_standby_of_postgresql_15_was_promoted() {
    promoted_in_mid_relay("postgres-pair", Follows::Asynchronously);
}

#[test]
fn ordered_relays_go_on_after_a_synchronous_standby_of_postgresql_15_was_promoted() {
    promoted_in_mid_relay("postgres-pair", Follows::Synchronously);
}

#[test]
fn ordered_relays_go_on_after_an_asynchronous_standby_of_postgresql_18_was_promoted() {
    promoted_in_mid_relay("postgres-18-pair", Follows::Asynchronously);
}

#[test]
fn ordered_relays_go_on_after_a_synchronous_standby_of_postgresql_18_was_promoted() {
    promoted_in_mid_relay("postgres-18-pair", Follows::Synchronously);
}

#[test]
fn ordered_relays_go_on_after_a_promotion_right_after_migrate_on_postgresql_15() {
    promoted_right_after_migrate("postgres-pair");
}

#[test]
fn ordered_relays_go_on_after_a_promotion_right_after_migrate_on_postgresql_18() {
    promoted_right_after_migrate("postgres-18-pair");
}

/// What a promoted standby may be left with, without the promotion: a file of the session table is not there.
#[test]
fn a_damaged_session_table_is_told_by_status_check_and_mended_by_the_relay() {
    let home = on_postgres();
    let configuration = home.read("pillarbox.toml");
    home.write("pillarbox.toml", &format!("{configuration}{ROUTE}"));
    let schema = configuration.split("schema = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    stage(&home, 40);
    home.ok(["status", "--check"]);
    let sql = format!(
        "update pg_class set relfilenode = 4000000000 where oid = '{schema}.pillarbox_lane_session'::regclass"
    );
    execute(&postgres(), &sql);
    home.run(["status", "--check"]).refused(3, &["lane sessions", "pillarbox migrate"]);
    home.ok(["relay", "--drain"]);
    assert_eq!(home.totals()["delivered"], 40);
    home.ok(["status", "--check"]);
    execute(&postgres(), &sql);
    home.ok(["migrate"]);
    home.ok(["status", "--check"]);
}
