//! One connection, opened at its first use and again after a loss, one attempt at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectOptions, Event, ServerAddr, ServerError};
use futures_util::StreamExt;
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Lazy, error_of_all};
use tokio::sync::{broadcast, watch};

use crate::error;
use crate::options::{Login, Options};
use crate::sink::Batches;

/// How often an idle connection is tried; the third silence in a row ends it.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Messages on their way to the socket.
const CLIENT_CAPACITY: usize = 4096;
/// Confirmations awaited at once over one connection, those that nobody waits for any more included.
const CONFIRMS_MAX: usize = 65_536;
/// Refusals of the server that a slow listener may be behind.
const DENIALS_MAX: usize = 256;
/// The server's limit until one has told its own, which is also what servers come with.
const MAX_PAYLOAD_DEFAULT: usize = 1024 * 1024;

/// The connection of one sink or source.
pub(crate) struct Connection {
    options: Arc<Options>,
    live: Lazy<Live>,
    max_payload: AtomicUsize,
}

/// A connection that was opened. The client could repair it by itself, but would then send again what we have
/// already called unknown, and hide why it cannot: so a lost one is given up, and the next use opens another.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) context: Context,
    /// What its streams have said about batches.
    pub(crate) batches: Arc<Batches>,
    signals: Arc<Signals>,
}

struct Signals {
    lost: watch::Sender<bool>,
    /// Subjects that the server refused to take a message for. It does not say which message.
    denied: broadcast::Sender<String>,
    distrusted: AtomicBool,
}

impl Connection {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options: Arc::new(options),
            live: Lazy::new(),
            max_payload: AtomicUsize::new(MAX_PAYLOAD_DEFAULT),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Most bytes of a message, headers included: the server's word, once it was heard.
    pub(crate) fn max_payload(&self) -> usize {
        self.max_payload.load(Ordering::Relaxed)
    }

    /// The connection, opened if there is none. Whoever waits for it shares one attempt and its outcome.
    pub(crate) async fn live(&self) -> Result<Live> {
        let open = || {
            let options = Arc::clone(&self.options);
            async move { open(&options).await.map_err(Arc::new) }
        };
        let live = self.live.get(Live::is_usable, open).await.map_err(|error| error_of_all(&error))?;
        self.max_payload.store(live.client().max_payload(), Ordering::Relaxed);
        Ok(live)
    }
}

impl Live {
    pub(crate) fn client(&self) -> Client {
        self.context.client()
    }

    fn is_usable(&self) -> bool {
        let signals = &self.signals;
        !*signals.lost.borrow()
            && !signals.distrusted.load(Ordering::Acquire)
            && self.client().connection_state() == State::Connected
    }

    /// Nobody gets this connection any more: an answer did not come, and the next use must find out why.
    pub(crate) fn distrust(&self) {
        self.signals.distrusted.store(true, Ordering::Release);
    }

    /// Waits until the server has passed a message of ours back to us: by then it has taken everything that was published
    /// before. `false`: it will not.
    pub(crate) async fn echo(&self) -> bool {
        let client = self.client();
        let inbox = client.new_inbox();
        let Ok(mut echoes) = client.subscribe(inbox.clone()).await else { return false };
        client.publish(inbox, "".into()).await.is_ok() && echoes.next().await.is_some()
    }

    /// Resolves when the connection is lost.
    pub(crate) async fn lost(&self) {
        // The sender lives as long as we do, so waiting cannot fail.
        let _ = self.signals.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// The subjects that the server refuses from now on.
    pub(crate) fn denials(&self) -> Denials {
        Denials(self.signals.denied.subscribe())
    }
}

/// What the server refuses.
pub(crate) struct Denials(broadcast::Receiver<String>);

impl Denials {
    /// Resolves when one of these subjects is refused.
    pub(crate) async fn until(&mut self, is_meant: impl Fn(&str) -> bool) {
        while !is_meant(&self.next().await) {}
    }

