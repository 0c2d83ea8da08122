//! A database whose clock is set back and forth by an hour, with relays killed in flight: nothing waits for the hour.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::home::{Home, eventually};
use crate::order;
use crate::services::Services;
use crate::signals::hold;

const ROUTE: &str = "[routes.r]\nto = \"file:out.ndjson\"\nlease = \"4s\"\nreap_interval = \"200ms\"\ngrace = \"300ms\"\n\
    batch = 20\nbackoff = { base = \"1ms\", max = \"10ms\" }\n";

/// A place with a clock that can be set.
enum Clocked {
    /// The clock is that of the machine. What the file says of leases is moved instead, which comes to the same.
    Sqlite(Home),
    /// The server reads from this file how far its clock is off.
    Postgres(Home, PathBuf, #[expect(dead_code, reason = "kept until the end")] Services),
}

impl Clocked {
    fn on_sqlite(order: &str) -> Self {
        let home = Home::migrated();
        home.write("pillarbox.toml", &format!("{ROUTE}order = \"{order}\"\n"));
        Self::Sqlite(home)
    }

    fn on_postgres(order: &str) -> Self {
        let servers = Services::start("postgres-clock");
        let home = Home::new();
        let database =
            format!("[database]\nurl = \"{}\"\n", servers.variable("PILLARBOX_TEST_CLOCK_POSTGRES"));
        home.write("pillarbox.toml", &format!("{database}{ROUTE}order = \"{order}\"\n"));
        home.ok(["migrate"]);
        let offset = servers.variable("PILLARBOX_TEST_CLOCK").into();
        Self::Postgres(home, offset, servers)
    }

    fn home(&self) -> &Home {
        let (Self::Sqlite(home) | Self::Postgres(home, ..)) = self;
        home
    }

    /// Sets the clock, which was set before, by so many hours.
    fn step(&self, from: i32, to: i32) {
        match self {
            Self::Postgres(_, file, _) => std::fs::write(file, format!("{to:+}h")).unwrap(),
            Self::Sqlite(home) => home.sql(if to < from { BACK } else { FORTH }),
        }
    }
}

/// Leases on SQLite after the clock was set back by an hour.
const BACK: &str = "update pillarbox_outbox set due_at = due_at + 3600000000, leased_at = leased_at + 3600000000 \
    where status = 'in_flight'; \
    update pillarbox_lane_session set lease_until = lease_until + 3600000000, leased_at = leased_at + 3600000000";
/// And forth.
const FORTH: &str = "update pillarbox_outbox set due_at = due_at - 3600000000, leased_at = leased_at - 3600000000 \
    where status = 'in_flight'; \
    update pillarbox_lane_session set lease_until = lease_until - 3600000000, leased_at = leased_at - 3600000000";

/// Each time the clock is set, and the relay that has everything in flight is killed: the other one goes on at once.
fn a_step_delays_nothing(place: &Clocked) {
    let home = place.home();
    let mut staged = BTreeMap::<String, Vec<String>>::new();
    let mut relays = vec![home.start_logged("log-0", ["relay"])];
    for (n, [from, to]) in (1..).zip([[0, -1], [-1, 0], [0, 1], [1, 0]]) {
        let lock = hold(home, "out.ndjson");
        for (key, ids) in order::stage(home, 100) {
            staged.entry(key).or_default().extend(ids);
        }
        eventually("something is in flight", || home.totals()["in_flight"] != 0);
        relays.push(home.start_logged(&format!("log-{n}"), ["relay"]));
        place.step(from, to);
        relays.remove(0).kill();
        drop(lock);
        eventually("everything is delivered", || home.totals()["delivered"] == 100 * n);
    }
    assert_eq!(home.totals()["dead"], 0);
    let arrived = order::arrived(home);
    assert_eq!(arrived.values().map(Vec::len).sum::<usize>(), 400);
    if home.ok(["config", "show", "--json"]).json()["routes"]["r"]["order"] == "key" {
        assert_eq!(arrived, staged);
    }
}

#[test]
fn a_clock_that_is_set_delays_nothing_by_rows_on_sqlite() {
    a_step_delays_nothing(&Clocked::on_sqlite("none"));
}

#[test]
fn a_clock_that_is_set_delays_nothing_by_lanes_on_sqlite() {
    a_step_delays_nothing(&Clocked::on_sqlite("key"));
}

#[test]
fn a_clock_that_is_set_delays_nothing_by_rows_on_postgres() {
    a_step_delays_nothing(&Clocked::on_postgres("none"));
}

#[test]
fn a_clock_that_is_set_delays_nothing_by_lanes_on_postgres() {
    a_step_delays_nothing(&Clocked::on_postgres("key"));
}
