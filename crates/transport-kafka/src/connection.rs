//! One connection, opened at its first use and again after it was given up, one attempt at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use krafka::auth::{AuthConfig, TlsConfig};
use krafka::producer::{Producer, Record};
use krafka::{CloseOptions, Kafka, KrafkaError};
use pillarbox_core::{Error, Result};
use pillarbox_host::{Lazy, error_of_all};

use crate::error;
use crate::options::{Options, Sasl};

/// How long a record may wait for its batch to be closed. A delivery closes its batches itself, long before.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long the server may take to answer one request, if the confirmation may take longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause before the client repeats a request. It doubles up to a second.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of records that the client may hold: more than the largest message, and several batches.
const BUFFER_BYTES: usize = 64 * 1024 * 1024;

/// The connection of a sink.
pub(crate) struct Connection {
    options: Arc<Options>,
    live: Lazy<Live>,
    /// Whether a server is there, asked once for all who want to know.
    question: Lazy<()>,
}

/// A connection that was opened. The client repairs it by itself, and repeats what was not confirmed without writing it
/// twice. It is given up if it does not succeed in time: then the next use opens another, under another producer id.
#[derive(Clone)]
pub(crate) struct Live(Arc<Opened>);

struct Opened {
    producer: Arc<Producer>,
    given_up: AtomicBool,
}

impl Drop for Opened {
    fn drop(&mut self) {
        end(&self.producer);
    }
}

/// Ends a producer, with all that it has not written yet. A producer that is only dropped goes on writing.
fn end(producer: &Arc<Producer>) {
    let producer = Arc::clone(producer);
    // Without a runtime, the client's own tasks have ended too.
    if tokio::runtime::Handle::try_current().is_ok() {
        #[expect(
            clippy::disallowed_methods,
            reason = "whoever gives up does not wait, and the client must not write on meanwhile"
        )]
        tokio::spawn(async move {
            let _ = producer.close_with(CloseOptions::new().timeout(Duration::ZERO)).await;
        });
    }
}

impl Connection {
    pub(crate) fn new(options: Options) -> Self {
        Self { options: Arc::new(options), live: Lazy::new(), question: Lazy::new() }
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
        self.live.get(|live| !live.is_given_up(), open).await.map_err(|error| error_of_all(&error))
    }

    /// Asks over a new connection whether a server is still there. If there is none, this connection is given up. Whoever
    /// waits for the answer shares one question.
    pub(crate) async fn ask(&self, live: &Live) -> Result<()> {
        if live.is_given_up() {
            return self.live().await.map(drop);
        }
        let ask = || {
            let options = Arc::clone(&self.options);
            async move { connect(&options).await.map(drop).map_err(Arc::new) }
        };
        let asked = self.question.get(|()| false, ask).await;
        if asked.is_err() {
            live.give_up();
        }
        asked.map_err(|error| error_of_all(&error))
    }
}

impl Live {
    pub(crate) fn producer(&self) -> &Producer {
        &self.0.producer
    }

    /// Sends one record at once, and waits for its confirmation.
    pub(crate) async fn send(&self, record: Record) -> Result<(), KrafkaError> {
        let handle = self.0.producer.enqueue(record).await?;
        // The first look closes the batch.
        let _ = self.0.producer.flush().now_or_never();
        handle.await.map(drop)
    }

    /// How often the client has repeated a request so far.
    pub(crate) fn repetitions(&self) -> u64 {
        self.0.producer.metrics().producer.retries
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.0.given_up.load(Ordering::Acquire)
    }

    /// Nobody gets this connection any more, and nothing more is written to it. What is on its way has an unknown
    /// outcome.
    pub(crate) fn give_up(&self) {
        if !self.0.given_up.swap(true, Ordering::AcqRel) {
            end(&self.0.producer);
        }
    }
}

/// How long a confirmation may take at the client: what the setting says, but at least one request.
pub(crate) fn delivery_timeout(options: &Options) -> Duration {
    options.confirm_timeout.max(LINGER + request_timeout(options))
}

fn request_timeout(options: &Options) -> Duration {
    options.confirm_timeout.min(REQUEST_TIMEOUT).max(options.connect_timeout)
}

async fn open(options: &Options) -> Result<Live> {
    let kafka = connect(options).await?;
    let producer = kafka
        .producer()
        .compression(options.codec()?)
        .batch_size(options.batch_bytes)
        .buffer_memory(BUFFER_BYTES)
        .linger(LINGER)
        .retry_backoff(RETRY_PAUSE)
        .delivery_timeout(delivery_timeout(options))
        .max_block(options.connect_timeout)
        .metrics_push(false)
        .build();
    let address = options.address();
    let producer = tokio::time::timeout(options.connect_timeout, producer)
        .await
        .map_err(|_| error::unanswered("asking for a producer id at", &address))?
        .map_err(|cause| error::connecting(&cause, &address))?;
    Ok(Live(Arc::new(Opened { producer: Arc::new(producer), given_up: AtomicBool::new(false) })))
}

/// Connects to the first server that answers.
pub(crate) async fn connect(options: &Options) -> Result<Kafka> {
    let address = options.address();
    let mut kafka = Kafka::builder(options.servers.hosts.join(","))
        .client_id("pillarbox")
        .connect_timeout(options.connect_timeout)
        .request_timeout(request_timeout(options));
    if let Some(security) = security(options)? {
        kafka = kafka.security(security);
    }
    tokio::time::timeout(options.connect_timeout, kafka.connect())
        .await
        .map_err(|_| error::unanswered("connecting to", &address))?
        .map_err(|cause| error::connecting(&cause, &address))
}

fn security(options: &Options) -> Result<Option<AuthConfig>> {
    let login = options.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
    let sasl = match login {
        None => None,
        Some((user, password)) => Some(match options.mechanism()? {
            Sasl::Plain => AuthConfig::sasl_plain(user, password),
            Sasl::Scram256 => AuthConfig::sasl_scram_sha256(user, password),
            Sasl::Scram512 => AuthConfig::sasl_scram_sha512(user, password),
        }),
    };
    if !options.servers.tls {
        return Ok(sasl);
    }
    let tls = match &options.ca {
        None => TlsConfig::new().with_native_roots(),
        Some(file) => {
            let pem = std::fs::read(file);
            let pem = pem.map_err(|error| Error::invalid(format!("ca= cannot be read: {error}")))?;
            TlsConfig::new().with_ca_cert_pem(pem)
        }
    };
    Ok(Some(match sasl {
        Some(sasl) => sasl.with_tls(tls),
        None => AuthConfig::ssl(tls),
    }))
}
