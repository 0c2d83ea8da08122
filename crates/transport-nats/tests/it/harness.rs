//! Streams of their own for tests, servers of their own where a test needs another configuration, and what arrived.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::jetstream::{self, Context};
use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, Event, EventId, Failure, Outcome, RouteName};
use pillarbox_testkit::{eventually, sample_entry};
use uuid::Uuid;

/// Only a guard against hanging.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Debian's server.
pub(crate) const DEBIAN: &str = "PILLARBOX_TEST_NATS";
/// The latest server.
pub(crate) const LATEST: &str = "PILLARBOX_TEST_NATS_LATEST";

/// The value of a variable that `cargo xtask services` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services nats nats-latest -- cargo test -p pillarbox-transport-nats`")
    })
}

/// A stream that no other test knows.
pub(crate) struct Place {
    /// Where the server is, without a subject.
    pub(crate) server: String,
    /// The name of the stream, and the first token of its subjects.
    pub(crate) name: String,
    pub(crate) context: Context,
}

impl Place {
    pub(crate) async fn new(variable_name: &str) -> Self {
        Self::on(&variable(variable_name), |config| config).await
    }

    pub(crate) async fn with(change: impl FnOnce(Config) -> Config) -> Self {
        Self::on(&variable(DEBIAN), change).await
    }

    pub(crate) async fn on(server: &str, change: impl FnOnce(Config) -> Config) -> Self {
        let name = fresh("t");
        let context = jetstream::new(async_nats::connect(server).await.unwrap());
        let config = Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..Config::default() };
        context.create_stream(change(config)).await.unwrap();
        Self { server: server.to_owned(), name, context }
    }

    /// The URL of a sink to this stream.
    pub(crate) fn to(&self) -> String {
        self.via(&self.server)
    }

    /// The same through a proxy.
    pub(crate) fn via(&self, server: &str) -> String {
        format!("{server}/{}.{{type}}", self.name)
    }

    /// The URL of a source of this stream.
    pub(crate) fn from(&self, more: &str) -> String {
        format!("{}/{}.>?durable=billing{more}", self.server, self.name)
    }

    pub(crate) async fn stream(&self) -> Stream {
        self.context.get_stream(&self.name).await.unwrap()
    }

    /// What the stream holds, in its order.
    pub(crate) async fn stored(&self) -> Vec<StreamMessage> {
        let mut stream = self.stream().await;
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut stored = Vec::new();
        for sequence in 1..=last {
            stored.extend(stream.get_raw_message(sequence).await);
        }
        stored
    }

    /// The event ids that the stream holds, in its order.
    pub(crate) async fn stored_ids(&self) -> Vec<String> {
        let id = |message: StreamMessage| message.headers.get("ce-id").unwrap().to_string();
        self.stored().await.into_iter().map(id).collect()
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

pub(crate) fn busy(outcome: &Outcome) -> &Failure {
    match outcome {
        Outcome::Busy { failure, .. } => failure,
        other => panic!("busy was expected, not {other:?}"),
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
    /// Starts it with these lines in its configuration, beside its address.
    pub(crate) async fn start(configuration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = directory.path().join("data");
        let text = format!(
            "host: \"127.0.0.1\"\nport: {port}\n{}\n",
            configuration.replace("DATA", &data.display().to_string())
        );
        std::fs::write(directory.path().join("nats.conf"), text).unwrap();
        let server = Self { process: launch(directory.path()), port, directory };
        server.answers().await;
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Stops it and starts it again with what it stored.
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
    // Debian installs it for administrators, outside of most paths.
    let program = ["/usr/sbin/nats-server", "nats-server"].into_iter();
    let program = program.into_iter().find(|program| Path::new(program).exists()).unwrap_or("nats-server");
    let mut command = Command::new(program);
    command.arg("--config").arg(directory.join("nats.conf"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("nats-server is installed")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
