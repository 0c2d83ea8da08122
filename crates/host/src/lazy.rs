//! What is opened at its first use, one attempt at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use pillarbox_core::Error;

type Attempt<T, E> = Shared<BoxFuture<'static, Result<T, E>>>;

/// Something that is opened at its first use, and again once it is no good any more. Transports keep their connection in
/// one.
///
/// All callers share one attempt and its result: a failure is reported to all callers that waited for it, so
/// a broker that is down is not stormed, and nobody waits for the attempts of others one after the other. A
/// caller that is dropped meanwhile leaves the attempt to the next one, so callers with little time do not begin it
/// again and again.
///
/// ```
/// # futures_util::future::FutureExt::now_or_never(async {
/// use pillarbox_host::Lazy;
///
/// let lazy = Lazy::<u32>::new();
/// assert_eq!(lazy.get(|_| true, || async { Ok(7) }).await.unwrap(), 7);
/// assert_eq!(lazy.get(|_| true, || async { Ok(8) }).await.unwrap(), 7);
/// # }).unwrap();
/// ```
pub struct Lazy<T: Clone, E: Clone = Arc<Error>> {
    attempt: Mutex<Option<Attempt<T, E>>>,
}

impl<T: Clone, E: Clone> Default for Lazy<T, E> {
    fn default() -> Self {
        Self { attempt: Mutex::new(None) }
    }
}

impl<T: Clone, E: Clone> Lazy<T, E> {
    /// Nothing is opened yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was opened and is still good, or else what `open` gives.
    ///
    /// # Errors
    /// That of the attempt. It is not kept: the next call begins another attempt.
    pub async fn get<F>(&self, is_good: impl Fn(&T) -> bool, open: impl FnOnce() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let attempt = {
            let mut slot = self.slot();
            let usable = slot.take().filter(|attempt| match attempt.peek() {
                None => true,
                Some(Ok(opened)) => is_good(opened),
                Some(Err(_)) => false,
            });
            slot.insert(usable.unwrap_or_else(|| open().boxed().shared())).clone()
        };
        attempt.await
    }

    /// What was opened, if it is there now.
    pub fn now(&self, is_good: impl Fn(&T) -> bool) -> Option<T> {
        let slot = self.slot();
        let opened = slot.as_ref()?.peek()?.as_ref().ok()?;
        is_good(opened).then(|| opened.clone())
    }

    fn slot(&self) -> MutexGuard<'_, Option<Attempt<T, E>>> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error that several callers of a [`Lazy`] got, for one of them: its kind, code and message.
#[must_use]
pub fn error_of_all(error: &Error) -> Error {
    let code = error.code().unwrap_or(error.kind().as_str());
    Error::new(error.kind(), error.message()).with_code(code).with_retry(error.retry())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use pillarbox_core::ErrorKind;

    use super::*;

    async fn counted(count: Arc<AtomicU32>, result: Result<u32, ErrorKind>) -> Result<u32, Arc<Error>> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        count.fetch_add(1, Ordering::Relaxed);
        result.map_err(|kind| Arc::new(Error::new(kind, "no").with_code("refused")))
    }

    #[tokio::test(start_paused = true)]
    async fn callers_share_one_attempt_and_its_failure() {
        let (lazy, count) = (Lazy::<u32>::new(), Arc::new(AtomicU32::new(0)));
        let fails = || lazy.get(|_| true, || counted(Arc::clone(&count), Err(ErrorKind::Unavailable)));
        let (a, b, c) = tokio::join!(fails(), fails(), fails());
        assert!(a.is_err() && b.is_err());
        let told = error_of_all(&c.unwrap_err());
        assert_eq!(
            (told.kind(), told.code(), told.message()),
            (ErrorKind::Unavailable, Some("refused"), "no")
        );
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(lazy.now(|_| true), None);
        let gets = |value| counted(Arc::clone(&count), Ok(value));
        assert_eq!(lazy.get(|_| true, || gets(7)).await.unwrap(), 7, "a failure is not kept");
        assert_eq!(lazy.get(|_| true, || gets(8)).await.unwrap(), 7, "a success is");
        assert_eq!((lazy.now(|_| true), lazy.now(|_| false)), (Some(7), None));
        assert_eq!(lazy.get(|value| *value != 7, || gets(9)).await.unwrap(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_caller_leaves_the_attempt_to_the_next() {
        let (lazy, count) = (Lazy::<u32>::new(), Arc::new(AtomicU32::new(0)));
        let first = lazy.get(|_| true, || counted(Arc::clone(&count), Ok(1)));
        assert!(tokio::time::timeout(Duration::from_millis(500), first).await.is_err());
        assert_eq!(lazy.get(|_| true, || counted(Arc::clone(&count), Ok(2))).await.unwrap(), 1);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
