//! The HTTP client of the exporter. It tells once that the receiver is gone, and once that it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::fault::Fault;

/// How long one request may take, from the look-up of the host to the end of the answer.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends requests on the runtime of this process, each on a connection of its own: a batch of spans every few
/// seconds is not worth a pool.
pub(super) struct Client {
    runtime: Handle,
    tls: TlsConnector,
    /// Whether the last request failed.
    down: AtomicBool,
}

impl Client {
    pub(super) fn new(runtime: Handle) -> Result<Self, Fault> {
        let mut roots = RootCertStore::empty();
        // Without any, a receiver with TLS is refused when it is asked, and one without is not concerned.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        // Named here, so that it does not depend on what else is in the process.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::failed(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { runtime, tls: TlsConnector::from(Arc::new(config)), down: AtomicBool::new(false) })
    }

    /// One line when the receiver is gone, one when it is back. The URL may have a password, so only the host is
    /// named.
    fn tell(&self, host: &str, failure: Option<String>) {
        match failure {
            Some(failure) if !self.down.swap(true, Ordering::Relaxed) => tracing::warn!(
                host,
                failure,
                "traces cannot be sent, so spans are lost until the receiver answers; the work goes on. Check \
                 `[trace] endpoint`, or OTEL_EXPORTER_OTLP_ENDPOINT"
            ),
            None if self.down.swap(false, Ordering::Relaxed) => {
                tracing::warn!(host, "traces are sent again")
            }
            _ => {}
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let tls = self.tls.clone();
        // The exporter has a thread of its own without a runtime, and connections need one.
        let sending =
            self.runtime.spawn(async move { tokio::time::timeout(REQUEST_MAX, send(request, tls)).await });
        let answer: Result<Response<Bytes>, HttpError> = match sending.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!("no answer within {REQUEST_MAX:?}").into()),
            Err(error) => Err(error.into()),
        };
        let failure = match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered with the status {}", answer.status().as_u16())),
            Err(error) => Some(error.to_string()),
        };
        self.tell(&host, failure);
        answer
    }
}

async fn send(request: Request<Bytes>, tls: TlsConnector) -> Result<Response<Bytes>, HttpError> {
    let host = request.uri().host().ok_or("the URL has no host")?.to_owned();
    let secure = request.uri().scheme_str() == Some("https");
    let port = request.uri().port_u16().unwrap_or(if secure { 443 } else { 80 });
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let tcp = TcpStream::connect((bare.as_str(), port)).await?;
    if secure {
        let tls = tls.connect(ServerName::try_from(bare)?, tcp).await?;
        return exchange(tls, request).await;
    }
    exchange(tcp, request).await
}

async fn exchange<S>(stream: S, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let authority = request.uri().authority().ok_or("the URL has no host")?;
    // Without what may stand before the host: that is a password.
    let host = authority.as_str().rsplit('@').next().unwrap_or_default().to_owned();
    request.headers_mut().insert(header::HOST, host.parse()?);
    request.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() = path.parse::<Uri>()?;
    let exchange = async {
        let (parts, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection ends when the answer is there, and so before it is read to its end.
        ended = &mut connection => { ended?; exchange.await }
    }
}
