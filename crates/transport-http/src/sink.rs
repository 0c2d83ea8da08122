//! The sink: one POST per entry, signed, in order per key, and many at the same time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use hyper::body::Bytes;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Envelope, Outcome, Result};

use crate::binding::to_headers;
use crate::connection::{Body, Connector};
use crate::endpoint::Endpoint;
use crate::error::{About, answered};
use crate::options::Options;
use crate::pool::{Answer, Pool};
use crate::retry_after::retry_after;
use crate::secret::Secret;
use crate::signature::{self, ID, SIGNATURE, TIMESTAMP, sign};
use crate::turns::{Turn, Turns};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("pillarbox/", env!("CARGO_PKG_VERSION")));

/// Most refusals with 429, 502, 503 or 504 before the rest of a batch is not tried.
const REFUSALS_MAX: usize = 32;

/// Delivers each entry as a webhook: a POST with the payload as body and the attributes as CloudEvents
/// headers, signed as Standard Webhooks says.
///
/// Entries of one key are sent one after the other, in the order in which the relay handed them over. A
/// failed entry does not hold up the next one. If the endpoint is down, the rest of the batch is reported as
/// down without being tried. The same happens if the endpoint asks the sink to wait, unless it did so for
/// only a few messages.
///
/// Every delivery ends by itself, so a relay needs no `publish_timeout` for this sink. If you set one, it
/// must be long enough to send the whole batch.
pub struct HttpSink {
    endpoint: Endpoint,
    options: Options,
    pool: Pool,
    turns: Turns,
    secrets: RwLock<Arc<[Secret]>>,
    /// The endpoint answered 410: it wants no more webhooks.
    gone: AtomicBool,
    /// The endpoint has confirmed a message since it last refused one in a way that may be about the message.
    confirmed_last: AtomicBool,
}

impl HttpSink {
    /// A sink to `https://host/path` that signs nothing. This only checks the URL: it sends nothing and looks
    /// up no name.
    ///
    /// # Errors
    /// As [`with_options`](Self::with_options).
    ///
    /// ```
    /// use pillarbox_transport_http::HttpSink;
    ///
    /// let sink = HttpSink::new("https://shop.example.org/hooks/orders")?;
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn new(url: &str) -> Result<Self> {
        Self::with_options(Options::of_sink(url)?)
    }

    /// A sink with these settings. This sends nothing and looks up no name.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) for a URL or option that cannot work or is not
    /// allowed. The error names the option that would allow it.
    /// [`NotFound`](pillarbox_core::ErrorKind::NotFound) if there is no certificate authority.
    pub fn with_options(options: Options) -> Result<Self> {
        options.check()?;
        let endpoint = options.endpoint.clone();
        endpoint.check(&options)?;
        let connector = Connector::new(endpoint.clone(), options.clone())?;
        Ok(Self {
            pool: Pool::new(endpoint.clone(), connector, &options),
            secrets: RwLock::new(options.secrets.clone().into()),
            endpoint,
            options,
            turns: Turns::default(),
            gone: AtomicBool::new(false),
            confirmed_last: AtomicBool::new(false),
        })
    }

    /// Signs with these keys from now on, instead of the earlier ones. To rotate keys without a gap, first
    /// sign with the new and the old key. After all receivers have the new key, sign with the new key alone.
    ///
    /// # Errors
    /// When a key cannot sign, or there are too many keys.
    pub fn set_secrets(&self, secrets: impl IntoIterator<Item = Secret>) -> Result<()> {
        let secrets: Arc<[Secret]> = secrets.into_iter().collect();
        signature::check(&secrets)?;
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(())
    }

