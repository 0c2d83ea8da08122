//! Sinks that say that a failure stops the entries of its key behind it: one that keeps its word, and those that do not.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use pillarbox_conformance::delivery::deliver_one;
use pillarbox_conformance::sink::cases;
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Outcome};
use pillarbox_testkit::MemorySink;

/// What a sink does with the entries of a key behind one that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Nothing, as it says.
    Untried,
    /// It goes on.
    Delivered,
    /// It delivers nothing, and says that it did.
    ConfirmedOnly,
    /// It delivers all, and says that it did not.
    DeliveredOnly,
    /// It delivers nothing, and says that they were refused too.
    Rejected,
}

/// The sink in memory with a limit, and with its word that a failure stops a key.
#[derive(Clone)]
struct Boastful(MemorySink, Behind);

#[async_trait]
impl Sink for Boastful {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.ordered_prefix = true;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let mut stopped = BTreeSet::new();
        for (index, entry) in batch.iter().enumerate() {
            let is_behind = stopped.contains(&entry.key);
            let tries = !is_behind || matches!(self.1, Behind::Delivered | Behind::DeliveredOnly);
            let told = if tries { Some(deliver_one(&self.0, entry).await) } else { None };
            let outcome = match (self.1, told) {
                (Behind::ConfirmedOnly, None) => Outcome::Confirmed,
                (Behind::Rejected, None) => Outcome::rejected("too_large", "as the one before it"),
                (Behind::DeliveredOnly, _) if is_behind => Outcome::Untried,
                (_, told) => told.unwrap_or(Outcome::Untried),
            };
            report.outcome(index, outcome);
            if entry.payload.len() > self.0.capabilities().payload_bytes_max.unwrap() {
                stopped.insert(entry.key.clone());
            }
        }
    }
}

#[async_trait]
impl SinkHarness for Boastful {
    fn name() -> &'static str {
        "a sink that stops a key at a failure"
    }

    async fn start() -> Self {
        Self::that(Behind::Untried)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(self.clone())
    }

    async fn received(&self) -> Vec<Received> {
        let received = |entry: Entry| Received {
            event_id: entry.event_id,
            event_type: entry.event_type,
            key: entry.key,
            payload: entry.payload,
        };
        self.0.received().into_iter().map(received).collect()
    }
}

impl Boastful {
    fn that(behind: Behind) -> Self {
        let sink = MemorySink::new();
        let mut capabilities = SinkCapabilities::default();
        capabilities.payload_bytes_max = Some(4096);
        sink.set_capabilities(capabilities);
        Self(sink, behind)
    }
}

pillarbox_conformance::sink_conformance!(Boastful);

#[tokio::test]
async fn a_sink_that_confirms_or_delivers_beyond_a_failure_is_found() {
    let name = "nothing_behind_a_refused_entry_of_its_key_is_confirmed_or_arrives";
    let cases = cases();
    let case = cases.iter().find(|case| case.name == name).unwrap();
    for lie in [Behind::Delivered, Behind::ConfirmedOnly, Behind::DeliveredOnly, Behind::Rejected] {
        let harness = Boastful::that(lie);
        let outcome = AssertUnwindSafe((case.run)(&harness)).catch_unwind().await;
        assert!(outcome.is_err(), "{name} passes although what is behind a failure is {lie:?}");
    }
}
