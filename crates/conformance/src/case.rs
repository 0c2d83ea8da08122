//! Running one case: a runtime of its own, a deadline against hanging, and a count of what was skipped.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// A case that takes longer than this hangs; no case measures time.
const HANG_AFTER: Duration = Duration::from_secs(120);

/// The future of a case. It is never sent to another thread.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One behaviour that every adapter of a port must show, named as a sentence. If the adapter does not show
/// it, the case panics.
pub struct Case<H: ?Sized> {
    /// The section of the suite that the case belongs to.
    pub section: &'static str,
    /// The sentence that names the behaviour.
    pub name: &'static str,
    /// Runs the case on a fresh harness.
    pub run: for<'a> fn(&'a H) -> CaseFuture<'a>,
}

tokio::task_local! {
    static CURRENT: Current;
}

struct Current {
    suite: &'static str,
    name: &'static str,
    skipped: Cell<bool>,
}

/// Says that the running case does not apply to this adapter, and why.
pub(crate) fn skip(why: &str) {
    let line = CURRENT.try_with(|current| {
        current.skipped.set(true);
        format!("skipped: {}: {}: {why}", current.suite, current.name)
    });
    // Written past the test runner's capture: what was skipped is printed also when the test passes.
    let line = line.unwrap_or_else(|_| format!("skipped: {why}"));
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Polls a future once, with the waker of this task.
pub(crate) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// How many cases of each suite ended in this process, and how many of them ran.
static LEDGER: Mutex<BTreeMap<&'static str, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// Runs a future on a runtime of its own, inside a scope that knows which case it is.
pub(crate) fn block_on<F: Future<Output = ()>>(
    suite: &'static str,
    name: &'static str,
    cases: usize,
    case: F,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let skipped = runtime.block_on(async move {
        let current = Current { suite, name, skipped: Cell::new(false) };
        let scope = CURRENT.scope(current, async move {
            case.await;
            CURRENT.with(|current| current.skipped.get())
        });
        tokio::time::timeout(HANG_AFTER, scope).await.unwrap_or_else(|_| panic!("{name} hangs"))
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    record(suite, cases, skipped);
}

/// The last case of a suite fails if none of them ran: a leg that skips everything proves nothing.
fn record(suite: &'static str, cases: usize, skipped: bool) {
    let mut ledger = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
    let (ended, ran) = ledger.entry(suite).or_default();
    *ended += 1;
    *ran += usize::from(!skipped);
    assert!(*ended < cases || *ran > 0, "every case of the suite for {suite} was skipped");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "every case of the suite for nothing was skipped")]
    fn a_suite_that_skips_everything_fails() {
        block_on("nothing", "first", 2, async { skip("it cannot") });
        block_on("nothing", "second", 2, async { skip("it cannot") });
    }

    #[test]
    fn a_suite_that_ran_something_passes() {
        block_on("something", "first", 2, async {});
        block_on("something", "second", 2, async { skip("it cannot") });
    }
}
