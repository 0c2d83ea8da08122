//! Streams of their own for tests, servers of their own where a test needs another configuration, and what arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, Event, EventId, Failure, Outcome, RouteName};
use pillarbox_testkit::{eventually, sample_entry};
use redis::aio::MultiplexedConnection;
use uuid::Uuid;

/// Only a guard against hanging.
pub(crate) const SOON: Duration = Duration::from_secs(60);
pub(crate) const REDIS: &str = "PILLARBOX_TEST_REDIS";
pub(crate) const VALKEY: &str = "PILLARBOX_TEST_VALKEY";

/// The value of a variable that `cargo xtask services` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services redis valkey -- cargo test -p pillarbox-transport-redis`")
    })
}

type Fields = Vec<(String, Vec<u8>)>;

/// An entry of a stream, its fields as texts where they are some.
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) fields: BTreeMap<String, Vec<u8>>,
}

impl Stored {
    pub(crate) fn text(&self, field: &str) -> Option<String> {
        self.fields.get(field).map(|value| String::from_utf8(value.clone()).unwrap())
    }
}

/// A stream that no other test knows.
pub(crate) struct Place {
    /// Where the server is, without parameters.
    pub(crate) server: String,
    pub(crate) stream: String,
    pub(crate) commands: MultiplexedConnection,
}

impl Place {
    pub(crate) async fn new(variable_name: &str) -> Self {
        Self::on(&variable(variable_name)).await
    }

    pub(crate) async fn on(server: &str) -> Self {
        let client = redis::Client::open(server).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let commands = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        Self { server: server.to_owned(), stream: fresh("t"), commands }
    }

    /// The URL of a sink to this stream.
    pub(crate) fn to(&self) -> String {
        self.via(&self.server)
    }

    /// The same through a proxy.
    pub(crate) fn via(&self, server: &str) -> String {
        format!("{server}?stream={}", self.stream)
    }

    /// The URL of a source of this stream.
    pub(crate) fn from(&self, more: &str) -> String {
        format!("{}?stream={}&group=billing{more}", self.server, self.stream)
    }

    pub(crate) async fn ask(&self, command: &[&str]) -> redis::RedisResult<redis::Value> {
        let mut asked = redis::cmd(command[0]);
        asked.arg(&command[1..]);
        asked.query_async(&mut self.commands.clone()).await
    }

    /// What the stream holds, in its order.
    pub(crate) async fn stored(&self) -> Vec<Stored> {
        self.stored_in(&self.stream).await
    }

    pub(crate) async fn stored_in(&self, stream: &str) -> Vec<Stored> {
        let mut command = redis::cmd("XRANGE");
        command.arg(stream).arg("-").arg("+");
        let rows: Vec<(String, Fields)> = command.query_async(&mut self.commands.clone()).await.unwrap();
        rows.into_iter().map(|(id, fields)| Stored { id, fields: fields.into_iter().collect() }).collect()
    }

    /// The event ids that the stream holds, in its order.
    pub(crate) async fn stored_ids(&self) -> Vec<String> {
        self.stored().await.iter().map(|stored| stored.text("ce-id").unwrap()).collect()
    }

    /// The same without repetitions.
    pub(crate) async fn distinct(&self) -> BTreeSet<String> {
        self.stored_ids().await.into_iter().collect()
    }

    /// How many entries of the group wait for an answer.
    pub(crate) async fn pending(&self) -> usize {
        self.waiting().await.len()
    }

    /// How long each of them has waited.
    pub(crate) async fn waiting(&self) -> Vec<Duration> {
        self.unanswered().await.into_iter().map(|(idle, _)| Duration::from_millis(idle)).collect()
    }

    /// How often each of them was delivered.
    pub(crate) async fn deliveries(&self) -> Vec<u64> {
        self.unanswered().await.into_iter().map(|(_, count)| count).collect()
    }

    async fn unanswered(&self) -> Vec<(u64, u64)> {
        let mut command = redis::cmd("XPENDING");
        command.arg(&self.stream).arg("billing").arg("-").arg("+").arg(10_000);
        let rows = command.query_async::<Vec<(String, String, u64, u64)>>(&mut self.commands.clone()).await;
        rows.unwrap().into_iter().map(|(_, _, idle, count)| (idle, count)).collect()
    }
}

/// A name that nobody else has.
pub(crate) fn fresh(prefix: &str) -> String {
    format!("{prefix}{}", Uuid::new_v4().simple())
}

pub(crate) fn entry(event: Event) -> Entry {
    let id = EventId(Uuid::new_v4());
    sample_entry(RouteName::new("orders").unwrap(), if event.id.is_some() { event } else { event.id(id) })
}

pub(crate) fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(|n| entry(Event::new("order.placed", format!("{{\"n\":{n}}}")))).collect()
}

/// Collects the outcomes of one batch.
pub(crate) struct Outcomes(Mutex<Vec<Option<Outcome>>>);

impl Report for Outcomes {
    fn outcome(&self, index: usize, outcome: Outcome) {
        let before = self.0.lock().unwrap()[index].replace(outcome);
        assert!(before.is_none(), "entry {index} was reported twice");
    }
}

/// Delivers, and gives one outcome per entry.
pub(crate) async fn deliver(sink: &dyn Sink, batch: &[Entry]) -> Vec<Outcome> {
    let outcomes = Outcomes(Mutex::new(vec![None; batch.len()]));
    tokio::time::timeout(SOON, sink.deliver(batch, &outcomes)).await.expect("the delivery hangs");
    outcomes.0.into_inner().unwrap().into_iter().map(|outcome| outcome.expect("an outcome")).collect()
}

pub(crate) async fn deliver_one(sink: &dyn Sink, entry: &Entry) -> Outcome {
    deliver(sink, std::slice::from_ref(entry)).await.remove(0)
}

pub(crate) fn down(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Down(failure) => failure,
        other => panic!("down was expected, not {other:?}"),
    }
}

pub(crate) fn rejected(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Rejected(failure) => failure,
        other => panic!("rejected was expected, not {other:?}"),
    }
}

/// A server with a configuration of its own, stopped when it is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
    directory: tempfile::TempDir,
}

impl Server {
    /// Starts it with these lines in its configuration, beside its address. `PORT` in them is its port.
    pub(crate) async fn start(configuration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = directory.path().display();
        let configuration = configuration.replace("PORT", &port.to_string());
        let text = format!("bind 127.0.0.1\nport {port}\ndir {data}\nsave \"\"\n{configuration}\n");
        std::fs::write(directory.path().join("redis.conf"), text).unwrap();
        let server = Self { process: launch(directory.path()), port, directory };
        server.answers().await;
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts it again with what it stored.
    pub(crate) async fn restart(&mut self) {
        self.stop();
        self.process = launch(self.directory.path());
        self.answers().await;
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    async fn answers(&self) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        eventually(SOON, async || TcpStream::connect(address).is_ok()).await;
    }
}

fn launch(directory: &Path) -> Child {
    let mut command = Command::new("redis-server");
    command.arg(directory.join("redis.conf")).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("redis-server is installed")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
