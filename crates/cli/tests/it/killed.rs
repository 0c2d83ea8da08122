//! SIGKILL at the two moments that matter: a relay between the confirmation and its record, a consumer between its
//! commit and the acknowledgement. Wires that let nothing through hold the process exactly there.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::Source;
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use pillarbox_store_postgres::{Options, PostgresStore};
use pillarbox_testkit::{Direction, Fault};
use pillarbox_transport_amqp::AmqpSource;
use pillarbox_transport_kafka::KafkaSource;
use pillarbox_transport_mqtt::MqttSource;
use pillarbox_transport_nats::NatsSource;
use pillarbox_transport_redis::RedisSource;
use pillarbox_transport_sqs::SqsSource;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::signal::unix::{SignalKind, signal};

use crate::home::{Home, Running, eventually, postgres};
use crate::place::{Broker, Place, Wire, wait};

const FROM: &str = "PILLARBOX_TEST_CHILD_FROM";
const SCHEMA: &str = "PILLARBOX_TEST_CHILD_SCHEMA";

/// An outbox, an inbox and a table for effects, in a schema of PostgreSQL of the test's own.
struct Shop {
    home: Home,
    schema: String,
}

impl Shop {
    fn new() -> Self {
        let schema = format!("cli_{}", &uuid::Uuid::new_v4().simple().to_string()[..16]);
        let home = Home::new();
        let shop = Self { home, schema };
        shop.home.write("pillarbox.toml", &shop.config(&postgres(), "null:"));
        shop.home.ok(["migrate", "--create-schema"]);
        wait(shop.execute("create table {s}.effects (event_id text not null)"));
        shop
    }

    /// A short lease: what a killed relay held moves again soon.
    fn config(&self, database: &str, to: &str) -> String {
        format!(
            "[database]\nurl = \"{database}\"\nschema = \"{}\"\n\
             [routes.orders]\nto = \"{to}\"\nlease = \"5s\"\nreap_interval = \"500ms\"\n",
            self.schema
        )
    }

    fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("{s}", &self.schema))
    }

    async fn execute(&self, text: &str) {
        let mut connection = PgConnection::connect(&postgres()).await.unwrap();
        sqlx::raw_sql(self.sql(text)).execute(&mut connection).await.unwrap();
    }

    fn number(&self, text: &str) -> i64 {
        wait(async {
            let mut connection = PgConnection::connect(&postgres()).await.unwrap();
            sqlx::query(self.sql(text)).fetch_one(&mut connection).await.unwrap().get(0)
        })
    }

    fn effects(&self) -> i64 {
        self.number("select count(*) from {s}.effects")
    }

    /// Effects of distinct events: the same number says that each happened once.
    fn distinct_effects(&self) -> i64 {
        self.number("select count(distinct event_id) from {s}.effects")
    }

    /// Starts this binary again as a consumer of this source.
    fn consumer(&self, from: &str) -> Running {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["killed::child_consumes", "--exact", "--nocapture", "--test-threads=1"])
            .env(FROM, from)
            .env(SCHEMA, &self.schema)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.home.path("consumer.log")).unwrap());
        Running::of(command.spawn().unwrap())
    }

    /// Consumes until nothing is left, and returns how many events were processed and how many were duplicates.
    fn consume_all(&self, place: &Place, effects: i64) -> (u64, u64) {
        let mut consumer = self.consumer(&place.from(&place.server));
        eventually("the effects are there", || self.effects() == effects);
        eventually("everything is acknowledged", || place.is_drained());
        consumer.signal("TERM");
        let said = consumer.end();
        assert_eq!(said.code, 0, "{said:?}");
        let tally = said.stdout.lines().find_map(|line| line.strip_prefix("consumed ")).unwrap();
        let (processed, duplicates) = tally.split_once(' ').unwrap();
        (processed.parse().unwrap(), duplicates.parse().unwrap())
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let sql = self.sql("drop schema if exists {s} cascade");
        wait(async {
            let mut connection = PgConnection::connect(&postgres()).await.unwrap();
            sqlx::raw_sql("set client_min_messages = warning").execute(&mut connection).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        });
    }
}

