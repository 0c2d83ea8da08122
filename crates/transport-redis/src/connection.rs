//! One connection, opened at its first use and again after a loss, one attempt at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Lazy, error_of_all};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, TlsCertificates};
use tokio::sync::{OnceCell, watch};

use crate::error;
use crate::options::Options;

/// Commands on their way to the socket. More than a relay ever has in flight: a command that had to wait here could be
/// overtaken by a later one.
const COMMANDS_MAX: usize = 1 << 20;

/// The connection of one sink or source.
pub(crate) struct Connection {
    options: Arc<Options>,
    live: Lazy<Live>,
}

/// A connection that was opened. A lost one stays lost: the next use opens another.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) commands: MultiplexedConnection,
    signals: Arc<Signals>,
}

struct Signals {
    lost: watch::Sender<bool>,
    distrusted: AtomicBool,
    /// The server's limit of one value, once it was asked.
    value_bytes_max: OnceCell<Option<usize>>,
}

impl Connection {
    pub(crate) fn new(options: Options) -> Self {
        Self { options: Arc::new(options), live: Lazy::new() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The connection, opened if there is none. Whoever waits for it shares one attempt and its outcome.
    pub(crate) async fn live(&self) -> Result<Live> {
        let open = || {
            let options = Arc::clone(&self.options);
            async move { open(&options).await.map_err(Arc::new) }
        };
        self.live.get(Live::is_usable, open).await.map_err(|error| error_of_all(&error))
    }

    /// The connection, if there is one and nobody is opening it just now.
    pub(crate) fn live_now(&self) -> Option<Live> {
        self.live.now(Live::is_usable)
    }

    /// A connection of one's own, for what keeps the others waiting.
    pub(crate) async fn open(&self) -> Result<Live> {
        open(&self.options).await
    }
}

async fn open(options: &Options) -> Result<Live> {
    let signals = Arc::new(Signals {
        lost: watch::channel(false).0,
        distrusted: AtomicBool::new(false),
        value_bytes_max: OnceCell::new(),
    });
    let heard = Arc::clone(&signals);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connect_timeout))
        // Deadlines are ours: a command that was given up on has still been sent.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(COMMANDS_MAX)
        .set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                heard.lost.send_replace(true);
            }
            Ok::<(), ()>(())
        });
    let client = client(options)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    // The client bounds the connection, but not the search for a host's address.
    let bound = options.connect_timeout * 2;
    let address = options.address();
    match tokio::time::timeout(bound, connecting).await {
        Ok(Ok(commands)) => Ok(Live { commands, signals }),
        Ok(Err(cause)) => Err(error::connecting(&cause, address)),
        Err(_) => {
            let text = format!("cannot connect to {address}: no answer within {bound:?}");
            Err(Error::new(ErrorKind::Timeout, text).with_code("no_answer"))
        }
    }
}

fn client(options: &Options) -> Result<Client> {
    // An application may have compiled in a second provider of cryptography, and TLS then asks which one it is.
    // Where the application has chosen one already, this changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = options.server();
    let client = match &options.ca {
        None => Client::open(server),
        Some(file) => {
            let read = std::fs::read(file);
            let root = read.map_err(|error| Error::invalid(format!("ca= cannot be read: {error}")))?;
            Client::build_with_tls(server, TlsCertificates { client_tls: None, root_cert: Some(root) })
        }
    };
    client.map_err(|cause| error::connecting(&cause, options.address()))
}

impl Live {
    fn is_usable(&self) -> bool {
        !*self.signals.lost.borrow() && !self.signals.distrusted.load(Ordering::Acquire)
    }

    /// Most bytes of one value, if the server tells: some do not let everybody ask. It must be known before a larger one
    /// is sent: the server hangs up on it, and takes with it the answers to all that was sent before.
    pub(crate) async fn value_bytes_max(&self, within: Duration) -> Option<usize> {
        let ask = async || {
            let mut command = redis::cmd("CONFIG");
            command.arg("GET").arg("proto-max-bulk-len");
            let mut commands = self.commands.clone();
            let settings = command.query_async::<BTreeMap<String, String>>(&mut commands);
            let settings = tokio::time::timeout(within, settings).await.ok()?.ok()?;
            settings.values().next()?.parse().ok()
        };
        *self.signals.value_bytes_max.get_or_init(ask).await
    }

    /// Nobody gets this connection any more: an answer did not come, and the next use must find out why.
    pub(crate) fn distrust(&self) {
        self.signals.distrusted.store(true, Ordering::Release);
    }

    /// Resolves when the connection is lost.
    pub(crate) async fn lost(&self) {
        // The sender lives as long as we do, so waiting cannot fail.
        let _ = self.signals.lost.subscribe().wait_for(|lost| *lost).await;
    }
}
