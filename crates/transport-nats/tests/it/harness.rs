//! Streams of their own for tests, servers of their own where a test needs another configuration, and what arrived.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use async_nats::ConnectOptions;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::jetstream::{self, Context};
use pillarbox_conformance::delivery::fresh;
use pillarbox_conformance::process::OwnServer;
use pillarbox_core::EventId;

/// Debian's server.
pub(crate) const DEBIAN: &str = "PILLARBOX_TEST_NATS";
/// The latest server.
pub(crate) const LATEST: &str = "PILLARBOX_TEST_NATS_LATEST";

/// The configuration of a server that keeps streams.
pub(crate) const JETSTREAM: &str = "jetstream { store_dir: \"DATA\" }";

/// The value of a variable that `cargo xtask services` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services nats nats-latest -- cargo test -p pillarbox-transport-nats`")
    })
}

/// The configuration of a stream that takes atomic batches.
pub(crate) fn atomic(config: Config) -> Config {
    Config { allow_atomic_publish: true, ..config }
}

/// A stream that no other test knows.
pub(crate) struct OwnStream {
    /// Where the server is, without a subject.
    pub(crate) server: String,
    /// The name of the stream, and the first token of its subjects.
    pub(crate) name: String,
    pub(crate) context: Context,
}

impl OwnStream {
    pub(crate) async fn new(variable_name: &str) -> Self {
        Self::on(&variable(variable_name), |config| config).await
    }

    pub(crate) async fn with(change: impl FnOnce(Config) -> Config) -> Self {
        Self::on(&variable(DEBIAN), change).await
    }

    /// A stream of the latest server that takes atomic batches.
    pub(crate) async fn atomic() -> Self {
        Self::on(&variable(LATEST), atomic).await
    }

    pub(crate) async fn on(server: &str, change: impl FnOnce(Config) -> Config) -> Self {
        let name = fresh("t");
        let login = server.split_once("://").and_then(|(_, rest)| rest.split_once('@')?.0.split_once(':'));
        let options = match login {
            Some((user, password)) => ConnectOptions::with_user_and_password(user.into(), password.into()),
            None => ConnectOptions::new(),
        };
        let context = jetstream::new(options.connect(server).await.unwrap());
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
        format!("{server}/{}.events.{{type}}", self.name)
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
    pub(crate) async fn stored_ids(&self) -> Vec<EventId> {
        self.stored().await.iter().map(event_id).collect()
    }
}

/// The event id of a stored message.
pub(crate) fn event_id(message: &StreamMessage) -> EventId {
    message.headers.get("ce-id").unwrap().as_str().parse().unwrap()
}

/// A server with a configuration of its own.
pub(crate) struct Server(OwnServer);

impl Server {
    /// Starts Debian's with these lines in its configuration, beside its address. `DATA` in them is its directory.
    pub(crate) async fn start(configuration: &str) -> Self {
        // Debian installs it for administrators, outside of most paths.
        let programs = ["/usr/sbin/nats-server", "nats-server"];
        let program = programs.into_iter().find(|program| Path::new(program).exists());
        Self::start_program(program.unwrap_or("nats-server").into(), configuration).await
    }

    /// The same with the latest one, which is installed beside Python.
    pub(crate) async fn start_latest(configuration: &str) -> Self {
        let program = Path::new(&variable("PILLARBOX_TEST_PYTHON")).with_file_name("nats-server");
        Self::start_program(program, configuration).await
    }

    async fn start_program(program: PathBuf, configuration: &str) -> Self {
        let server = OwnServer::start(|port| {
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path().join("data").display().to_string();
            let configuration = configuration.replace("DATA", &data);
            let text = format!("host: \"127.0.0.1\"\nport: {port}\n{configuration}\n");
            std::fs::write(directory.path().join("nats.conf"), text).unwrap();
            move || {
                let mut command = Command::new(&program);
                command.arg("--config").arg(directory.path().join("nats.conf"));
                command
            }
        });
        Self(server.await)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port())
    }
}

impl Deref for Server {
    type Target = OwnServer;

    fn deref(&self) -> &OwnServer {
        &self.0
    }
}
