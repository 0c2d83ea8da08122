//! A broker that goes away under load, and one that does not answer: nothing is lost, and the operator sees why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox_testkit::{Direction, Fault};
use serde_json::{Value, json};

use crate::home::{Home, eventually};
use crate::place::{Broker, Place, Wire};

/// What `status` says of a route and of the one relay that delivers it.
fn seen(home: &Home, route: &str) -> (Value, Value) {
    let status = home.ok(["status", "--json"]).json();
    let of = |list: &str| {
        let of_route = status[list].as_array().unwrap().iter().filter(|one| one["route"] == route);
        let found: Vec<_> = of_route.cloned().collect();
        assert!(found.len() <= 1, "{status}");
        found.into_iter().next().unwrap_or(Value::Null)
    };
    (of("routes"), of("relays"))
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} is not in {value}"))
}

/// Stages on both routes again and again until it is told to stop, and returns the ids of the orders.
#[expect(clippy::disallowed_methods, reason = "a pace for the load, not a wait for something")]
fn load(home: &Home, stop: &AtomicBool) -> Vec<String> {
    let mut orders = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        orders.extend(home.stage_many("orders", 20));
        home.stage_many("mail", 5);
        std::thread::sleep(Duration::from_millis(50));
    }
    orders
}

/// Stops the load also when the test fails: otherwise the failure would wait for it for ever.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn goes_away_under_load(broker: Broker) {
    let place = Place::new(broker);
    let (wire, through) = Wire::to(&place.server);
    let home = Home::migrated();
    let to = place.to(&through);
    home.write(
        "pillarbox.toml",
        &format!("[routes.orders]\nto = \"{to}\"\n[routes.mail]\nto = \"file:mail.ndjson\"\n"),
    );
    let mut relay = home.start_logged("log", ["relay"]);
    let stop = AtomicBool::new(false);
    let orders = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&home, &stop));
        let stopping = Stop(&stop);
        eventually("orders are delivered", || number(&seen(&home, "orders").0, "delivered") >= 20);

        wire.set(Fault::Down);
        eventually("status says that the circuit of the orders is open", || {
            seen(&home, "orders").1["circuit"] == "open"
        });
        let mail = number(&seen(&home, "mail").0, "delivered");
        eventually("it was tried, orders wait, and mail is delivered", || {
            let (counts, relay) = seen(&home, "orders");
            number(&relay, "outages") >= 3
                && number(&counts, "pending") >= 60
                && number(&seen(&home, "mail").0, "delivered") >= mail + 25
        });
        let (counts, relay) = seen(&home, "orders");
        assert_ne!(relay["circuit"], "closed", "{relay}");
        assert!(relay["reason"].as_str().unwrap().starts_with("down/"), "{relay}");
        assert!(relay["down_since"].is_string() && relay["gone"] == false, "{relay}");
        assert_eq!((&counts["retrying"], &counts["dead"]), (&json!(0), &json!(0)), "{counts}");
        assert_eq!(seen(&home, "mail").1["circuit"], "closed");
        let said = home.ok(["status"]).stdout;
        assert!(said.contains(", tried "), "{said}");
        for entry in home.ok(["list", "--route", "orders", "--status", "pending", "--json"]).lines() {
            assert_eq!(entry["attempts"], 0, "an attempt was spent: {entry}");
        }

        wire.heal();
        drop(stopping);
        load.join().unwrap()
    });
    let all = u64::try_from(orders.len()).unwrap();
    eventually("all is delivered", || {
        let (counts, relay) = seen(&home, "orders");
        number(&counts, "delivered") == all && relay["circuit"] == "closed"
    });
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let (counts, relay) = seen(&home, "orders");
    assert_eq!((&counts["dead"], &relay), (&json!(0), &Value::Null), "whoever stops is not seen any more");
    let entries = home.ok(["list", "--route", "orders", "--limit", "10000", "--json"]).lines();
    assert_eq!(entries.len(), orders.len());
    assert!(entries.iter().all(|entry| entry["attempts"] == 1), "no attempt was spent on the outage");
    let stored = place.stored();
    assert!(orders.iter().all(|id| stored.contains(id)), "{} of {} arrived", stored.len(), orders.len());
}

#[test]
fn rabbitmq_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    goes_away_under_load(Broker::RabbitMq);
}

#[test]
fn nats_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    goes_away_under_load(Broker::Nats);
}

#[test]
fn redis_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    goes_away_under_load(Broker::Redis);
}

fn never_confirms(broker: Broker) {
    let place = Place::new(broker);
    let (wire, through) = Wire::to(&place.server);
    let home = Home::migrated();
    let to = place.to(&through);
    home.write(
        "pillarbox.toml",
        &format!(
            "[routes.orders]\nto = \"{to}\"\npublish_timeout = \"3s\"\nmax_attempts = 50\n\
             backoff = {{ base = \"10ms\", max = \"100ms\" }}\n"
        ),
    );
    let mut relay = home.start_logged("log", ["relay"]);
    home.stage_many("orders", 1);
    eventually("the first is delivered", || home.totals()["delivered"] == 1);

    // What is published arrives; the word for it does not.
    wire.set(Fault::BlackHole(Direction::ToClient));
    let id = home.stage_many("orders", 1).remove(0);
    let entry = || home.ok(["show", &id, "--json"]).json();
    eventually("it is there", || place.stored().contains(&id));
    // Its outcome is unknown then; that nobody answers the next try either may have been noted since.
    eventually("the wait for the confirmation has ended", || entry()["last_error"].is_string());
    wire.heal();
    eventually("it is delivered again and confirmed", || entry()["status"] == "delivered");
    assert!(number(&entry(), "attempts") >= 2, "an unknown outcome is an attempt");
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let times = place.stored().iter().filter(|stored| **stored == id).count();
    // JetStream knows the repetition by its id.
    assert!(if broker == Broker::Nats { times == 1 } else { times >= 2 }, "it is there {times} times");
}

#[test]
fn a_confirm_of_rabbitmq_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::RabbitMq);
}

#[test]
fn a_confirm_of_nats_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::Nats);
}

#[test]
fn a_confirm_of_redis_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::Redis);
}
