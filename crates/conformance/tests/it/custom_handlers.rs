//! Handlers that a user wrote, under the suite for handlers; and ones that are wrong, which it must find.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt;
use pillarbox_conformance::HandlerHarness;
use pillarbox_conformance::handler;
use pillarbox_core::{Event, EventId};
use pillarbox_engine::sink::{Handled, Handlers};

/// Accounts of another service: an amount by the key that it was charged under, and how much was charged in all.
#[derive(Clone, Default)]
struct Provider(Arc<Mutex<(BTreeMap<EventId, u32>, u32)>>);

impl Provider {
    /// Takes the money, unless it has a receipt for this key.
    fn charge(&self, key: Option<EventId>) -> bool {
        let mut provider = self.0.lock().unwrap();
        if let Some(key) = key {
            if provider.0.contains_key(&key) {
                return false;
            }
            provider.0.insert(key, 5);
        }
        provider.1 += 5;
        true
    }
}

/// What a handler does about being run again.
const HANDS_THE_KEY_ON: u8 = 0;
const FORGETS_THE_KEY: u8 = 1;
const LOOKS_BEFORE_IT_LEAPS: u8 = 2;

struct Charging<const HOW: u8>(Provider);

#[async_trait]
impl<const HOW: u8> HandlerHarness for Charging<HOW> {
    type Seen = u32;

    const NAME: &'static str = "charging";

    async fn start() -> Self {
        Self(Provider::default())
    }

    fn handlers(&self) -> Handlers {
        let provider = self.0.clone();
        let run = move |handling: pillarbox_engine::sink::Handling| {
            let provider = provider.clone();
            async move {
                tokio::task::yield_now().await;
                let key = (HOW != FORGETS_THE_KEY).then(|| handling.idempotency_key());
                if HOW == LOOKS_BEFORE_IT_LEAPS {
                    let charged = provider.0.lock().unwrap().1 > 0;
                    tokio::task::yield_now().await;
                    if charged {
                        return Ok(Handled::AlreadyDone);
                    }
                    provider.charge(None);
                    return Ok(Handled::Done);
                }
                let fresh = provider.charge(key);
                tokio::task::yield_now().await;
                Ok(if fresh { Handled::Done } else { Handled::AlreadyDone })
            }
        };
        Handlers::new().on("card.charge", run).unwrap()
    }

    fn event(&self) -> Event {
        Event::new("card.charge", "{}")
    }

    async fn observe(&self) -> u32 {
        self.0.0.lock().unwrap().1
    }
}

mod hands_the_key_on {
    pillarbox_conformance::handler_conformance!(super::Charging<{ super::HANDS_THE_KEY_ON }>);
}

async fn finds<H: HandlerHarness>(name: &str) {
    let harness = H::start().await;
    let cases = handler::cases::<H>();
    let case = cases.iter().find(|case| case.name == name).unwrap();
    let outcome = AssertUnwindSafe((case.run)(&harness)).catch_unwind().await;
    assert!(outcome.is_err(), "{name} passes although the handler is wrong");
}

#[tokio::test]
async fn a_handler_that_forgets_its_key_is_found() {
    for name in [
        "running_it_again_changes_nothing",
        "running_it_twice_at_once_changes_nothing_more",
        "cut_off_anywhere_and_run_again_it_has_one_effect",
    ] {
        finds::<Charging<FORGETS_THE_KEY>>(name).await;
    }
}

#[tokio::test]
async fn a_handler_that_looks_and_then_leaps_is_found() {
    finds::<Charging<LOOKS_BEFORE_IT_LEAPS>>("running_it_twice_at_once_changes_nothing_more").await;
}
