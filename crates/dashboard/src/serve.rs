//! Serves a dashboard on a listener: one future, with limits on connections and time.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::shared::Dashboard;

/// The most connections at one time. More of them wait in the queue of the operating system.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long connections may go on after a stop was asked for.
const GRACE: Duration = Duration::from_secs(1);
/// The wait after a connection could not be accepted, for example because there are too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// The address that a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

impl Dashboard {
    /// Reads the store and serves the router on this listener until `shutdown` ends.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let until = |mut stopped: tokio::sync::watch::Receiver<bool>| async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let sampling = self.run(until(stopped.clone()));
        let serving = accept(listener, self.router(), until(stopped));
        let stopping = async {
            shutdown.await;
            stop.send_replace(true);
        };
        tokio::join!(sampling, serving, stopping);
    }
}

async fn accept(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(()) = connections.next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, peer)) => connections.push(connection(stream, Peer(peer.ip()), router.clone())),
                Err(error) => {
                    tracing::warn!(%error, "a connection to the dashboard could not be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
        }
    }
    // Streams of live updates have no end of their own.
    let rest = async { while connections.next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, rest).await;
}

async fn connection(stream: TcpStream, peer: Peer, router: Router) {
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {})) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the dashboard ended early");
    }
}
