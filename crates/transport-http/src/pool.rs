//! The connections to one endpoint: a bound on how many, and rest for those that can be used again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use pillarbox_core::Outcome;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::connection::{Body, Connection, Connector, SendError};
use crate::endpoint::Endpoint;
use crate::error::{Trouble, unanswered};
use crate::options::Options;

/// Connections to one endpoint.
pub(crate) struct Pool {
    endpoint: Endpoint,
    connector: Connector,
    places: Semaphore,
    resting: Mutex<Vec<Connection>>,
    idle_max: Duration,
    timeout: Duration,
    /// Whether the last try to open a connection reached the endpoint.
    reached: AtomicBool,
    /// Tries of deliveries that did not know whether the endpoint can be reached.
    tries: AtomicU64,
    /// Held during such a try, with what came of the last one.
    trying: tokio::sync::Mutex<Option<Outcome>>,
}

/// An answer, and the connection that it came over.
pub(crate) struct Answer {
    pub(crate) head: http::response::Parts,
    body: Incoming,
    connection: Connection,
}

impl Pool {
    pub(crate) fn new(endpoint: Endpoint, connector: Connector, options: &Options) -> Self {
        Self {
            endpoint,
            connector,
            places: Semaphore::new(options.concurrency),
            resting: Mutex::default(),
            idle_max: options.idle_max,
            timeout: options.timeout,
            reached: AtomicBool::new(false),
            tries: AtomicU64::new(0),
            trying: tokio::sync::Mutex::new(None),
        }
    }

    /// Waits until a request may be under way; first come, first served.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.places.acquire().await.ok()
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Answer, Outcome> {
        // A connection that the other side closed meanwhile did not send anything: the next one will.
        while let Some(connection) = self.rested() {
            match self.send_over(connection, request).await {
                Err(SendTrouble::Unsent(unsent, _)) => request = *unsent,
                Err(SendTrouble::Other(trouble)) => return Err(unanswered(&self.endpoint, &trouble)),
                Ok(answer) => return Ok(answer),
            }
        }
        let connection = self.open().await?;
        self.send_over(connection, request).await.map_err(|trouble| match trouble {
            SendTrouble::Unsent(_, error) => unanswered(&self.endpoint, &Trouble::Unsent(error)),
            SendTrouble::Other(trouble) => unanswered(&self.endpoint, &trouble),
        })
    }

    async fn send_over(
        &self,
        mut connection: Connection,
        request: Request<Body>,
    ) -> Result<Answer, SendTrouble> {
        match timeout(self.timeout, connection.send(request)).await {
            Ok(Ok(answer)) => {
                let (head, body) = Response::into_parts(answer);
                Ok(Answer { head, body, connection })
            }
            Ok(Err(SendError::Unsent(request, error))) => Err(SendTrouble::Unsent(request, error)),
            Ok(Err(SendError::Lost(error))) => Err(SendTrouble::Other(Trouble::Lost(error))),
            Err(_) => Err(SendTrouble::Other(Trouble::Timeout(self.timeout))),
        }
    }

    /// Reads the rest of an answer away and lets its connection rest.
    pub(crate) async fn finish(&self, answer: Answer) {
        // After 101 the connection does not speak HTTP any more.
        if answer.head.status.is_informational() {
            return;
        }
        if let Some(connection) = answer.connection.drained(answer.body).await {
            self.resting().push(connection);
        }
    }

    /// The connection that was used last, if it did not rest for too long: those below it have rested longer.
    fn rested(&self) -> Option<Connection> {
        let mut resting = self.resting();
        let connection = resting.pop()?;
        if connection.rested() <= self.idle_max {
            return Some(connection);
        }
        resting.clear();
        None
    }

    /// Opens a connection. While it is not known that the endpoint can be reached, one tries and all others wait for
    /// what comes of it: an endpoint that comes back is not met by a storm.
    async fn open(&self) -> Result<Connection, Outcome> {
        if self.reached.load(Ordering::Acquire) {
            return self.try_to_open().await;
        }
        let seen = self.tries.load(Ordering::Acquire);
        let mut last = self.trying.lock().await;
        if let Some(outcome) = last.as_ref().filter(|_| self.tries.load(Ordering::Acquire) != seen) {
            return Err(outcome.clone());
        }
        let opened = self.try_to_open().await;
        self.tries.fetch_add(1, Ordering::AcqRel);
        *last = opened.as_ref().err().cloned();
        opened
    }

    async fn try_to_open(&self) -> Result<Connection, Outcome> {
        let opened = self.connector.open().await;
        self.reached.store(opened.is_ok(), Ordering::Release);
        opened.map_err(|trouble| unanswered(&self.endpoint, &trouble))
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum SendTrouble {
    Unsent(Box<Request<Body>>, hyper::Error),
    Other(Trouble),
}
