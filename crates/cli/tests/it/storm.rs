//! Order per key through everything at once, on PostgreSQL and real brokers: writers whose transactions overlap, commit
//! in another order than they staged in, and roll back; a way to the broker that is cut, reset and dark at irregular
//! moments; relays that are killed. At the end `pillarbox verify` compares what arrived with the writers' own record.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use pillarbox_testkit::{Direction, Fault};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::home::{Home, Running, eventually, postgres};
use crate::killed::Shop;
use crate::place::{Broker, Place, Wire, wait};

const KEYS: u64 = 200;
const WRITERS: u64 = 4;
/// Transactions that each writer has open at once.
const OPEN: usize = 3;
/// Rounds of one writer: enough to see something, and not so many that a slow relay never ends.
const ROUNDS_MIN: u32 = 20;
const ROUNDS_MAX: u32 = 120;
/// Faults, and relays killed.
const FAULTS: u32 = 6;

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.roll(below as u64)).unwrap()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a pace for the load and the weather, not a wait for something"
    )]
    fn pause(&mut self, millis: std::ops::Range<u64>) {
        std::thread::sleep(Duration::from_millis(millis.start + self.roll(millis.end - millis.start)));
    }
}

/// What a writer has done.
#[derive(Default)]
struct Record {
    /// Lines of what was committed.
    committed: Vec<String>,
    rolled_back: Vec<String>,
    /// Entries that were committed before one that was staged before them.
    overtakers: usize,
}

/// One event of an open transaction.
struct Staged {
    id: String,
    key: String,
    at: i64,
}

impl Staged {
    fn line(&self, committed: i64) -> String {
        let Self { id, key, at } = self;
        json!({"route": "orders", "event_id": id, "key": key, "staged_at": at, "committed_at": committed})
            .to_string()
    }
}

/// Stages until it is told to stop. `clock` counts what all writers do: before an event is sent, after a commit has
/// come back.
fn write(shop: &Shop, seed: u64, clock: &AtomicI64, stop: &AtomicBool) -> Record {
    let mut dice = Dice(seed);
    let mut record = Record::default();
    let insert = "insert into {s}.pillarbox_outbox (event_id, route, type, key, payload) \
                  values ($1, 'orders', 't', $2, '7')";
    let mut connections: Vec<PgConnection> = wait(async {
        let mut connections = Vec::new();
        for _ in 0..OPEN {
            connections.push(PgConnection::connect(&postgres()).await.unwrap());
        }
        connections
    });
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS_MIN && stop.load(Ordering::Relaxed) {
            break;
        }
        let mut open: Vec<(PgConnection, Vec<Staged>)> =
            connections.drain(..).map(|one| (one, vec![])).collect();
        wait(async {
            for (connection, _) in &mut open {
                sqlx::raw_sql("begin").execute(connection).await.unwrap();
            }
            for _ in 0..4 + dice.roll(8) {
                let (connection, staged) = &mut open[dice.index(OPEN)];
                // Half of them are of a few keys, so that transactions meet.
                let among = if dice.roll(2) == 0 { 10 } else { KEYS };
                let key = format!("k-{}", dice.roll(among));
                let (id, at) = (uuid::Uuid::new_v4(), clock.fetch_add(1, Ordering::SeqCst));
                sqlx::query(shop.sql(insert)).bind(id).bind(&key).execute(connection).await.unwrap();
                staged.push(Staged { id: id.to_string(), key, at });
            }
            let mut newest = i64::MIN;
            while !open.is_empty() {
                let (mut connection, staged) = open.swap_remove(dice.index(open.len()));
                if dice.roll(5) == 0 {
                    sqlx::raw_sql("rollback").execute(&mut connection).await.unwrap();
                    record.rolled_back.extend(staged.iter().map(|staged| staged.line(i64::MAX)));
                } else {
                    sqlx::raw_sql("commit").execute(&mut connection).await.unwrap();
                    let at = clock.fetch_add(1, Ordering::SeqCst);
                    record.committed.extend(staged.iter().map(|staged| staged.line(at)));
                    record.overtakers += staged.iter().filter(|staged| staged.at < newest).count();
                    newest = staged.iter().map(|staged| staged.at).max().unwrap_or(newest).max(newest);
                }
                connections.push(connection);
            }
        });
        dice.pause(10..100);
    }
    record
}

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

