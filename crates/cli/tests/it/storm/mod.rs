//! Order per key through everything at once, on real databases and real brokers: writers whose transactions overlap, commit
//! in another order than they staged in, and roll back; a way to the broker that is cut, reset and dark at irregular
//! moments, or a queue that refuses what is too much; relays that are killed. At the end `pillarbox verify` compares
//! what arrived with the writers' own record.

mod database;
mod writing;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use pillarbox_testkit::{Direction, Fault};
use serde_json::{Value, json};

use crate::home::{Home, Running, eventually};
use crate::place::{Broker, Place, Wire};

use database::{Database, Kind};
pub(crate) use writing::Dice;
use writing::{Record, write};

const WRITERS: u64 = 4;
/// Faults, and relays killed.
const FAULTS: u32 = 6;
/// Where it is written down what came out of a queue that keeps nothing.
const TAKEN: &str = "taken.ndjson";

/// Something happens to the way to the broker, for a moment.
fn fault(wire: &Wire, dice: &mut Dice) {
    let lasting = [
        Fault::Down,
        Fault::BlackHole(Direction::ToClient),
        Fault::BlackHole(Direction::ToServer),
        Fault::BlackHole(Direction::Both),
        Fault::CutAfter { direction: Direction::ToServer, bytes: dice.roll(20_000) },
        Fault::CutAfter { direction: Direction::ToClient, bytes: dice.roll(2_000) },
    ];
    match dice.index(lasting.len() + 2) {
        0 => wire.set(Fault::Cut),
        1 => wire.set(Fault::Reset),
        other => {
            wire.set(lasting[other - 2]);
            dice.pause(50..600);
            wire.heal();
        }
    }
}

fn total(home: &Home, status: &str) -> u64 {
    home.totals()[status].as_u64().unwrap()
}

/// Takes everything out of a queue, now and then after a pause in which it gets full, and writes it down in its order.
fn take(place: &Place, home: &Home, seed: u64, stop: &AtomicBool) {
    let mut dice = Dice(seed);
    let mut taken = std::fs::File::create(home.path(TAKEN)).unwrap();
    let queue = place.taker();
    loop {
        // Looked at first: what was there before is taken.
        let is_last = stop.load(Ordering::SeqCst);
        match queue.take() {
            Some(id) => writeln!(taken, "{{\"id\":\"{id}\"}}").unwrap(),
            None if is_last => return,
            None => {}
        }
        if dice.roll(10) == 0 {
            dice.pause(1..20);
        }
    }
}

