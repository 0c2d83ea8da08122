//! A place of a test's own on a real broker, and a wire to it that fails as it is told.

use std::future::Future;
use std::process::Command;
use std::sync::OnceLock;

use async_nats::jetstream;
use krafka::testing::FakeBroker;
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use pillarbox_core::port::Source;
use pillarbox_testkit::{Direction, Fault, FaultProxy};
use pillarbox_transport_mqtt::MqttSource;
use tokio::runtime::Runtime;

use crate::mqtt::Recorder;
use crate::server::Server;
use crate::sqs;

/// These tests have no runtime of their own: clients and wires share this one.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    })
}

/// Waits for what only a future can do.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

/// The value of a variable that `cargo xtask services` sets.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run this through `cargo xtask services postgres rabbitmq nats mosquitto sqs redis -- cargo test`"
        )
    })
}

/// A connection to a server that can be broken. Dropping it cuts everything for good.
pub(crate) struct Wire(FaultProxy);

impl Wire {
    /// A wire to the server of this URL, and the URL that leads through it.
    pub(crate) fn to(url: &str) -> (Self, String) {
        let _guard = runtime().enter();
        let (proxy, through) = FaultProxy::before(url);
        (Self(proxy), through)
    }

    pub(crate) fn set(&self, fault: Fault) {
        let _guard = runtime().enter();
        self.0.set(fault);
    }

    pub(crate) fn heal(&self) {
        let _guard = runtime().enter();
        self.0.heal();
    }

    /// Leads to another server from now on, as a virtual address does that moves; what is open is cut.
    pub(crate) fn lead_to(&self, address: std::net::SocketAddr) {
        let _guard = runtime().enter();
        self.0.lead_to(address);
    }

    /// How many bytes the client has received.
    pub(crate) fn received(&self) -> u64 {
        self.0.forwarded(Direction::ToClient)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broker {
    RabbitMq,
    Nats,
    /// The fake cluster of the client, in the process of the test and over sockets.
    Kafka,
    Mqtt,
    Redis,
    Sqs,
}

/// A queue or stream that no other test knows.
pub(crate) struct Place {
    pub(crate) broker: Broker,
    /// The server's URL, without a place on it.
    pub(crate) server: String,
    name: String,
    keeps_nothing: bool,
    /// Hears what is published to an MQTT server, which keeps no record.
    recorder: Option<Recorder>,
    cluster: Option<FakeBroker>,
}

impl Place {
    /// A queue of RabbitMQ, or a stream of the others.
    pub(crate) fn new(broker: Broker) -> Self {
        Self::with(broker, FieldTable::default())
    }

    /// One that keeps what was consumed, also of RabbitMQ.
    pub(crate) fn stream(broker: Broker) -> Self {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("stream".into()));
        Self::with(broker, arguments)
    }

    /// A queue of RabbitMQ with little room: what is too much is refused, message by message.
    pub(crate) fn refusing() -> Self {
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(25));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
        Self { keeps_nothing: true, ..Self::with(Broker::RabbitMq, arguments) }
    }

    /// Whether it must be emptied while it is filled.
    pub(crate) fn keeps_nothing(&self) -> bool {
        self.keeps_nothing
    }

    /// Whoever takes messages out of a queue, one by one and for good.
    pub(crate) fn taker(&self) -> Taker {
        let connection = wait(self.amqp());
        let channel = wait(connection.create_channel()).unwrap();
        Taker { channel, queue: self.name.clone(), _connection: connection }
    }

    fn with(broker: Broker, of_queue: FieldTable) -> Self {
        if broker == Broker::Kafka {
            let cluster = wait(FakeBroker::start()).unwrap();
            let place = Self::on(broker, format!("kafka://{}", cluster.bootstrap_servers()), of_queue);
            cluster.create_topic(&place.name, 3);
            return Self { cluster: Some(cluster), ..place };
        }
        let server = variable(match broker {
            Broker::Kafka => unreachable!("it has no server to be named"),
            Broker::RabbitMq => "PILLARBOX_TEST_AMQP",
            Broker::Nats => "PILLARBOX_TEST_NATS",
            Broker::Mqtt => "PILLARBOX_TEST_MQTT",
            Broker::Redis => "PILLARBOX_TEST_REDIS",
            Broker::Sqs => "PILLARBOX_TEST_SQS",
        });
        Self::on(broker, server, of_queue)
    }