fn nothing_is_lost_invented_or_out_of_order(broker: Broker, seed: u64) {
    let place = Place::stream(broker);
    let shop = Shop::new();
    let home = &shop.home;
    let (wire, through) = Wire::to(&place.server);
    let config = |server: &str| {
        format!(
            "[database]\nurl = \"{}\"\nschema = \"{}\"\n[routes.orders]\nto = \"{}\"\norder = \"key\"\nlease = \"4s\"\n\
             publish_timeout = \"2500ms\"\nmax_attempts = 100000\nbatch = 50\n\
             backoff = {{ base = \"5ms\", max = \"50ms\" }}\n",
            postgres(),
            shop.schema,
            place.to(server)
        )
    };
    home.write("pillarbox.toml", &config(&place.server));
    home.write("wired.toml", &config(&through));
    let relay = |n: u32| home.start_logged(&format!("log-{n}"), ["--config", "wired.toml", "relay"]);
    let mut dice = Dice(seed);
    let (clock, stop) = (AtomicI64::new(0), AtomicBool::new(false));
    let mut relays: Vec<Running> = (0..2).map(relay).collect();
    let records: Vec<Record> = std::thread::scope(|scope| {
        let writer = |n: u64| {
            let (shop, clock, stop) = (&shop, &clock, &stop);
            scope.spawn(move || write(shop, seed ^ (n << 32), clock, stop))
        };
        let writers: Vec<_> = (1..=WRITERS).map(writer).collect();
        let stopping = Stop(&stop);
        for n in 0..FAULTS {
            let before = total(home, "delivered");
            eventually("something is delivered", || {
                total(home, "delivered") > before || writers.iter().all(|writer| writer.is_finished())
            });
            fault(&wire, &mut dice);
            relays.remove(dice.index(relays.len())).kill();
            relays.push(relay(2 + n));
        }
        drop(stopping);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let committed: Vec<&str> =
        records.iter().flat_map(|record| &record.committed).map(String::as_str).collect();
    let rolled_back: Vec<&str> =
        records.iter().flat_map(|record| &record.rolled_back).map(String::as_str).collect();
    let overtakers: usize = records.iter().map(|record| record.overtakers).sum();
    assert!(
        overtakers > 0 && !rolled_back.is_empty(),
        "{overtakers} overtook, {} rolled back",
        rolled_back.len()
    );
    let mut left = u64::MAX;
    while left > 0 {
        // As long as it gets less it may take what it takes.
        let before = left;
        eventually("there is less to deliver", || {
            let totals = home.totals();
            left = ["pending", "in_flight", "retrying"]
                .iter()
                .map(|status| totals[status].as_u64().unwrap())
                .sum();
            left < before
        });
    }
    for mut relay in relays {
        relay.signal("TERM");
        assert_eq!(relay.end().code, 0);
    }

    let verify = |lines: &[&str]| {
        let mut lines: Vec<(i64, i64, &str)> = lines.iter().map(|line| moments(line)).collect();
        lines.sort_unstable();
        let text: String = lines.iter().map(|(_, _, line)| format!("{line}\n")).collect();
        home.write("committed.ndjson", &text);
        home.run(["verify", "--json", "--allow-duplicates", "--staged", "committed.ndjson"])
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
    let reversed: Vec<String> =
        committed.iter().map(|line| reversed(line, clock.load(Ordering::SeqCst))).collect();
    let reversed = verify(&reversed.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(reversed.json()["routes"][0]["out_of_order"].as_u64().unwrap() > 0, "{reversed:?}");
    // The table agrees, as far as it knows.
    home.ok(["verify", "--allow-duplicates"]);
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

/// Stops the writers also when the test fails: otherwise the failure would wait for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_rabbitmq_stream() {
    nothing_is_lost_invented_or_out_of_order(Broker::RabbitMq, seed(1));
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_jetstream_stream() {
    nothing_is_lost_invented_or_out_of_order(Broker::Nats, seed(2));
}

#[test]
fn in_a_storm_nothing_is_lost_invented_or_out_of_order_in_a_redis_stream() {
    nothing_is_lost_invented_or_out_of_order(Broker::Redis, seed(3));
}