    /// The queues of a batch: entries of one key after each other, all others beside each other.
    fn queues<'a>(&'a self, batch: &'a [Entry]) -> Vec<Queue<'a>> {
        let mut queues: Vec<Queue<'a>> = Vec::with_capacity(batch.len());
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, entry) in batch.iter().enumerate() {
            // With one request at a time everything is in order, whatever its key.
            let key = if self.options.concurrency == 1 { Some("") } else { entry.key.as_deref() };
            let Some(key) = key else {
                queues.push(Queue { turn: None, indexes: vec![index] });
                continue;
            };
            if let Some(queue) = places.get(key).and_then(|at| queues.get_mut(*at)) {
                queue.indexes.push(index);
            } else {
                places.insert(key, queues.len());
                queues.push(Queue { turn: Some(self.turns.queue_up(key)), indexes: vec![index] });
            }
        }
        queues
    }

    async fn deliver_queue(&self, mut queue: Queue<'_>, batch: &Underway<'_>) {
        if let Some(turn) = &mut queue.turn {
            turn.come().await;
        }
        for index in queue.indexes {
            self.deliver_one(index, batch).await;
        }
    }

    async fn deliver_one(&self, index: usize, batch: &Underway<'_>) {
        // Nothing is made of an entry before it is its turn: a batch is in memory once, not twice.
        let _place = self.pool.place().await;
        if let Some(outcome) = batch.down.get() {
            return batch.report.outcome(index, outcome.clone());
        }
        let answer = match self.request(&batch.entries[index]) {
            Ok(request) => self.pool.send(request).await,
            Err(outcome) => Err(outcome),
        };
        let outcome = match &answer {
            Ok(answer) => self.outcome(answer),
            Err(outcome) => outcome.clone(),
        };
        if batch.ends_with(&outcome) {
            // A second report of the same outage changes nothing.
            let _ = batch.down.set(outcome.clone());
        }
        batch.report.outcome(index, outcome);
        if let Ok(answer) = answer {
            self.pool.finish(answer).await;
        }
    }

    /// The request of an entry, signed as of now, and again each time: the receiver looks at the time.
    fn request(&self, entry: &Entry) -> Result<Request<Body>, Outcome> {
        if self.gone.load(Ordering::Acquire) {
            return Err(answered(&self.endpoint, StatusCode::GONE, None, About::Endpoint));
        }
        if self.options.payload_bytes_max.is_some_and(|most| entry.payload.len() > most) {
            let text =
                format!("the payload has {} bytes, which is over the route's limit", entry.payload.len());
            return Err(Outcome::rejected("too_large", text));
        }
        let target = self.endpoint.target(entry)?;
        let mut headers = to_headers(&Envelope::of(entry, &self.options.source))?;
        let id = entry.event_id.to_string();
        let seconds = self.options.clock.now().as_micros() / 1_000_000;
        let secrets = Arc::clone(&self.secrets.read().unwrap_or_else(PoisonError::into_inner));
        let signatures = sign(&secrets, &id, seconds, &entry.payload);
        let mut put = |name: &'static str, value: String| {
            // An id, a number and base64 are all that stands in these.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        put(ID, id);
        put(TIMESTAMP, seconds.to_string());
        if !signatures.is_empty() {
            put(SIGNATURE, signatures);
        }
        headers.insert(HOST, self.endpoint.authority.clone());
        headers.insert(USER_AGENT, AGENT);
        let mut request = Request::new(Body::new(Bytes::copy_from_slice(&entry.payload)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(target);
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn outcome(&self, answer: &Answer) -> Outcome {
        let status = answer.head.status;
        let about = match status {
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::BAD_GATEWAY
            | StatusCode::GATEWAY_TIMEOUT
                if self.confirmed_last.swap(false, Ordering::AcqRel) =>
            {
                About::Message
            }
            _ if self.endpoint.is_constant() => About::Endpoint,
            _ => About::Message,
        };
        let outcome = answered(&self.endpoint, status, self.wait(answer), about);
        if outcome == Outcome::Confirmed {
            self.confirmed_last.store(true, Ordering::Release);
        }
        if status == StatusCode::GONE && about == About::Endpoint {
            self.gone.store(true, Ordering::Release);
            tracing::error!(
                endpoint = %self.endpoint,
                "the endpoint answered 410 Gone: it wants no more webhooks. Nothing is sent to it until the \
                 relay is restarted"
            );
        }
        outcome
    }

    fn wait(&self, answer: &Answer) -> Option<std::time::Duration> {
        retry_after(&answer.head.headers, self.options.clock.now())
    }
}

/// A batch on its way.
struct Underway<'a> {
    entries: &'a [Entry],
    report: &'a dyn Report,
    /// Set once the endpoint was found down: what was not tried by then is not tried.
    down: OnceLock<Outcome>,
    /// How often the endpoint asked to be left alone.
    refusals: AtomicUsize,
}

impl Underway<'_> {
    /// Whether nothing more is to be sent after this outcome. A single message, or a few, may be all that the endpoint
    /// refuses: the others of a batch are tried as well until half of it was refused.
    fn ends_with(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Down(_) => true,
            Outcome::Busy { .. } => {
                let before = self.refusals.fetch_add(1, Ordering::Relaxed);
                before >= (self.entries.len() / 2).min(REFUSALS_MAX)
            }
            _ => false,
        }
    }
}

/// Entries that are sent one after the other.
struct Queue<'a> {
    turn: Option<Turn<'a>>,
    indexes: Vec<usize>,
}

#[async_trait]
impl Sink for HttpSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        capabilities.system = "http";
        capabilities.payload_bytes_max = self.options.payload_bytes_max;
        // A 2xx is the receiver's word; what it did before it answered is its own affair.
        capabilities.durable = false;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let (down, refusals) = (OnceLock::new(), AtomicUsize::new(0));
        let on_its_way = Underway { entries: batch, report, down, refusals };
        let queues = self.queues(batch).into_iter().map(|queue| self.deliver_queue(queue, &on_its_way));
        let mut delivering: FuturesUnordered<_> = queues.collect();
        while delivering.next().await.is_some() {}
    }
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
