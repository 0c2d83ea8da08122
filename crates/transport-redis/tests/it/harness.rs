//! Streams of their own for tests, servers of their own where a test needs another configuration, and what arrived.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use pillarbox_conformance::Timeouts;
use pillarbox_conformance::delivery::fresh;
use pillarbox_conformance::process::OwnServer;
use pillarbox_core::EventId;
use redis::aio::MultiplexedConnection;

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
pub(crate) struct OwnStream {
    /// Where the server is, without parameters.
    pub(crate) server: String,
    pub(crate) stream: String,
    pub(crate) commands: MultiplexedConnection,
}

impl OwnStream {
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

    /// The same with timeouts.
    pub(crate) fn with(&self, server: &str, timeouts: Timeouts) -> String {
        format!("{}&{}", self.via(server), timeouts.parameters())
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
    pub(crate) async fn stored_ids(&self) -> Vec<EventId> {
        self.stored().await.iter().map(|stored| stored.text("ce-id").unwrap().parse().unwrap()).collect()
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
        // Nobody has made the group yet, or somebody has deleted it.
        let rows =
            rows.or_else(|error| if error.code() == Some("NOGROUP") { Ok(vec![]) } else { Err(error) });
        rows.unwrap().into_iter().map(|(_, _, idle, count)| (idle, count)).collect()
    }
}

/// A server with a configuration of its own.
pub(crate) struct Server(OwnServer);

impl Server {
    /// Starts it with these lines in its configuration, beside its address. `PORT` in them is its port.
    pub(crate) async fn start(configuration: &str) -> Self {
        let server = OwnServer::start(|port| {
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path().display();
            let configuration = configuration.replace("PORT", &port.to_string());
            let text = format!("bind 127.0.0.1\nport {port}\ndir {data}\nsave \"\"\n{configuration}\n");
            std::fs::write(directory.path().join("redis.conf"), text).unwrap();
            move || {
                let mut command = Command::new("redis-server");
                command.arg(directory.path().join("redis.conf"));
                command
            }
        });
        Self(server.await)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }
}

impl Deref for Server {
    type Target = OwnServer;

    fn deref(&self) -> &OwnServer {
        &self.0
    }
}
