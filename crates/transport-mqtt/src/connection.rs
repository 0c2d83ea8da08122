//! One connection, opened at its first use and again after a loss, one attempt at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Lazy, error_of_all, random_u64};
use rumqttc::{
    AckMode, AsyncClient, ConnAck, Event, EventLoop, IncomingPacketSizeLimit, MqttOptions, NetworkOptions,
    Packet, PersistedAckMode, PersistedSession, Publish, SessionStore, SessionStoreError, SessionStoreKey,
    TlsConfiguration, Transport,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

use crate::error;
use crate::options::Options;

/// How often an idle connection is tried. The second silence in a row ends it.
const KEEP_ALIVE_SECONDS: u16 = 10;
/// Messages that may be unconfirmed if the server names no receive maximum: the protocol's own limit.
const RECEIVE_MAX_DEFAULT: u16 = u16::MAX;
/// A filter that nobody subscribes to. The answer to leaving it comes behind all answers before it.
const ECHO: &str = "pillarbox/echo";

/// The connection of a sink.
pub(crate) struct Connection {
    options: Arc<Options>,
    /// The same at every attempt: the server then closes the connection before, and nothing that was written there
    /// arrives behind what is written here.
    client_id: Arc<str>,
    live: Lazy<Live>,
    /// The server's limit of a packet, once it was heard.
    packet_bytes_max: AtomicUsize,
}

/// A connection that was opened. The client could repair it by itself, but would then send again what we have
/// already called unknown: so a lost one is given up, and the next use opens another.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) client: AsyncClient,
    /// How many more messages the server takes before it confirms others.
    pub(crate) window: Arc<Semaphore>,
    /// The server's limit of a packet.
    pub(crate) packet_bytes_max: usize,
    signals: Arc<Signals>,
    driver: Arc<Driver>,
}

struct Signals {
    lost: watch::Sender<bool>,
    why: OnceLock<String>,
}

impl Signals {
    /// Tells everybody that the connection is gone. The first reason counts.
    fn end(&self, why: String) {
        let _ = self.why.set(why);
        self.lost.send_replace(true);
    }
}

/// The task that reads and writes.
struct Driver {
    task: AbortHandle,
    /// Whether it ends with the last user of the connection. That of a source first writes the answers that wait.
    ends: bool,
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.ends {
            self.task.abort();
        }
    }
}

impl Connection {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options: Arc::new(options),
            client_id: format!("pillarbox-{:016x}", random_u64()).into(),
            live: Lazy::new(),
            packet_bytes_max: AtomicUsize::new(usize::MAX),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Most bytes of a packet: the server's word, once it was heard.
    pub(crate) fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max.load(Ordering::Relaxed)
    }

    /// The connection, opened if there is none. Whoever waits for it shares one attempt and its outcome.
    pub(crate) async fn live(&self) -> Result<Live> {
        let open = || {
            let (options, client_id) = (Arc::clone(&self.options), Arc::clone(&self.client_id));
            async move { open(&options, &client_id).await.map_err(Arc::new) }
        };
        let live = self.live.get(|live| !live.is_lost(), open).await;
        let live = live.map_err(|error| error_of_all(&error))?;
        self.packet_bytes_max.store(live.packet_bytes_max, Ordering::Relaxed);
        Ok(live)
    }
}

impl Live {
    pub(crate) fn is_lost(&self) -> bool {
        *self.signals.lost.borrow()
    }

    /// Nobody gets this connection any more, and nothing more is written to it: an answer did not come, and the next
    /// use must find out why.
    pub(crate) fn distrust(&self) {
        self.driver.task.abort();
        self.signals.end("the server did not answer in time".to_owned());
    }

    /// Resolves when the connection is lost.
    pub(crate) async fn lost(&self) {
        // The sender lives as long as we do, so waiting cannot fail.
        let _ = self.signals.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// Why the connection was lost, in words for people.
    pub(crate) fn why(&self) -> &str {
        self.signals.why.get().map_or("it was closed", String::as_str)
    }

    /// Waits until the server has answered, and so has taken everything that was written before. `false`: it has not
    /// in time.
    pub(crate) async fn echo(&self, within: Duration) -> bool {
        let asking =
            async { Some(self.client.unsubscribe_tracked(ECHO).await.ok()?.wait_async().await.is_ok()) };
        tokio::select! {
            biased;
            () = self.lost() => false,
            answered = tokio::time::timeout(within, asking) => answered == Ok(Some(true)),
        }
    }

    /// Ends the connection after everything that waits was written. The session stays.
    pub(crate) fn leave(&self, within: Duration) {
        let _ = self.client.try_disconnect_with_timeout(within);
    }
}

/// A connection for a sink: the server forgets it when it ends.
async fn open(options: &Options, client_id: &str) -> Result<Live> {
    let mut connect = settings(options, client_id)?;
    connect.set_clean_start(true);
    let (live, connack, events) = connected(options, connect).await?;
    let offered = connack.properties.and_then(|properties| properties.max_qos).unwrap_or(2);
    if offered < options.publish_qos() as u8 {
        return Err(error::qos(offered, &options.address()));
    }
    Ok(live.driven(events, None))
}

/// A connection for a source: the server keeps its session. Beside it come the messages, and whether the server knew
/// the session.
pub(crate) async fn resume(
    options: &Options,
    client_id: &str,
) -> Result<(Live, mpsc::UnboundedReceiver<Publish>, bool)> {
    let mut connect = settings(options, client_id)?;
    let expiry = u32::try_from(options.session_expiry.as_secs()).unwrap_or(u32::MAX).max(1);
    connect
        .set_clean_start(false)
        .set_session_expiry_interval(Some(expiry))
        .set_receive_maximum(Some(options.prefetch))
        .set_ack_mode(AckMode::Manual)
        .set_session_store(NothingOpen);
    let (live, connack, events) = connected(options, connect).await?;
    let granted = connack.properties.and_then(|properties| properties.session_expiry_interval);
    if let Some(granted) = granted.filter(|granted| *granted < expiry) {
        tracing::warn!(
            client_id,
            "the server keeps this session for {granted} s and not for {expiry} s after the consumer has left; \
             messages that wait longer are lost"
        );
    }
    // Bounded by the receive maximum: the server sends no more before some are answered.
    let (messages, received) = mpsc::unbounded_channel();
    Ok((live.driven(events, Some(messages)), received, connack.session_present))
}

/// A connection whose task does not run yet.
struct Opened {
    client: AsyncClient,
    window: usize,
    packet_bytes_max: usize,
}

impl Opened {
    fn driven(self, events: EventLoop, messages: Option<mpsc::UnboundedSender<Publish>>) -> Live {
        let signals = Arc::new(Signals { lost: watch::channel(false).0, why: OnceLock::new() });
        let ends = messages.is_none();
        #[expect(
            clippy::disallowed_methods,
            reason = "the clients of other brokers start this task themselves: a connection is read while nobody waits"
        )]
        let task = tokio::spawn(drive(events, Arc::clone(&signals), messages)).abort_handle();
        Live {
            client: self.client,
            window: Arc::new(Semaphore::new(self.window)),
            packet_bytes_max: self.packet_bytes_max,
            signals,
            driver: Arc::new(Driver { task, ends }),
        }
    }
}

