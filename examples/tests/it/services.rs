//! The shop and its billing, as two programs with a real broker between them.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use krafka::testing::FakeBroker;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use pillarbox::Source;
use pillarbox::mqtt::MqttSource;

/// Only a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A running program and what it prints. Killed when it is dropped.
pub(crate) struct Service {
    child: Child,
    lines: Receiver<String>,
}

impl Service {
    pub(crate) fn start(program: &str, service: &str, database: &std::path::Path, url: &str) -> Self {
        let mut command = Command::new(program);
        command.arg(service).arg(database).arg(url).env("WEBHOOK_SECRET", SECRET);
        Self::run(&mut command)
    }

    pub(crate) fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    /// The next line.
    pub(crate) fn says(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says something more")
    }

    /// Ctrl-C; returns what it says until its end, which must be a clean one.
    pub(crate) fn stop(mut self) -> Vec<String> {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            rest.push(line);
        }
        assert!(self.child.wait().unwrap().success(), "{rest:?}");
        rest
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Most have ended by now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts billing, then the shop, and waits for the three invoices; returns the last words of both.
fn three_orders(program: &str, from: &str, to: impl FnOnce(&str) -> String) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let billing = Service::start(program, "billing", &folder.path().join("billing.db"), from);
    let ready = billing.says();
    let shop = Service::start(program, "shop", &folder.path().join("shop.db"), &to(&ready));
    let mut invoices: Vec<String> = (0..3).map(|_| billing.says()).collect();
    // Orders of different keys are handled side by side.
    invoices.sort();
    assert_eq!(invoices, ["invoice for o-1 over 10", "invoice for o-2 over 20", "invoice for o-3 over 30"]);
    (shop.stop(), billing.stop())
}

fn through_a_broker(program: &str, to: &str, from: &str) {
    let (shop, billing) = three_orders(program, from, |_| to.to_owned());
    assert_eq!(shop.last().map(String::as_str), Some("delivered 3"));
    assert_eq!(billing, ["processed 3, duplicates 0"]);
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run this through `cargo xtask services rabbitmq nats mosquitto sqs redis -- cargo test`")
    })
}

