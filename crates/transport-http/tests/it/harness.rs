//! Servers of our own, well-behaved and otherwise, and a way to deliver to them.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
pub(crate) use pillarbox_conformance::delivery::{Reports, deliver};
use pillarbox_core::{Entry, Event, EventId, Outcome, RouteName};
use pillarbox_testkit::sample_entry;
use pillarbox_transport_http::{HttpSink, Options, Resolver, Secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// Only a guard against hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn secret(text: &str) -> Secret {
    text.parse().unwrap()
}

/// Options for an endpoint on this machine.
pub(crate) fn private(url: &str) -> Options {
    Options::of_sink(url).unwrap().allow_private(true)
}

/// A sink to this URL, on this machine.
pub(crate) fn sink(url: &str) -> HttpSink {
    HttpSink::with_options(private(url)).unwrap()
}

pub(crate) fn id(n: u64) -> EventId {
    EventId(uuid::Uuid::from_u64_pair(0x0190_0000_0000_7000, 0x8000_0000_0000_0000 | n))
}

pub(crate) fn entry_of(n: u64, event: Event) -> Entry {
    let mut entry = sample_entry(RouteName::new("orders").unwrap(), event.id(id(n)));
    entry.seq = i64::try_from(n).unwrap();
    entry
}

pub(crate) fn entry(n: u64) -> Entry {
    entry_of(n, Event::new("order.placed", format!("{{\"n\":{n}}}")))
}

/// Delivers one entry and says what came of it: `down http_404`.
pub(crate) async fn deliver_one(sink: &HttpSink) -> String {
    shown(&deliver(sink, &[entry(1)]).await[0])
}

pub(crate) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Confirmed | Outcome::ConfirmedWith(_) => "confirmed".into(),
        Outcome::Parked { after } => format!("parked for {after:?}"),
        Outcome::Failed { failure, retry_after: Some(wait) } => {
            format!("failed {} after {wait:?}", failure.code())
        }
        Outcome::Busy { failure, retry_after } => {
            let wait = retry_after.map(|wait| format!(" until {wait:?}")).unwrap_or_default();
            format!("busy {}{wait}", failure.code())
        }
        other => {
            let failure = other.failure().unwrap();
            format!("{} {}", failure.kind.as_str(), failure.code())
        }
    }
}

pub(crate) fn text_of(outcome: &Outcome) -> String {
    outcome.failure().map(|failure| failure.text().to_owned()).unwrap_or_default()
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An HTTP server that writes down what arrives. It ends with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers every request as it is told.
    pub(crate) async fn answering<F, Fut>(answer: F) -> Self
    where
        F: Fn(Seen) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    /// The same on this listener.
    pub(crate) fn on<F, Fut>(listener: TcpListener, answer: F) -> Self
    where
        F: Fn(Seen) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response> + Send + 'static,
    {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = Arc::clone(&seen);
        let take = async move |request: Request| {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            let one = Seen { method: head.method, target: target(&head.uri), headers: head.headers, body };
            log.lock().unwrap().push(one.clone());
            answer(one).await
        };
        Self::serving(listener, Router::new().fallback(take), seen)
    }

    /// A service of its own, which writes nothing down.
    pub(crate) async fn routing(router: Router) -> Self {
        Self::serving(TcpListener::bind("127.0.0.1:0").await.unwrap(), router, Arc::default())
    }

    fn serving(listener: TcpListener, router: Router, seen: Arc<Mutex<Vec<Seen>>>) -> Self {
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, seen, _tasks: tasks }
    }

    /// Answers everything with this status.
    pub(crate) async fn status(status: u16) -> Self {
        Self::answering(move |_| async move { StatusCode::from_u16(status).unwrap().into_response() }).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn target(uri: &Uri) -> String {
    uri.path_and_query().map(ToString::to_string).unwrap_or_default()
}

/// A server that does with each connection what it is told. It ends with this value.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    accepted: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl RawServer {
    pub(crate) async fn start<F, Fut>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted: Arc<Mutex<usize>> = Arc::default();
        let count = Arc::clone(&accepted);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                connections.spawn(serve(stream));
            }
        });
        Self { address, accepted, _tasks: tasks }
    }

    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }
}

/// Reads one request with a `Content-Length`, head and body; `None` at the end of the connection.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase();
            let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// Sends bytes to a server and reads what it answers until it closes the connection.
pub(crate) async fn talk(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses a request may close before it has read all of it.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A resolver that answers by a script, one answer after the other; the last one for ever.
pub(crate) struct Names {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let read = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(read).collect()), asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}