    /// The next refused subject.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            match self.0.recv().await {
                Ok(subject) => return subject,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Signals {
    fn hear(&self, event: &Event) {
        match event {
            Event::Disconnected | Event::Closed => {
                self.lost.send_replace(true);
            }
            Event::ServerError(ServerError::Other(said)) => {
                if let Some(subject) = refused_subject(said) {
                    // Nobody listens: nobody is publishing.
                    let _ = self.denied.send(subject.to_owned());
                }
            }
            _ => {}
        }
    }
}

/// The subject in `Permissions Violation for Publish to "orders.placed"`.
fn refused_subject(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("Permissions Violation for Publish to \"")?;
    rest.split_once('"').map(|(subject, _)| subject)
}

async fn open(options: &Options) -> Result<Live> {
    let signals = Arc::new(Signals {
        lost: watch::channel(false).0,
        denied: broadcast::channel(DENIALS_MAX).0,
        distrusted: AtomicBool::new(false),
    });
    let heard = Arc::clone(&signals);
    let connect = settings(options).await?.event_callback(move |event| {
        heard.hear(&event);
        std::future::ready(())
    });
    let servers = options.servers.iter().map(|server| server.parse::<ServerAddr>());
    let servers = servers.collect::<std::io::Result<Vec<_>>>();
    let servers = servers.map_err(|error| Error::invalid(format!("an address is malformed: {error}")))?;
    // The client bounds each attempt, but not the search for a host's address.
    let bound = options.connect_timeout * u32::try_from(servers.len() + 1).unwrap_or(u32::MAX);
    let address = options.address();
    let client = match tokio::time::timeout(bound, connect.connect(servers)).await {
        Ok(connected) => connected.map_err(|error| error::connecting(&error, &address))?,
        Err(_) => {
            let text = format!("cannot connect to {address}: no answer within {bound:?}");
            return Err(Error::new(ErrorKind::Timeout, text).with_code("no_answer"));
        }
    };
    let context = ContextBuilder::new()
        .timeout(options.confirm_timeout)
        .max_ack_inflight(CONFIRMS_MAX)
        .ack_timeout(options.confirm_timeout)
        .build(client);
    Ok(Live { context, batches: Arc::new(Batches::new()), signals })
}

async fn settings(options: &Options) -> Result<ConnectOptions> {
    let mut connect = ConnectOptions::new()
        .name("pillarbox")
        .connection_timeout(options.connect_timeout)
        .request_timeout(Some(options.connect_timeout))
        .ping_interval(PING_INTERVAL)
        .client_capacity(CLIENT_CAPACITY)
        .ignore_discovered_servers()
        // Attempts of the client itself: each server once. A lost connection is ours to open again.
        .max_reconnects(options.servers.len())
        .require_tls(options.tls());
    connect = match &options.login {
        Login::Nobody => connect,
        Login::Token(token) => connect.token(token.clone()),
        Login::User { name, password } => connect.user_and_password(name.clone(), password.clone()),
    };
    if let Some(file) = &options.credentials {
        let read = connect.credentials_file(file).await;
        connect = read.map_err(|error| Error::invalid(format!("credentials= cannot be read: {error}")))?;
    }
    if let Some(file) = &options.ca {
        connect = connect.add_root_certificates(file.clone());
    }
    // An application may have compiled in a second provider of cryptography, and TLS then asks which one it is. Where
    // the application has chosen one already, this changes nothing.
    let _ = async_nats::rustls::crypto::ring::default_provider().install_default();
    Ok(connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_subject_is_found_in_what_the_server_says() {
        let said = "Permissions Violation for Publish to \"orders.placed\"";
        assert_eq!(refused_subject(said), Some("orders.placed"));
        assert_eq!(refused_subject("Permissions Violation for Subscription to \"x\""), None);
        assert_eq!(refused_subject("Slow Consumer"), None);
    }
}
