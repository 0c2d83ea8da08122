//! One request over a connection of its own: all that this example needs of an HTTP client.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::Empty;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use pillarbox::EventId;
use pillarbox::sink::HandlerError;
use tokio::net::TcpStream;

/// Sends a request with an idempotency key, and returns the status of the answer.
pub(crate) async fn send(
    to: SocketAddr,
    method: Method,
    path: &str,
    key: EventId,
) -> Result<StatusCode, HandlerError> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, to.to_string())
        .header("idempotency-key", key.to_string())
        .body(Empty::new())?;
    // The answer counts by its status; letting go of the rest lets the connection end.
    let exchange = async move { sender.send_request(request).await.map(|answer| answer.status()) };
    let (answer, _) = tokio::join!(exchange, connection);
    // It was sent, and nobody knows what the other side did with it.
    answer.map_err(|_| HandlerError::unknown("lost", "the connection ended before the answer"))
}