/// A name that no other run has.
pub(crate) fn fresh(what: &str) -> String {
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("{what}-{}-{nanos}", std::process::id())
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn the_services_of_the_rabbitmq_example_write_each_invoice_once() {
    let server = variable("PILLARBOX_TEST_AMQP");
    let (exchange, queue) = (fresh("orders"), fresh("billing"));
    wait(async {
        let connection = Connection::connect(&server, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let table = FieldTable::default;
        channel
            .exchange_declare(exchange.as_str().into(), ExchangeKind::Topic, durable, table())
            .await
            .unwrap();
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        let mut quorum = FieldTable::default();
        quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        channel.queue_declare(queue.as_str().into(), durable, quorum).await.unwrap();
        let (queue, exchange) = (queue.as_str().into(), exchange.as_str().into());
        channel
            .queue_bind(queue, exchange, "order.*".into(), QueueBindOptions::default(), table())
            .await
            .unwrap();
        connection.close(200, "declared".into()).await.unwrap();
    });
    through_a_broker(
        env!("CARGO_BIN_EXE_rabbitmq"),
        &format!("{server}?exchange={exchange}&routing_key={{type}}"),
        &format!("{server}?queue={queue}&queue_type=quorum"),
    );
}

#[test]
fn the_services_of_the_nats_example_write_each_invoice_once() {
    let server = variable("PILLARBOX_TEST_NATS");
    let stream = fresh("orders");
    wait(async {
        let context = async_nats::jetstream::new(async_nats::connect(&server).await.unwrap());
        let config = async_nats::jetstream::stream::Config {
            name: stream.clone(),
            subjects: vec![format!("{stream}.>")],
            ..Default::default()
        };
        context.create_stream(config).await.unwrap();
    });
    through_a_broker(
        env!("CARGO_BIN_EXE_nats"),
        &format!("{server}/{stream}.{{type}}?stream={stream}"),
        &format!("{server}/{stream}.>?stream={stream}&durable=billing"),
    );
}

/// On the fake cluster of the client, over its socket.
#[test]
fn the_services_of_the_kafka_example_write_each_invoice_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let cluster = runtime.block_on(FakeBroker::start()).unwrap();
    cluster.create_topic("orders", 3);
    let to = format!("kafka://{}/orders", cluster.bootstrap_servers());
    through_a_broker(env!("CARGO_BIN_EXE_kafka"), &to, &format!("{to}?group=billing"));
}

#[test]
fn the_services_of_the_mqtt_example_write_each_invoice_once() {
    let server = variable("PILLARBOX_TEST_MQTT");
    let topic = fresh("orders");
    let from = format!("{server}/{topic}/%23?group=billing&client_id={topic}");
    // Billing has run before, and so the server keeps its session.
    wait(async {
        let source = MqttSource::new(&from).unwrap();
        source.subscribe().await.unwrap().close().await;
    });
    through_a_broker(env!("CARGO_BIN_EXE_mqtt"), &format!("{server}/{topic}/{{type}}"), &from);
}

#[test]
fn the_services_of_the_redis_example_write_each_invoice_once() {
    let server = variable("PILLARBOX_TEST_REDIS");
    let stream = fresh("orders");
    through_a_broker(
        env!("CARGO_BIN_EXE_redis"),
        &format!("{server}?stream={stream}"),
        &format!("{server}?stream={stream}&group=billing&consumer=billing-1"),
    );
}

#[test]
fn the_services_of_the_sqs_example_write_each_invoice_once() {
    let server = variable("PILLARBOX_TEST_SQS");
    let queue = format!("{}.fifo", fresh("orders"));
    let script = "import sys, boto3; boto3.client('sqs', endpoint_url=sys.argv[1], region_name='eu-west-1')\
        .create_queue(QueueName=sys.argv[2], Attributes={'FifoQueue': 'true'})";
    let python =
        Command::new(variable("PILLARBOX_TEST_PYTHON")).args(["-c", script, &server, &queue]).status();
    assert!(python.unwrap().success());
    let url = format!("sqs://eu-west-1/{queue}?endpoint={server}");
    through_a_broker(env!("CARGO_BIN_EXE_sqs"), &url, &url);
}

/// What the guide says to any other language: with the same inbox nothing is applied twice, whoever delivers it again.
#[test]
fn the_python_example_consumes_each_order_once() {
    let server = variable("PILLARBOX_TEST_REDIS");
    let python = variable("PILLARBOX_TEST_PYTHON");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/consume.py");
    let (folder, stream) = (tempfile::tempdir().unwrap(), fresh("orders"));
    let database = folder.path().join("billing.db");
    wait(async {
        use pillarbox::sqlite::{Options, SqliteStore};
        let url = format!("sqlite://{}", database.display());
        let store = SqliteStore::connect(&url, Options::default()).await.unwrap();
        store.migrate().await.unwrap();
        store.close().await;
    });
    let from = |group: &str| format!("{server}?stream={stream}&group={group}");
    let billing = Service::start(&python, script, &database, &from("billing"));
    assert_eq!(billing.says(), "waiting for orders");
    let to = format!("{server}?stream={stream}");
    let shop = Service::start(env!("CARGO_BIN_EXE_redis"), "shop", &folder.path().join("shop.db"), &to);
    let three = |billing: &Service| {
        let mut said: Vec<String> = (0..3).map(|_| billing.says()).collect();
        said.sort();
        said
    };
    let invoices = ["invoice for o-1 over 10", "invoice for o-2 over 20", "invoice for o-3 over 30"];
    assert_eq!(three(&billing), invoices);
    assert_eq!(shop.stop().last().map(String::as_str), Some("delivered 3"));
    billing.stop();

    // A new group gets everything again.
    let billing = Service::start(&python, script, &database, &from("again"));
    assert_eq!(billing.says(), "waiting for orders");
    assert_eq!(three(&billing), ["o-1 came again", "o-2 came again", "o-3 came again"]);
    billing.stop();
}

#[test]
fn the_services_of_the_webhook_example_write_each_invoice_once() {
    let (shop, billing) = three_orders(env!("CARGO_BIN_EXE_webhook"), "127.0.0.1:0", |ready| {
        format!("http://{}/hooks", ready.strip_prefix("listening on ").unwrap())
    });
    assert_eq!(shop.last().map(String::as_str), Some("delivered 3"));
    assert!(billing.is_empty(), "{billing:?}");
}
