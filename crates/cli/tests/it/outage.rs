//! A broker that goes away under load, one that hangs, and one that does not confirm: nothing is lost, and the operator sees why.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pillarbox_testkit::{Direction, Fault};
use serde_json::{Value, json};

use crate::home::{Home, eventually};
use crate::place::{Broker, Place, Wire};
use crate::server::Server;

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
fn load(home: &Home, stop: &AtomicBool, pause: Duration) -> Vec<String> {
    let mut orders = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        orders.extend(home.stage_many("orders", 20));
        home.stage_many("mail", 5);
        std::thread::sleep(pause);
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

/// What is there for a while and then not.
struct Away<'a> {
    place: &'a Place,
    /// The server's URL, as the relay knows it.
    server: &'a str,
    /// Ends it.
    leave: &'a mut dyn FnMut(),
    /// Brings it back.
    come_back: &'a mut dyn FnMut(),
    /// Whether nobody listens while it is away. Otherwise what it had not confirmed has an unknown outcome.
    refuses: bool,
    /// How long it is away at least.
    lasts: Duration,
}

fn goes_away_under_load(away: Away<'_>) {
    let Away { place, server, leave, come_back, refuses, lasts } = away;
    let home = Home::migrated();
    let to = place.to(server);
    // Whoever does not answer at all is found out when it is waited for no longer.
    let patience = if refuses { "" } else { "publish_timeout = \"8s\"\n" };
    home.write(
        "pillarbox.toml",
        &format!("[routes.orders]\nto = \"{to}\"\n{patience}[routes.mail]\nto = \"file:mail.ndjson\"\n"),
    );
    // What was under way when a server hangs may have arrived: only that spends an attempt.
    let is_sure = |entry: &Value, before: &[Value]| {
        refuses || before.iter().all(|known| known["event_id"] != entry["event_id"])
    };
    let mut relay = home.start_logged("log", ["relay"]);
    let stop = AtomicBool::new(false);
    let mut known_before = Vec::new();
    let orders = std::thread::scope(|scope| {
        // All of it fits into one listing.
        let load = scope.spawn(|| load(&home, &stop, Duration::from_millis(50) + lasts / 60));
        let stopping = Stop(&stop);
        eventually("orders are delivered", || number(&seen(&home, "orders").0, "delivered") >= 20);

        leave();
        let since = Instant::now();
        eventually("status says that the circuit of the orders is open", || {
            seen(&home, "orders").1["circuit"] == "open"
        });
        known_before.extend(entries(&home, None));
        let (waiting, mail) =
            (number(&seen(&home, "orders").0, "pending"), number(&seen(&home, "mail").0, "delivered"));
        let (mut counts, mut relay) = (Value::Null, Value::Null);
        eventually("it was tried, orders wait, and mail is delivered", || {
            (counts, relay) = seen(&home, "orders");
            // What was under way when a server hangs is given up one after the other, before anything is tried.
            relay["reason"].as_str().is_some_and(|reason| reason.starts_with("down/"))
                && number(&relay, "outages") >= 3
                && number(&counts, "pending") >= waiting + 60
                && number(&seen(&home, "mail").0, "delivered") >= mail + 25
                && since.elapsed() >= lasts
        });
        assert_ne!(relay["circuit"], "closed", "{relay}");
        assert!(relay["down_since"].is_string() && relay["gone"] == false, "{relay}");
        assert_eq!(counts["dead"], 0, "{counts}");
        if refuses {
            assert_eq!(counts["retrying"], 0, "{counts}");
        }
        assert_eq!(seen(&home, "mail").1["circuit"], "closed");
        let said = home.ok(["status"]).stdout;
        assert!(said.contains(", tried "), "{said}");
        for entry in entries(&home, Some("pending")).iter().filter(|entry| is_sure(entry, &known_before)) {
            assert_eq!(entry["attempts"], 0, "an attempt was spent: {entry}");
        }

        come_back();
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
    let entries = entries(&home, None);
    assert_eq!(entries.len(), orders.len());
    let mut sure = entries.iter().filter(|entry| is_sure(entry, &known_before)).peekable();
    assert!(
        sure.peek().is_some() && sure.all(|entry| entry["attempts"] == 1),
        "no attempt was spent on the outage"
    );
    let stored = place.stored();
    assert!(orders.iter().all(|id| stored.contains(id)), "{} of {} arrived", stored.len(), orders.len());
}

/// The orders, all or those of one status.
fn entries(home: &Home, status: Option<&str>) -> Vec<Value> {
    let mut list = vec!["list", "--route", "orders", "--limit", "10000", "--json"];
    list.extend(status.iter().flat_map(|status| ["--status", status]));
    home.ok(list).lines()
}

/// The connection is cut and refused, and heals.
fn is_unreachable_under_load(broker: Broker, lasts: Duration) {
    let place = Place::new(broker);
    let (wire, through) = Wire::to(&place.server);
    place.leads_through(&through);
    goes_away_under_load(Away {
        place: &place,
        server: &through,
        leave: &mut || wire.set(Fault::Down),
        come_back: &mut || wire.heal(),
        refuses: true,
        lasts,
    });
}

/// The process is stopped, and started again on the same port and data.
fn is_stopped_under_load(broker: Broker) {
    server_goes_away_under_load(broker, Server::stop, Server::start_again, true);
}

/// The process hangs: connections are still accepted, and nobody answers on them.
fn hangs_under_load(broker: Broker) {
    server_goes_away_under_load(broker, Server::freeze, Server::thaw, false);
}

fn server_goes_away_under_load(
    broker: Broker,
    leave: fn(&mut Server),
    come_back: fn(&mut Server),
    refuses: bool,
) {
    let server = RefCell::new(Server::start(broker));
    let place = Place::of(&server.borrow());
    let url = place.server.clone();
    goes_away_under_load(Away {
        place: &place,
        server: &url,
        leave: &mut || leave(&mut server.borrow_mut()),
        come_back: &mut || come_back(&mut server.borrow_mut()),
        refuses,
        lasts: Duration::ZERO,
    });
}

#[test]
fn rabbitmq_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    is_unreachable_under_load(Broker::RabbitMq, Duration::ZERO);
}

#[test]
fn nats_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    is_unreachable_under_load(Broker::Nats, Duration::ZERO);
}