fn source(from: &str) -> Arc<dyn Source> {
    match from.split_once("://").unwrap().0 {
        "amqp" => Arc::new(AmqpSource::new(from).unwrap()),
        "kafka" => Arc::new(KafkaSource::new(from).unwrap()),
        "mqtt" => Arc::new(MqttSource::new(from).unwrap()),
        "nats" => Arc::new(NatsSource::new(from).unwrap()),
        "sqs" => Arc::new(SqsSource::new(from).unwrap()),
        _ => Arc::new(RedisSource::new(from).unwrap()),
    }
}

/// In a child: writes the effect of each event through the inbox until SIGTERM, and prints what it did.
#[tokio::test]
async fn child_consumes() {
    let (Ok(from), Ok(schema)) = (std::env::var(FROM), std::env::var(SCHEMA)) else { return };
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let insert = format!("insert into {schema}.effects (event_id) values ($1)");
    // Patient: the test holds the table for as long as it needs.
    let mut options = Options::default().lock_timeout(Duration::from_secs(50)).connections(16);
    options.schema = Some(schema.parse().unwrap());
    let store = PostgresStore::connect(&postgres(), options).await.unwrap();
    let mut policy = ConsumerOptions::default();
    policy.restart_backoff = Duration::from_millis(100);
    let consumer = Consumer::builder(source(&from), Arc::new(store.inbox()))
        .name("billing")
        .options(policy)
        .build()
        .unwrap();
    let stop = async {
        terminated.recv().await;
    };
    let tally = consumer
        .run(stop, async |tx, event| {
            sqlx::query(AssertSqlSafe(insert.clone()))
                .bind(event.event_id.to_string())
                .execute(&mut **tx)
                .await
                .map_err(|error| HandlerError::retry("database", error.to_string()))?;
            Ok(())
        })
        .await
        .unwrap();
    println!("\nconsumed {} {}", tally.processed, tally.duplicates);
}

fn relay_between_confirm_and_settle(broker: Broker) {
    let place = Place::new(broker);
    let shop = Shop::new();
    let (to_database, database) = Wire::to(&postgres());
    let (to_broker, through) = Wire::to(&place.server);
    let home = &shop.home;
    place.leads_through(&through);
    home.write("wired.toml", &shop.config(&database, &place.to(&through)));
    home.write("pillarbox.toml", &shop.config(&postgres(), &place.to(&place.server)));
    let relay = home.start_logged("log", ["--config", "wired.toml", "relay"]);
    home.stage_many("orders", 1);
    eventually("the relay is at work", || home.totals()["delivered"] == 1);

    // Published, and stored by the broker, whose word for it does not arrive.
    to_broker.set(Fault::BlackHole(Direction::ToClient));
    let ids = home.stage_many("orders", 5);
    eventually("the broker has them", || ids.iter().all(|id| place.stored().contains(id)));
    eventually("they are in flight", || home.totals()["in_flight"] == 5);
    // From here on the relay cannot record anything, and only now it hears of the confirmations.
    to_database.set(Fault::BlackHole(Direction::Both));
    let heard = to_broker.received();
    to_broker.heal();
    eventually("the confirmations arrive", || to_broker.received() > heard);
    relay.kill();
    drop((to_database, to_broker));
    place.leads_through(&place.server);
    assert_eq!(home.totals()["delivered"], 1, "nothing of it was recorded");

    let mut relay = home.start_logged("log", ["relay"]);
    eventually("all is delivered in the end", || home.totals()["delivered"] == 6);
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    let stored = place.stored();
    for id in &ids {
        let copies = stored.iter().filter(|stored| *stored == id).count();
        // JetStream knows the repetitions by their ids and keeps none.
        assert!(if broker == Broker::Nats { copies == 1 } else { copies >= 2 }, "{id} in {stored:?}");
        let attempts = home.ok(["show", id, "--json"]).json()["attempts"].as_u64().unwrap();
        assert!(attempts >= 2, "the crash is an attempt");
    }
    let (processed, duplicates) = shop.consume_all(&place, 6);
    assert_eq!((processed, shop.effects(), shop.distinct_effects()), (6, 6, 6), "each was applied once");
    assert!(duplicates >= u64::try_from(stored.len() - 6).unwrap(), "{duplicates} of {stored:?}");
}

