//! The suite for handlers: a handler that runs again, or that is cut off at any point and runs again, must
//! have one effect.
//!
//! A relay delivers at least once. After a crash, a lost answer or an expired lease it runs the handler
//! again, always under the same idempotency key. With this suite the author of a handler shows that this is
//! harmless.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use async_trait::async_trait;
use futures_util::future::join;
use pillarbox_core::port::{Report, Sink};
use pillarbox_core::{Entry, Event, Outcome, RouteName};
use pillarbox_engine::sink::Handlers;

use super::case::Case;
use super::handler;
use super::suite::{run_named, table};
use pillarbox_testkit::sample_entry;

/// A handler cut off more often than this has not ended by itself.
const CUTS_MAX: usize = 500;

/// A handler under test: how to set it up, what to give it, and how to observe its effect.
#[async_trait]
pub trait HandlerHarness: Send + Sync + Sized + 'static {
    /// The observable effect: rows, files, or requests that another service received.
    type Seen: PartialEq + Debug + Send + Sync;

    /// The handler's name in the output of the suite.
    const NAME: &'static str;

    /// Sets up everything that the handler works on, fresh and empty.
    async fn start() -> Self;

    /// The registry of handlers, which includes the handler under test.
    fn handlers(&self) -> Handlers;

    /// The event for the handler, the same one every time. Its type is the handler's name.
    fn event(&self) -> Event;

    /// The effect that can be observed now.
    async fn observe(&self) -> Self::Seen;
}

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __handler_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            handler {
                a_run_is_confirmed,
                running_it_again_changes_nothing,
                running_it_twice_at_once_changes_nothing_more,
                cut_off_anywhere_and_run_again_it_has_one_effect,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<H: HandlerHarness>() -> Vec<Case<H>> {
    crate::__handler_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `handler_conformance!` expands to.
///
/// # Panics
/// When the handler does not behave as the case says, or no case has this name.
pub fn run<H: HandlerHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for handlers.
///
/// ```no_run
/// # mod it {
/// use std::collections::BTreeSet;
/// use std::sync::{Arc, Mutex};
///
/// use async_trait::async_trait;
/// use pillarbox_conformance::HandlerHarness;
/// use pillarbox_core::{Event, EventId};
/// use pillarbox_engine::sink::{Handlers, Handling};
///
/// /// Charges a card once per idempotency key.
/// #[derive(Clone, Default)]
/// struct Charges(Arc<Mutex<BTreeSet<EventId>>>);
///
/// #[async_trait]
/// impl HandlerHarness for Charges {
///     type Seen = usize;
///
///     const NAME: &'static str = "charging a card";
///
///     async fn start() -> Self {
///         Self::default()
///     }
///
///     fn handlers(&self) -> Handlers {
///         let charges = self.clone();
///         let charge = move |handling: Handling| {
///             charges.0.lock().unwrap().insert(handling.idempotency_key());
///             async { Ok(()) }
///         };
///         Handlers::new().on("card.charge", charge).unwrap()
///     }
///
///     fn event(&self) -> Event {
///         Event::new("card.charge", "{}")
///     }
///
///     async fn observe(&self) -> usize {
///         self.0.lock().unwrap().len()
///     }
/// }
///
/// pillarbox_conformance::handler_conformance!(Charges);
/// # }
/// ```
#[macro_export]
macro_rules! handler_conformance {
    ($harness:ty) => {
        $crate::__handler_cases!([$crate::__conformance_tests] $crate::handler::run::<$harness>);
    };
}

fn entry<H: HandlerHarness>(harness: &H, attempts: u32) -> Entry {
    let mut entry = sample_entry(RouteName::new("handlers").unwrap(), harness.event());
    entry.attempts = attempts;
    entry
}

/// Keeps the outcome.
#[derive(Default)]
struct One(std::sync::Mutex<Option<Outcome>>);

impl Report for One {
    fn outcome(&self, _index: usize, outcome: Outcome) {
        self.0.lock().unwrap().get_or_insert(outcome);
    }
}

async fn deliver(handlers: &Handlers, entry: &Entry) -> Outcome {
    let report = One::default();
    handlers.deliver(std::slice::from_ref(entry), &report).await;
    report.0.into_inner().unwrap().expect("an outcome")
}

/// What one whole run does, on a harness of its own.
async fn one_effect<H: HandlerHarness>() -> H::Seen {
    let harness = H::start().await;
    assert_eq!(deliver(&harness.handlers(), &entry(&harness, 1)).await, Outcome::Confirmed);
    harness.observe().await
}

/// With nothing in its way it does its work, and the work can be seen.
pub async fn a_run_is_confirmed<H: HandlerHarness>(harness: &H) {
    let before = harness.observe().await;
    assert_eq!(deliver(&harness.handlers(), &entry(harness, 1)).await, Outcome::Confirmed);
    assert_ne!(
        harness.observe().await,
        before,
        "nothing can be seen of it: the other cases would show nothing"
    );
}

/// As after a crash between its end and the record of it.
pub async fn running_it_again_changes_nothing<H: HandlerHarness>(harness: &H) {
    let handlers = harness.handlers();
    for attempt in 1..=3 {
        assert_eq!(deliver(&handlers, &entry(harness, attempt)).await, Outcome::Confirmed, "run {attempt}");
        assert_eq!(
            harness.observe().await,
            one_effect::<H>().await,
            "run {attempt} had an effect of its own"
        );
    }
}

/// As when a lease ended while it ran. One of them may fail: it is tried again.
pub async fn running_it_twice_at_once_changes_nothing_more<H: HandlerHarness>(harness: &H) {
    let handlers = harness.handlers();
    let (first, second) = (entry(harness, 1), entry(harness, 2));
    let outcomes = join(deliver(&handlers, &first), deliver(&handlers, &second)).await;
    for outcome in [outcomes.0, outcomes.1] {
        assert!(!matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    }
    assert_eq!(deliver(&handlers, &entry(harness, 3)).await, Outcome::Confirmed);
    assert_eq!(harness.observe().await, one_effect::<H>().await, "two runs at once had two effects");
}

/// Dropped at every point where it waits, and run again: as a relay that stops or dies does it.
pub async fn cut_off_anywhere_and_run_again_it_has_one_effect<H: HandlerHarness>(_: &H) {
    let wanted = one_effect::<H>().await;
    for polls in 1..=CUTS_MAX {
        let harness = H::start().await;
        let handlers = harness.handlers();
        let ended = {
            let entry = entry(&harness, 1);
            let mut running = pin!(deliver(&handlers, &entry));
            let mut left = polls;
            poll_fn(|context| {
                left -= 1;
                match running.as_mut().poll(context) {
                    Poll::Ready(_) => Poll::Ready(true),
                    Poll::Pending if left == 0 => Poll::Ready(false),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        };
        assert_eq!(deliver(&handlers, &entry(&harness, 2)).await, Outcome::Confirmed, "after {polls} polls");
        assert_eq!(harness.observe().await, wanted, "cut off after {polls} polls it had another effect");
        if ended {
            return;
        }
    }
}
