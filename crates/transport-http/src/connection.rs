//! One connection: to an address that was checked, and driven by the delivery that uses it, so there is no
//! hidden task.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use pillarbox_core::{Error, ErrorKind, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use url::Host;

use crate::endpoint::Endpoint;
use crate::error::Trouble;
use crate::options::Options;

/// Most addresses of a host that are tried. All of them are checked.
const ADDRESSES_TRIED_MAX: usize = 4;
/// Most headers of an answer, and most bytes of them.
const ANSWER_HEADERS_MAX: usize = 100;
const ANSWER_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of an answer's body that are read, and how long that may take: an answer counts by its status, and its
/// body only has to be out of the way before the connection can be used again.
const ANSWER_BODY_BYTES_MAX: usize = 64 * 1024;
const ANSWER_BODY_TIME_MAX: Duration = Duration::from_secs(1);

pub(crate) type Body = Full<Bytes>;
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Opens connections to one endpoint.
pub(crate) struct Connector {
    endpoint: Endpoint,
    options: Options,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(crate) fn new(endpoint: Endpoint, options: Options) -> Result<Self> {
        let tls = if endpoint.tls {
            Some((TlsConnector::from(Arc::new(tls_config(&options)?)), endpoint.server_name()?))
        } else {
            None
        };
        Ok(Self { endpoint, options, tls })
    }

    /// Finds the host, checks every address that it has, and connects to one of those.
    pub(crate) async fn open(&self) -> Result<Connection, Trouble> {
        let limit = self.options.connect_timeout;
        timeout(limit, self.find_and_connect()).await.unwrap_or(Err(Trouble::ConnectTimeout(limit)))
    }

    async fn find_and_connect(&self) -> Result<Connection, Trouble> {
        let addresses = self.addresses().await?;
        let tcp =
            connect_to_one(&addresses, self.options.connect_timeout).await.map_err(Trouble::Unconnected)?;
        // A request is written in one piece: waiting for more of it would only delay it.
        let _ = tcp.set_nodelay(true);
        match &self.tls {
            None => Connection::over(tcp).await,
            Some((tls, name)) => {
                Connection::over(tls.connect(name.clone(), tcp).await.map_err(Trouble::Tls)?).await
            }
        }
    }

    /// One address that is refused refuses the host: a name that is public and private at once is an attack.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, Trouble> {
        let found: Vec<IpAddr> = match (&self.endpoint.host, self.endpoint.literal()) {
            (_, Some(address)) => vec![address],
            (Host::Domain(name), None) => {
                self.options.resolver.resolve(name).await.map_err(Trouble::Unresolved)?
            }
            (_, None) => Vec::new(),
        };
        if found.is_empty() {
            return Err(Trouble::Unresolved(io::Error::new(
                io::ErrorKind::NotFound,
                "the host name has no address",
            )));
        }
        for address in &found {
            self.endpoint.check_address(*address, &self.options).map_err(Trouble::Refused)?;
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, self.endpoint.port)).collect())
    }
}

/// Tries the first few addresses, each for its share of the time.
async fn connect_to_one(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let share = limit / u32::try_from(tried.len()).unwrap_or(1).max(1);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in tried {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
        }
    }
    Err(last)
}

fn tls_config(options: &Options) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authorities = if options.authorities.is_empty() {
        rustls_native_certs::load_native_certs().certs
    } else {
        options.authorities.clone()
    };
    let (added, _) = roots.add_parsable_certificates(authorities);
    if added == 0 {
        return Err(Error::new(
            ErrorKind::NotFound,
            "the system has no trusted certificate authorities. Install them (package ca-certificates), or \
             set your own",
        ));
    }
    // Named here, so that it does not depend on what else is in the process.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Internal, "TLS cannot be set up").with_source(error))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Why a request got no answer.
pub(crate) enum SendError {
    /// It was not sent: here it is again.
    Unsent(Box<Request<Body>>, hyper::Error),
    /// It may have been read.
    Lost(hyper::Error),
}

/// A connection that is open, or was.
pub(crate) struct Connection {
    sender: SendRequest<Body>,
    /// Reads and writes; `None` once the connection has ended.
    driver: Option<Driver>,
    rests_since: Instant,
}

impl Connection {
    async fn over<S>(stream: S) -> Result<Self, Trouble>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = Builder::new();
        builder.max_headers(ANSWER_HEADERS_MAX).max_buf_size(ANSWER_HEAD_BYTES_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(Trouble::Unsent)?;
        let driver: Driver = Box::pin(async move {
            // The sender gets the error.
            let _ = connection.await;
        });
        Ok(Self { sender, driver: Some(driver), rests_since: Instant::now() })
    }

    /// How long nobody has used it.
    pub(crate) fn rested(&self) -> Duration {
        self.rests_since.elapsed()
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, SendError> {
        let Self { sender, driver, .. } = self;
        // An old connection notices here that the other side has closed it.
        if let Err(error) = drive(driver, sender.ready()).await {
            return Err(SendError::Unsent(Box::new(request), error));
        }
        drive(driver, sender.try_send_request(request)).await.map_err(|mut error| {
            match error.take_message() {
                Some(request) => SendError::Unsent(Box::new(request), error.into_error()),
                None => SendError::Lost(error.into_error()),
            }
        })
    }

    /// Reads the body of an answer away. Gives the connection back if it can be used again.
    pub(crate) async fn drained(mut self, body: Incoming) -> Option<Self> {
        let emptied = drive(&mut self.driver, emptied(body));
        let emptied = timeout(ANSWER_BODY_TIME_MAX, emptied).await.unwrap_or(false);
        self.rests_since = Instant::now();
        Some(self)
            .filter(|connection| emptied && connection.driver.is_some() && !connection.sender.is_closed())
    }
}

async fn emptied(mut body: Incoming) -> bool {
    let mut bytes: usize = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > ANSWER_BODY_BYTES_MAX {
            return false;
        }
    }
    true
}

/// Works on something that needs the connection to read and write meanwhile.
async fn drive<T>(driver: &mut Option<Driver>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
            *driver = None;
        }
        // What the connection just did may be what the work waits for.
        work.as_mut().poll(context)
    })
    .await
}