#[test]
fn a_relay_killed_between_confirm_and_settle_delivers_to_rabbitmq_twice_and_it_is_applied_once() {
    relay_between_confirm_and_settle(Broker::RabbitMq);
}

#[test]
fn a_relay_killed_between_confirm_and_settle_delivers_to_redis_twice_and_it_is_applied_once() {
    relay_between_confirm_and_settle(Broker::Redis);
}

#[test]
fn a_relay_killed_between_confirm_and_settle_delivers_to_kafka_twice_and_it_is_applied_once() {
    relay_between_confirm_and_settle(Broker::Kafka);
}

#[test]
fn a_relay_killed_between_confirm_and_settle_delivers_to_mqtt_twice_and_it_is_applied_once() {
    relay_between_confirm_and_settle(Broker::Mqtt);
}

#[test]
fn a_relay_killed_between_confirm_and_settle_delivers_to_sqs_twice_and_it_is_applied_once() {
    relay_between_confirm_and_settle(Broker::Sqs);
}

#[test]
fn a_relay_killed_between_confirm_and_settle_is_absorbed_by_nats() {
    relay_between_confirm_and_settle(Broker::Nats);
}

fn consumer_between_commit_and_ack(broker: Broker) {
    let place = Place::new(broker);
    let shop = Shop::new();
    shop.home.write("pillarbox.toml", &shop.config(&postgres(), &place.to(&place.server)));
    shop.home.stage_many("orders", 5);
    shop.home.ok(["relay", "--drain"]);
    assert_eq!(place.stored().len(), 5);

    // All five handlers wait in the middle of their transactions.
    let held = wait(async {
        let mut held = PgConnection::connect(&postgres()).await.unwrap();
        let lock = shop.sql("begin; lock table {s}.effects in access exclusive mode");
        sqlx::raw_sql(lock).execute(&mut held).await.unwrap();
        held
    });
    let (wire, through) = Wire::to(&place.server);
    place.leads_through(&through);
    let consumer = shop.consumer(&place.from(&through));
    let waiting = "select count(*) from pg_locks where relation = '{s}.effects'::regclass and not granted";
    eventually("five events are being handled", || shop.number(waiting) == 5);
    // Now no acknowledgement can arrive any more, and they may commit.
    wire.set(Fault::BlackHole(Direction::ToServer));
    wait(held.close()).unwrap();
    eventually("the effects are committed", || shop.effects() == 5);
    consumer.kill();
    drop(wire);
    place.leads_through(&place.server);

    let (processed, duplicates) = shop.consume_all(&place, 5);
    assert!(
        processed == 0 && duplicates >= 5,
        "all came again, and none was handled: {processed} {duplicates}"
    );
    assert_eq!((shop.effects(), shop.distinct_effects()), (5, 5), "each was applied once");
}

#[test]
fn a_consumer_of_rabbitmq_killed_between_commit_and_ack_applies_once() {
    consumer_between_commit_and_ack(Broker::RabbitMq);
}

#[test]
fn a_consumer_of_nats_killed_between_commit_and_ack_applies_once() {
    consumer_between_commit_and_ack(Broker::Nats);
}

#[test]
fn a_consumer_of_kafka_killed_between_commit_and_ack_applies_once() {
    consumer_between_commit_and_ack(Broker::Kafka);
}

#[test]
fn a_consumer_of_mqtt_killed_between_commit_and_ack_applies_once() {
    consumer_between_commit_and_ack(Broker::Mqtt);
}

#[test]
fn a_consumer_of_sqs_killed_between_commit_and_ack_applies_once() {
    consumer_between_commit_and_ack(Broker::Sqs);
}

#[test]
fn a_consumer_of_redis_killed_between_commit_and_ack_applies_once() {
    consumer_between_commit_and_ack(Broker::Redis);
}