#[test]
fn kafka_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    is_unreachable_under_load(Broker::Kafka, Duration::ZERO);
}

#[test]
fn mqtt_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    is_unreachable_under_load(Broker::Mqtt, Duration::ZERO);
}

#[test]
fn sqs_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    is_unreachable_under_load(Broker::Sqs, Duration::ZERO);
}

#[test]
fn redis_away_under_load_costs_no_attempt_and_is_seen_in_status() {
    is_unreachable_under_load(Broker::Redis, Duration::ZERO);
}

/// The relay's waits between two tries have grown to their longest.
const HALF_A_MINUTE: Duration = Duration::from_secs(30);

#[test]
fn kafka_away_for_half_a_minute_under_load_costs_no_attempt() {
    is_unreachable_under_load(Broker::Kafka, HALF_A_MINUTE);
}

#[test]
fn mqtt_away_for_half_a_minute_under_load_costs_no_attempt() {
    is_unreachable_under_load(Broker::Mqtt, HALF_A_MINUTE);
}

#[test]
fn sqs_away_for_half_a_minute_under_load_costs_no_attempt() {
    is_unreachable_under_load(Broker::Sqs, HALF_A_MINUTE);
}

#[test]
fn a_nats_server_stopped_under_load_costs_no_attempt_and_all_arrives_after_its_restart() {
    is_stopped_under_load(Broker::Nats);
}

#[test]
fn an_mqtt_server_stopped_under_load_costs_no_attempt_and_all_arrives_after_its_restart() {
    is_stopped_under_load(Broker::Mqtt);
}

#[test]
fn a_redis_server_stopped_under_load_costs_no_attempt_and_all_arrives_after_its_restart() {
    is_stopped_under_load(Broker::Redis);
}

#[test]
fn a_nats_server_that_hangs_under_load_is_seen_in_status_and_all_arrives_afterwards() {
    hangs_under_load(Broker::Nats);
}

#[test]
fn an_mqtt_server_that_hangs_under_load_is_seen_in_status_and_all_arrives_afterwards() {
    hangs_under_load(Broker::Mqtt);
}

#[test]
fn a_redis_server_that_hangs_under_load_is_seen_in_status_and_all_arrives_afterwards() {
    hangs_under_load(Broker::Redis);
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
fn a_confirm_of_mqtt_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::Mqtt);
}

#[test]
fn a_confirm_of_sqs_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::Sqs);
}

#[test]
fn a_confirm_of_nats_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::Nats);
}

#[test]
fn a_confirm_of_redis_that_never_comes_is_bounded_and_the_entry_delivered_again() {
    never_confirms(Broker::Redis);
}