async fn connected(options: &Options, connect: MqttOptions) -> Result<(Opened, ConnAck, EventLoop)> {
    let (client, mut events) = AsyncClient::builder(connect).unbounded().build();
    let address = options.address();
    let connack = loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::ConnAck(connack))) => break connack,
            Ok(_) => {}
            Err(cause) => return Err(error::connecting(&cause, &address)),
        }
    };
    let properties = connack.properties.as_ref();
    let window = properties.and_then(|properties| properties.receive_max).unwrap_or(RECEIVE_MAX_DEFAULT);
    let packet_bytes_max = properties.and_then(|properties| properties.max_packet_size);
    let packet_bytes_max = packet_bytes_max.and_then(|bytes| usize::try_from(bytes).ok());
    let opened = Opened {
        client,
        window: usize::from(window.max(1)),
        packet_bytes_max: packet_bytes_max.unwrap_or(usize::MAX),
    };
    Ok((opened, connack, events))
}

/// Reads and writes until the connection ends. The client would connect again at the next look, so there is none.
async fn drive(
    mut events: EventLoop,
    signals: Arc<Signals>,
    messages: Option<mpsc::UnboundedSender<Publish>>,
) {
    let cause = loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::Publish(publish))) => {
                if let Some(messages) = &messages {
                    // Nobody listens: the subscription is gone, and the session keeps the message.
                    let _ = messages.send(publish);
                }
            }
            Ok(_) => {}
            Err(cause) => break cause,
        }
    };
    signals.end(error::ended(&cause));
}

fn settings(options: &Options, client_id: &str) -> Result<MqttOptions> {
    let server = &options.server;
    let host = server.host.trim_start_matches('[').trim_end_matches(']');
    let mut connect = MqttOptions::new(client_id, (host, server.port));
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    connect
        .set_keep_alive(KEEP_ALIVE_SECONDS)
        .set_connect_timeout(options.connect_timeout)
        // The protocol's own limit holds. A message that is too large for us is told from others once it is here.
        .set_incoming_packet_size_limit(IncomingPacketSizeLimit::Unlimited)
        .set_network_options(network);
    if let Some((name, password)) = &options.login {
        connect.set_credentials(name.clone(), password.clone().into_bytes());
    }
    if server.tls {
        connect.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(tls(options)?))));
    }
    Ok(connect)
}

fn tls(options: &Options) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let trusted = match &options.ca {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let unreadable =
                |error: &dyn std::fmt::Display| Error::invalid(format!("ca= cannot be read: {error}"));
            let read = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))?;
            read.collect::<Result<Vec<_>, _>>().map_err(|error| unreadable(&error))?
        }
    };
    roots.add_parsable_certificates(trusted);
    // Named here, so that it does not depend on what else is in the process.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Internal, "TLS cannot be set up").with_source(error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Tells the client that nothing of ours is open in the session that the server kept. It otherwise refuses to subscribe
/// in a session that it does not know. A source publishes nothing there, so nothing is ever open.
#[derive(Debug)]
struct NothingOpen;

type Stored<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

impl SessionStore for NothingOpen {
    fn load<'a>(&'a self, key: &'a SessionStoreKey) -> Stored<'a, Option<PersistedSession>> {
        let session = PersistedSession {
            format_version: 1,
            client_id: key.client_id().to_owned(),
            clean_start: false,
            session_expiry_interval: None,
            outgoing_inflight_upper_limit: None,
            ack_mode: PersistedAckMode::Manual,
            last_pkid: 0,
            last_puback: 0,
            replay: Vec::new(),
            incoming_qos2: Vec::new(),
        };
        Box::pin(async { Ok(Some(session)) })
    }

    fn save<'a>(&'a self, _key: &'a SessionStoreKey, _session: &'a PersistedSession) -> Stored<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn clear<'a>(&'a self, _key: &'a SessionStoreKey) -> Stored<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}
