//! Waiting for something to become true, without guessing how long it takes.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Calls `check` again and again until it returns true. Panics once `within` has passed. If the first check
/// is false, there is at least one more.
///
/// `within` is only a guard against hanging. Make it generous: a test that passes does not wait for it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use pillarbox_testkit::eventually;
/// use std::time::Duration;
///
/// let mut looks = 0;
/// eventually(Duration::from_secs(10), || {
///     looks += 1;
///     std::future::ready(looks == 3)
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
/// When `check` did not return true in time.
// Not an `async fn`, so that the panic names the caller's line.
#[track_caller]
#[allow(clippy::manual_async_fn)]
pub fn eventually<F, Fut>(within: Duration, mut check: F) -> impl Future<Output = ()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + within;
        while !check().await {
            let late = Instant::now() >= deadline;
            sleep(LOOK_EVERY).await;
            // One look after the deadline too: a machine that stood still must not fail the test.
            assert!(!late || check().await, "{caller}: the condition did not become true within {within:?}");
            if late {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "did not become true within 5s")]
    async fn what_never_becomes_true_panics_in_time() {
        eventually(Duration::from_secs(5), async || false).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_becomes_true_late_is_true() {
        let began = Instant::now();
        eventually(Duration::from_secs(5), async || began.elapsed() > Duration::from_secs(4)).await;
    }
}