    /// One on a server of the test's own.
    pub(crate) fn of(server: &Server) -> Self {
        Self::on(server.broker, server.url(), FieldTable::default())
    }

    fn on(broker: Broker, server: String, of_queue: FieldTable) -> Self {
        let name = format!("cli{}", uuid::Uuid::new_v4().simple());
        let recorder = (broker == Broker::Mqtt).then(|| Recorder::start(&server, &name));
        let place = Self { broker, server, name, keeps_nothing: false, recorder, cluster: None };
        wait(place.declare(of_queue));
        place
    }

    async fn declare(&self, of_queue: FieldTable) {
        match self.broker {
            Broker::RabbitMq => {
                let options = QueueDeclareOptions { durable: true, ..Default::default() };
                let channel = self.amqp().await.create_channel().await.unwrap();
                channel.queue_declare(self.name.as_str().into(), options, of_queue).await.unwrap();
            }
            Broker::Nats => {
                let subjects = vec![format!("{}.>", self.name)];
                let config =
                    jetstream::stream::Config { name: self.name.clone(), subjects, ..Default::default() };
                self.nats().await.create_stream(config).await.unwrap();
            }
            // The session of the consumer is there before anything is published.
            Broker::Mqtt => {
                let source = MqttSource::new(&self.from(&self.server)).unwrap();
                source.subscribe().await.unwrap().close().await;
            }
            Broker::Kafka | Broker::Redis => {}
            Broker::Sqs => sqs::create(&self.server, &self.name),
        }
    }

    /// Clients of Kafka go where the cluster says it is: from now on there.
    pub(crate) fn leads_through(&self, server: &str) {
        let Some(cluster) = &self.cluster else { return };
        let port = server.rsplit_once(':').unwrap().1.parse().unwrap();
        cluster.with_state(|state| state.brokers.iter_mut().for_each(|broker| broker.port = port));
    }

    async fn amqp(&self) -> Connection {
        Connection::connect(&self.server, ConnectionProperties::default()).await.unwrap()
    }

