//! One connection, opened at the first use and again after a loss, one attempt at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use lapin::tcp::OwnedTLSConfig;
use lapin::{Connection, ConnectionProperties};

use crate::error::Fault;
use crate::options::Options;

/// A connection that a caller may have given up.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    given_up: AtomicBool,
}

impl Link {
    /// Connects and logs in.
    pub(crate) async fn open(options: &Options) -> Result<Self, Fault> {
        let named = ConnectionProperties::default().with_connection_name("pillarbox".into());
        let trusted = OwnedTLSConfig { identity: None, cert_chain: authorities(options)? };
        let runtime = lapin::runtime::default_runtime()?;
        let opening = Connection::connect_uri_with_config(options.uri(), named, trusted, runtime);
        let connection = within(options.connect_timeout, "connect", opening).await?;
        Ok(Self { connection, given_up: AtomicBool::new(false) })
    }

    /// Whether it can be used, as far as anybody knows.
    pub(crate) fn is_up(&self) -> bool {
        self.connection.status().connected() && !self.given_up.load(Ordering::Relaxed)
    }

    /// The broker does not answer on it: the next use opens another.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// The certificates of the authorities to trust, read at each connect: the file may have been renewed.
fn authorities(options: &Options) -> Result<Option<String>, Fault> {
    let read = |file| std::fs::read_to_string(file).map_err(|error| Fault::unreadable("ca=", &error));
    options.ca.as_ref().map(read).transpose()
}

/// Bounds a question to the broker.
pub(crate) async fn within<T>(
    limit: Duration,
    doing: &str,
    question: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(limit, question).await {
        Ok(answer) => answer.map_err(Fault::from),
        Err(_late) => Err(Fault::no_answer(doing, limit)),
    }
}

type Attempt<T> = Shared<BoxFuture<'static, Result<T, Fault>>>;

/// Something that is opened at its first use, and again once it is no good any more.
///
/// All callers share one attempt and its result: a failure is reported to all callers that waited for it, so
/// a broker that is down is not stormed, and nobody waits for the attempts of others one after the other. A
/// caller that is dropped meanwhile leaves the attempt to the next one.
pub(crate) struct Lazy<T: Clone> {
    attempt: Mutex<Option<Attempt<T>>>,
}

impl<T: Clone + Send + Sync + 'static> Lazy<T> {
    pub(crate) fn new() -> Self {
        Self { attempt: Mutex::new(None) }
    }

    pub(crate) async fn get(
        &self,
        is_good: impl Fn(&T) -> bool,
        open: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        let attempt = {
            let mut slot = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
            let usable = slot.take().filter(|attempt| match attempt.peek() {
                None => true,
                Some(Ok(opened)) => is_good(opened),
                Some(Err(_)) => false,
            });
            slot.insert(usable.unwrap_or_else(|| open.boxed().shared())).clone()
        };
        attempt.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn counted(count: &Arc<AtomicU32>, result: Result<u32, Fault>) -> BoxFuture<'static, Result<u32, Fault>> {
        let count = Arc::clone(count);
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::Relaxed);
            result
        }
        .boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn callers_share_one_attempt_and_its_failure() {
        let (lazy, count) = (Lazy::new(), Arc::new(AtomicU32::new(0)));
        let fails = || lazy.get(|_| true, counted(&count, Err(Fault::down("refused", "no"))));
        let (a, b, c) = tokio::join!(fails(), fails(), fails());
        assert!(a.is_err() && b.is_err() && c.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(lazy.get(|_| true, counted(&count, Ok(7))).await.unwrap(), 7, "a failure is not kept");
        assert_eq!(lazy.get(|_| true, counted(&count, Ok(8))).await.unwrap(), 7, "a success is");
        assert_eq!(lazy.get(|value| *value != 7, counted(&count, Ok(9))).await.unwrap(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_caller_leaves_the_attempt_to_the_next() {
        let (lazy, count) = (Lazy::new(), Arc::new(AtomicU32::new(0)));
        let first = lazy.get(|_| true, counted(&count, Ok(1)));
        assert!(tokio::time::timeout(Duration::from_millis(500), first).await.is_err());
        assert_eq!(lazy.get(|_| true, counted(&count, Ok(2))).await.unwrap(), 1);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