fn nothing_is_lost_invented_or_out_of_order(on: Kind, place: &Place, seed: u64, verify: &[&str]) {
    let database = Database::new(on);
    let home = &database.home;
    let (wire, through) = Wire::to(&place.server);
    let config = |server: &str| {
        format!(
            "{}[routes.orders]\nto = \"{}\"\norder = \"key\"\nlease = \"4s\"\n\
             publish_timeout = \"2500ms\"\nbatch = 50\n\
             backoff = {{ base = \"5ms\", max = \"50ms\" }}\n",
            database.section,
            place.to(server)
        )
    };
    home.write("pillarbox.toml", &config(&place.server));
    home.write("wired.toml", &config(&through));
    let relay = |n: u32| home.start_logged(&format!("log-{n}"), ["--config", "wired.toml", "relay"]);
    let mut dice = Dice(seed);
    let (clock, stop, stop_taking) = (AtomicI64::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let mut relays: Vec<Running> = (0..2).map(relay).collect();
    let records: Vec<Record> = std::thread::scope(|scope| {
        let (database, clock, stop, taking) = (&database, &clock, &stop, &stop_taking);
        let _stopping = [Stop(stop), Stop(taking)];
        if place.keeps_nothing() {
            scope.spawn(move || take(place, &database.home, seed, taking));
        }
        let writer = |n: u64| scope.spawn(move || write(database, seed ^ (n << 32), clock, stop));
        let writers: Vec<_> = (1..=WRITERS).map(writer).collect();
        for n in 0..FAULTS {
            let before = total(home, "delivered");
            eventually("something is delivered", || {
                total(home, "delivered") > before || writers.iter().all(|writer| writer.is_finished())
            });
            fault(&wire, &mut dice);
            relays.remove(dice.index(relays.len())).kill();
            relays.push(relay(2 + n));
        }
        stop.store(true, Ordering::SeqCst);
        let records = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        deliver_the_rest(home);
        for mut relay in relays {
            relay.signal("TERM");
            assert_eq!(relay.end().code, 0);
        }
        records
    });
    compare(home, &records, clock.load(Ordering::SeqCst), seed, verify);
}

/// Waits until nothing is left. As long as it gets less it may take what it takes.
fn deliver_the_rest(home: &Home) {
    let mut left = u64::MAX;
    while left > 0 {
        let before = left;
        eventually("there is less to deliver", || {
            let totals = home.totals();
            let of = |status: &&str| totals[*status].as_u64().unwrap();
            left = ["pending", "in_flight", "retrying"].iter().map(of).sum();
            left < before
        });
    }
}

fn compare(home: &Home, records: &[Record], end: i64, seed: u64, verify: &[&str]) {
    let committed: Vec<&str> =
        records.iter().flat_map(|record| &record.committed).map(String::as_str).collect();
    let rolled_back: Vec<&str> =
        records.iter().flat_map(|record| &record.rolled_back).map(String::as_str).collect();
    let overtakers: usize = records.iter().map(|record| record.overtakers).sum();
    assert!(overtakers > 0 && !rolled_back.is_empty(), "{overtakers} overtook, {rolled_back:?} rolled back");
    let run = |more: &[&str]| home.run([&["verify", "--json", "--allow-duplicates"], verify, more].concat());
    let verify = |lines: &[&str]| {
        let mut lines: Vec<(i64, i64, &str)> = lines.iter().map(|line| moments(line)).collect();
        lines.sort_unstable();
        let text: String = lines.iter().map(|(_, _, line)| format!("{line}\n")).collect();
        home.write("committed.ndjson", &text);
        run(&["--staged", "committed.ndjson"])
    };
    let said = verify(&committed);
    assert_eq!(said.code, 0, "seed {seed}: {said:?}");
    let route = &said.json()["routes"][0];
    assert_eq!(
        (&route["staged"], &route["waiting"], &route["dead"]),
        (&json!(committed.len()), &json!(0), &json!(0))
    );
    // That it looks at all: what was rolled back is told to be missing, and the other way round of each key.
    let with_rolled_back = verify(&[committed.clone(), rolled_back.clone()].concat());
    assert_eq!(with_rolled_back.json()["routes"][0]["lost"], rolled_back.len(), "{with_rolled_back:?}");
    let reversed: Vec<String> = committed.iter().map(|line| reversed(line, end)).collect();
    let reversed = verify(&reversed.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(reversed.json()["routes"][0]["out_of_order"].as_u64().unwrap() > 0, "{reversed:?}");
    // The table agrees, as far as it knows.
    assert_eq!(run(&[]).code, 0);
}

/// A line with what it is sorted by: the order of commits, and of staging inside of a transaction.
fn moments(line: &str) -> (i64, i64, &str) {
    let value: Value = serde_json::from_str(line).unwrap();
    let number = |name: &str| value[name].as_i64().unwrap();
    (number("committed_at"), number("staged_at"), line)
}

/// The same line as if time ran backwards.
fn reversed(line: &str, end: i64) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    let number = |name: &str| value[name].as_i64().unwrap();
    let (staged, committed) = (end - number("committed_at"), end - number("staged_at"));
    value["staged_at"] = staged.into();
    value["committed_at"] = committed.into();
    value.to_string()
}

/// Another storm, for whoever looks for one: `PILLARBOX_TEST_SEED=17`.
fn seed(usual: u64) -> u64 {
    std::env::var("PILLARBOX_TEST_SEED").map_or(usual, |seed| seed.parse().unwrap())
}

/// Stops threads also when the test fails: otherwise the failure would wait for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_rabbitmq_stream() {
    nothing_is_lost_invented_or_out_of_order(Kind::Postgres, &Place::stream(Broker::RabbitMq), seed(1), &[]);
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_jetstream_stream() {
    nothing_is_lost_invented_or_out_of_order(Kind::Postgres, &Place::stream(Broker::Nats), seed(2), &[]);
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_redis_stream() {
    nothing_is_lost_invented_or_out_of_order(Kind::Postgres, &Place::stream(Broker::Redis), seed(3), &[]);
}

#[test]
fn in_a_storm_on_mongodb_nothing_is_lost_invented_or_out_of_order_in_a_jetstream_stream() {
    nothing_is_lost_invented_or_out_of_order(Kind::MongoDb, &Place::stream(Broker::Nats), seed(6), &[]);
}

#[test]
fn in_a_storm_on_mysql_nothing_is_lost_invented_or_out_of_order_in_a_jetstream_stream() {
    nothing_is_lost_invented_or_out_of_order(Kind::MySql, &Place::stream(Broker::Nats), seed(5), &[]);
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_queue_that_refuses_what_is_too_much() {
    let from = format!("file:{TAKEN}");
    let verify = ["--route", "orders", "--from", &from];
    nothing_is_lost_invented_or_out_of_order(Kind::Postgres, &Place::refusing(), seed(4), &verify);
}
