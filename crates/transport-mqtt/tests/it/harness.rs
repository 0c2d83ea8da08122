//! Topics of their own for tests, servers of their own where a test needs another configuration, and what arrived.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use pillarbox_conformance::delivery::{SOON, fresh};
use pillarbox_conformance::process::OwnServer;
use pillarbox_core::EventId;
use pillarbox_testkit::eventually;
use rumqttc::{
    AsyncClient, Event, IncomingPacketSizeLimit, MqttOptions, Packet, Publish, PublishOptions,
    PublishProperties, QoS,
};
use tokio::task::JoinHandle;

/// Debian's server.
pub(crate) const SERVER: &str = "PILLARBOX_TEST_MQTT";

/// The configuration of a server that keeps what it has when it is stopped.
pub(crate) const DURABLE: &str =
    "allow_anonymous true\npersistence true\npersistence_location DATA/\nmax_queued_messages 0";

/// The value of a variable that `cargo xtask services` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services mosquitto -- cargo test -p pillarbox-transport-mqtt`")
    })
}

/// A client that is not ours to test: it subscribes, keeps what arrives, and publishes whatever a test wants. Its
/// session stays at the server, so it misses nothing while the server is down.
pub(crate) struct Listener {
    client: AsyncClient,
    heard: Arc<Mutex<Vec<Publish>>>,
    /// How often it has subscribed.
    ready: Arc<Mutex<usize>>,
    marks: String,
    task: JoinHandle<()>,
}

impl Listener {
    /// Subscribes to this filter, and returns when the server has taken that.
    pub(crate) async fn start(port: u16, filter: &str) -> Self {
        let name = fresh("listener");
        let mut options = MqttOptions::new(&name, ("127.0.0.1", port));
        options
            .set_clean_start(false)
            .set_session_expiry_interval(Some(600))
            .set_incoming_packet_size_limit(IncomingPacketSizeLimit::Unlimited);
        let (client, mut events) = AsyncClient::builder(options).unbounded().build();
        let (heard, ready) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let marks = format!("marks/{name}");
        client.subscribe(filter, QoS::AtLeastOnce).await.unwrap();
        client.subscribe(&marks, QoS::AtLeastOnce).await.unwrap();
        let (hears, counts) = (Arc::clone(&heard), Arc::clone(&ready));
        #[expect(
            clippy::disallowed_methods,
            reason = "it hears while the test does something else, and ends with it"
        )]
        let task = tokio::spawn(async move {
            loop {
                match events.poll().await {
                    Ok(Event::Incoming(Packet::Publish(publish))) => hears.lock().unwrap().push(publish),
                    Ok(Event::Incoming(Packet::SubAck(_))) => *counts.lock().unwrap() += 1,
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                }
            }
        });
        let listener = Self { client, heard, ready, marks, task };
        eventually(SOON, async || *listener.ready.lock().unwrap() == 2).await;
        listener
    }

    /// All that was published until now. The server passes on in order, so the mark comes last.
    pub(crate) async fn messages(&self) -> Vec<Publish> {
        let mark = fresh("mark");
        self.publish(&self.marks, mark.as_bytes().to_vec(), PublishProperties::default()).await;
        let is_mark = |publish: &Publish| publish.payload == mark.as_bytes();
        eventually(SOON, async || self.heard.lock().unwrap().iter().any(is_mark)).await;
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|publish| publish.topic != self.marks.as_bytes()).cloned().collect()
    }

    /// The event ids of these messages.
    pub(crate) async fn ids(&self) -> Vec<EventId> {
        let messages = self.messages().await;
        messages.iter().map(|publish| property(publish, "id").unwrap().parse().unwrap()).collect()
    }

    /// Publishes with quality of service 1, and waits for the confirmation.
    pub(crate) async fn publish(&self, topic: &str, payload: Vec<u8>, properties: PublishProperties) {
        let options = PublishOptions::at_least_once().properties(properties);
        let notice = self.client.publish_tracked(topic, payload, options).await.unwrap();
        notice.wait_async().await.unwrap();
    }

    /// Publishes with these options.
    pub(crate) async fn publish_with(&self, topic: &str, payload: &str, options: PublishOptions) {
        let payload = payload.as_bytes().to_vec();
        self.client.publish_tracked(topic, payload, options).await.unwrap().wait_async().await.unwrap();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A user property of a message.
pub(crate) fn property(publish: &Publish, name: &str) -> Option<String> {
    let properties = &publish.properties.as_ref()?.user_properties;
    properties.iter().find(|(property, _)| property == name).map(|(_, value)| value.clone())
}

/// Topics that no other test knows, and a listener to all of them.
pub(crate) struct OwnTopic {
    /// Where the server is, without a topic.
    pub(crate) server: String,
    /// The first level of the topics.
    pub(crate) name: String,
    pub(crate) listener: Listener,
}

impl OwnTopic {
    pub(crate) async fn new() -> Self {
        Self::on(&variable(SERVER)).await
    }

    pub(crate) async fn on(server: &str) -> Self {
        let name = fresh("t");
        let port = server.rsplit_once(':').unwrap().1.parse().unwrap();
        let listener = Listener::start(port, &format!("{name}/#")).await;
        Self { server: server.to_owned(), name, listener }
    }

    /// The URL of a sink to these topics.
    pub(crate) fn to(&self) -> String {
        self.via(&self.server)
    }

    /// The same through a proxy.
    pub(crate) fn via(&self, server: &str) -> String {
        format!("{server}/{}/events/{{type}}", self.name)
    }

    /// The URL of a source of these topics.
    pub(crate) fn from(&self, client: &str, more: &str) -> String {
        let Self { server, name, .. } = self;
        format!("{server}/{name}/events/%23?group=billing&client_id={name}-{client}{more}")
    }
}

/// A server with a configuration of its own.
pub(crate) struct Server(OwnServer);

impl Server {
    /// Starts it with these lines in its configuration, beside its address. `DATA` in them is its directory.
    pub(crate) async fn start(configuration: &str) -> Self {
        Self::with(configuration, |_| ()).await
    }

    /// The same, with more files in its directory.
    pub(crate) async fn with(configuration: &str, files: impl FnOnce(&Path)) -> Self {
        let server = OwnServer::start(|port| {
            let directory = tempfile::tempdir().unwrap();
            files(directory.path());
            let data = directory.path().display().to_string();
            // As root, the server would change to a user that cannot read the directory.
            let text =
                format!("user root\nlistener {port} 127.0.0.1\n{}\n", configuration.replace("DATA", &data));
            std::fs::write(directory.path().join("mosquitto.conf"), text).unwrap();
            move || {
                // Debian installs it for administrators, outside of most paths.
                let programs = ["/usr/sbin/mosquitto", "mosquitto"];
                let program = programs.into_iter().find(|program| Path::new(program).exists());
                let mut command = Command::new(program.unwrap_or("mosquitto"));
                command.arg("-c").arg(directory.path().join("mosquitto.conf"));
                command
            }
        });
        Self(server.await)
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port())
    }
}

impl Deref for Server {
    type Target = OwnServer;

    fn deref(&self) -> &OwnServer {
        &self.0
    }
}
