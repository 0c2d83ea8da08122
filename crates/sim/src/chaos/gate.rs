//! The process around a relay: it can be killed or stopped in its tracks at any point, by others or by itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Polls of one relay at one moment: far more than any work needs, and few enough to end a spin in a second.
const POLLS_AT_ONE_MOMENT_MAX: u32 = 100_000;

/// A handle on the process of one relay. Clones are the same process.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    killed: bool,
    frozen_until: Option<Instant>,
    waker: Option<Waker>,
}

impl Gate {
    /// Ends the process: nothing of it runs again, not even a destructor that would talk to anybody.
    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.killed = true;
        wake(&mut state);
    }

    /// Stops the process for a while, as a suspended machine or a long pause of a debugger does.
    pub(crate) fn freeze(&self, wait: Duration) {
        let mut state = self.lock();
        state.frozen_until = Some(Instant::now() + wait);
        wake(&mut state);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        let mut state = self.lock();
        state.frozen_until = None;
        wake(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

/// How the process of a relay ended.
pub(crate) enum Ended<T> {
    /// The relay returned.
    Returned(T),
    /// It was killed.
    Killed,
    /// It was polled again and again without time moving on.
    Spun,
}

/// A relay's future inside its process.
pub(crate) struct Supervised<F> {
    inner: Pin<Box<F>>,
    gate: Gate,
    thaw: Option<Pin<Box<Sleep>>>,
    polled_at: Option<Instant>,
    polls: u32,
}

impl<F: Future> Supervised<F> {
    pub(crate) fn new(inner: F, gate: Gate) -> Self {
        Self { inner: Box::pin(inner), gate, thaw: None, polled_at: None, polls: 0 }
    }

    fn spins(&mut self) -> bool {
        let now = Instant::now();
        self.polls = if self.polled_at.replace(now) == Some(now) { self.polls + 1 } else { 0 };
        self.polls > POLLS_AT_ONE_MOMENT_MAX
    }
}

impl<F: Future> Future for Supervised<F> {
    type Output = Ended<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let frozen_until = {
            let mut state = self.gate.lock();
            if state.killed {
                return Poll::Ready(Ended::Killed);
            }
            state.waker = Some(context.waker().clone());
            state.frozen_until
        };
        if let Some(until) = frozen_until {
            let thaw = self.thaw.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if thaw.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.gate.lock().frozen_until = None;
        }
        self.thaw = None;
        if self.spins() {
            return Poll::Ready(Ended::Spun);
        }
        match self.inner.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ended::Returned(output)),
            Poll::Pending if self.gate.lock().killed => Poll::Ready(Ended::Killed),
            Poll::Pending => {
                if self.gate.lock().frozen_until.is_some() {
                    // It froze itself just now: come back to set the timer that thaws it.
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}