    async fn nats(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(&self.server).await.unwrap())
    }

    /// The destination for a relay, by way of this server or a wire to it.
    pub(crate) fn to(&self, server: &str) -> String {
        let name = &self.name;
        match self.broker {
            Broker::RabbitMq => format!("{server}?routing_key={name}&connect_timeout=2s"),
            Broker::Nats => format!("{server}/{name}.{{type}}?connect_timeout=2s"),
            Broker::Kafka => format!("{server}/{name}?connect_timeout=2s"),
            Broker::Mqtt => format!("{server}/{name}/events/{{type}}?connect_timeout=2s"),
            Broker::Redis => format!("{server}?stream={name}&connect_timeout=2s"),
            Broker::Sqs => format!("sqs://eu-west-1/{name}?endpoint={server}&connect_timeout=2s"),
        }
    }

    /// What to read where nobody has made anything.
    pub(crate) fn to_nowhere(&self) -> String {
        let (server, name) = (&self.server, &self.name);
        match self.broker {
            Broker::RabbitMq => format!("{server}?queue={name}-nowhere"),
            Broker::Nats => format!("{server}?stream={name}-nowhere"),
            Broker::Kafka => format!("{server}/{name}-nowhere"),
            Broker::Mqtt | Broker::Sqs => panic!("it keeps nothing that could be read"),
            Broker::Redis => format!("{server}?stream={name}-nowhere"),
        }
    }

    /// The source for a consumer. What a dead one left comes again soon.
    pub(crate) fn from(&self, server: &str) -> String {
        let name = &self.name;
        match self.broker {
            Broker::RabbitMq => format!("{server}?queue={name}"),
            Broker::Nats => format!("{server}/{name}.>?durable=billing&ack_wait=5s"),
            Broker::Kafka => format!("{server}/{name}?group=billing&session_timeout=6s"),
            Broker::Mqtt => {
                format!(
                    "{server}/{name}/events/%23?group=billing&client_id={name}-billing&parked={name}/parked"
                )
            }
            Broker::Redis => format!("{server}?stream={name}&group=billing&reclaim_after=5s"),
            Broker::Sqs => format!("sqs://eu-west-1/{name}?endpoint={server}&visibility=5s&wait=1s"),
        }
    }

    /// The event ids that lie there, with repetitions.
    pub(crate) fn stored(&self) -> Vec<String> {
        match self.broker {
            Broker::RabbitMq => wait(self.lying()),
            Broker::Nats => wait(self.streamed()),
            Broker::Kafka => {
                let records = self.cluster.as_ref().unwrap().all_records(&self.name).unwrap();
                records.iter().map(|record| record.header_str("ce_id").unwrap().to_owned()).collect()
            }
            Broker::Mqtt => self.recorder.as_ref().unwrap().ids(),
            Broker::Sqs => sqs::ids(&self.server, &self.name),
            Broker::Redis => {
                self.redis(&["xrange", &self.name, "-", "+"])
                    .lines()
                    .fold((Vec::new(), false), |(mut ids, is_id), line| {
                        if is_id {
                            ids.push(line.to_owned());
                        }
                        (ids, line == "ce-id")
                    })
                    .0
            }
        }
    }

    // Taken and given back with the connection's end.
    async fn lying(&self) -> Vec<String> {
        let connection = self.amqp().await;
        let channel = connection.create_channel().await.unwrap();
        let mut ids = Vec::new();
        while let Some(message) =
            channel.basic_get(self.name.as_str().into(), BasicGetOptions::default()).await.unwrap()
        {
            ids.push(message.delivery.properties.message_id().as_ref().unwrap().to_string());
        }
        connection.close(200, "seen".into()).await.unwrap();
        ids
    }

    async fn streamed(&self) -> Vec<String> {
        let mut stream = self.nats().await.get_stream(&self.name).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut ids = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            ids.push(message.headers.get("ce-id").unwrap().to_string());
        }
        ids
    }

    /// Whether a consumer has answered everything that was published.
    pub(crate) fn is_drained(&self) -> bool {
        match self.broker {
            Broker::RabbitMq => {
                let listed = output(Command::new(variable("PILLARBOX_TEST_RABBITMQCTL")).args([
                    "--quiet",
                    "list_queues",
                    "name",
                    "messages",
                ]));
                listed.lines().any(|line| line.split_whitespace().eq([self.name.as_str(), "0"]))
            }
            Broker::Nats => wait(async {
                let stream = self.nats().await.get_stream(&self.name).await.unwrap();
                let info = stream.consumer_info("billing").await.unwrap();
                info.num_pending == 0 && info.num_ack_pending == 0
            }),
            Broker::Kafka => (0..3).all(|partition| {
                let cluster = self.cluster.as_ref().unwrap();
                let next = cluster.next_offset(&self.name, partition).unwrap();
                next == 0 || cluster.committed_offset("billing", &self.name, partition) == Some(next)
            }),
            Broker::Mqtt => self.recorder.as_ref().unwrap().is_drained(),
            Broker::Sqs => sqs::is_empty(&self.server, &self.name),
            Broker::Redis => {
                let group = self.redis(&["xinfo", "groups", &self.name]);
                let group: Vec<&str> = group.lines().collect();
                let of = |field: &str| group.iter().skip_while(|line| **line != field).nth(1).copied();
                let newest = self.redis(&["xrevrange", &self.name, "+", "-", "count", "1"]);
                of("pending") == Some("0") && of("last-delivered-id") == newest.lines().next()
            }
        }
    }

    fn redis(&self, command: &[&str]) -> String {
        output(Command::new("redis-cli").args(["-u", &self.server]).args(command))
    }
}

/// Takes messages out of a queue.
pub(crate) struct Taker {
    channel: Channel,
    queue: String,
    _connection: Connection,
}

impl Taker {
    /// The event id of the oldest message, which is gone then.
    pub(crate) fn take(&self) -> Option<String> {
        let gone = BasicGetOptions { no_ack: true };
        let message = wait(self.channel.basic_get(self.queue.as_str().into(), gone)).unwrap()?;
        Some(message.delivery.properties.message_id().as_ref().unwrap().to_string())
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
