//! A real server that is killed, paused and started again.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillarbox_core::port::Sink;
use pillarbox_core::{EventId, Outcome};

use super::harness::{ServerHarness, Timeouts};
use crate::case::skip;
use crate::delivery::{SOON, confirm, deliver_one, entries, ids};
use crate::outage::{OutageHarness, by_lanes, by_rows};
use crate::process::OwnServer;
use pillarbox_testkit::eventually;

/// A server that is killed, and starts again on what it stored.
struct Killed<'a, H>(&'a H);

impl<H: ServerHarness> OutageHarness for Killed<'_, H> {
    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink(Timeouts::default())
    }

    async fn begin(&self) {
        self.0.kill().await;
    }

    async fn end(&self) {
        self.0.start_again().await;
    }

    async fn received(&self) -> Vec<EventId> {
        self.0.received().await
    }
}

/// By rows, and by lanes after it.
pub async fn a_server_that_is_killed_and_started_again_loses_nothing_and_spends_no_attempt<
    H: ServerHarness,
>(
    harness: &H,
) {
    if !harness.keeps() {
        return skip("the server keeps nothing when it is killed");
    }
    by_rows(&Killed(harness)).await;
    by_lanes(&Killed(harness)).await;
}

/// The sink that found it down finds it up again, without a relay.
pub async fn a_server_that_restarts_is_used_again<H: ServerHarness>(harness: &H) {
    let (sink, batch) = (harness.sink(Timeouts::connect(2000)), entries(2));
    confirm(&*sink, &batch[..1]).await;
    harness.kill().await;
    eventually(SOON, async || matches!(deliver_one(&*sink, &batch[1]).await, Outcome::Down(_))).await;
    harness.start_again().await;
    eventually(SOON, async || deliver_one(&*sink, &batch[1]).await == Outcome::Confirmed).await;
    let received: BTreeSet<_> = harness.received().await.into_iter().collect();
    let kept = if harness.keeps() { &batch[..] } else { &batch[1..] };
    assert_eq!(received, ids(kept).into_iter().collect());
}

/// A server whose process is stopped: connections stay open, and it does not answer.
struct Paused<'a, H> {
    harness: &'a H,
    process: &'a OwnServer,
}

impl<H: ServerHarness> OutageHarness for Paused<'_, H> {
    fn sink(&self) -> Arc<dyn Sink> {
        self.harness.sink(Timeouts::connect(500).confirm(2000))
    }

    async fn begin(&self) {
        self.process.pause();
    }

    async fn end(&self) {
        self.process.resume();
    }

    async fn received(&self) -> Vec<EventId> {
        self.harness.received().await
    }

    /// The outcome of what is written to a server that does not answer is unknown, and that is an attempt. On a machine
    /// that does much else it may happen again after the pause.
    fn attempts_max(&self) -> u32 {
        4
    }
}

/// What was on the wire may have arrived, and is delivered again. All others wait without spending an attempt.
pub async fn a_server_that_is_paused_loses_nothing_and_buries_nothing<H: ServerHarness>(harness: &H) {
    let Some(process) = harness.process() else { return skip("the harness cannot pause its server") };
    by_rows(&Paused { harness, process }).await;
}
