//! Many rows without being woken for each of them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::sleep;

/// How often a fetch is looked at as soon as it says so. A few rows are here by then.
const EAGER: u32 = 16;
/// How long rows gather after that.
const NAP: Duration = Duration::from_millis(1);

/// Waits for a fetch of many rows.
///
/// The driver's thread hands over row by row and wakes the waiting task, and for a batch of hundreds both
/// threads would spend more on waking and falling asleep than on the rows. So after the first ones we look
/// again now and then.
pub(crate) async fn patiently<T>(fetch: impl Future<Output = T>) -> T {
    let mut fetch = pin!(fetch);
    let mut looks = 0;
    let early = poll_fn(|context| {
        looks += 1;
        match fetch.as_mut().poll(context) {
            Poll::Ready(rows) => Poll::Ready(Some(rows)),
            Poll::Pending if looks == EAGER => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    if let Some(rows) = early.await {
        return rows;
    }
    loop {
        sleep(NAP).await;
        if let Poll::Ready(rows) = fetch.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return rows;
        }
    }
}
