//! The steps that cases are made of.

use pillarbox_core::port::{Admin, Filter, Stage};
use pillarbox_core::{Entry, Event, Staged};

use super::{Act, DriverHarness, End, Outbox, Said};
use crate::StoreHarness;
use crate::store::steps::ROUTE;

/// The outbox of [`ROUTE`].
pub(super) fn outbox<H: DriverHarness>(harness: &H) -> Outbox<H> {
    harness.base().outbox(ROUTE)
}

/// Does this in one transaction of the driver and commits it.
pub(super) async fn commit<H: DriverHarness>(harness: &H, acts: Vec<Act<'_>>) -> Vec<Said> {
    harness.run(outbox(harness), acts, End::Commit).await
}

/// The same, and rolls it back.
pub(super) async fn roll_back<H: DriverHarness>(harness: &H, acts: Vec<Act<'_>>) -> Vec<Said> {
    harness.run(outbox(harness), acts, End::RollBack).await
}

/// Stages by the store's own driver.
pub(super) async fn by_sqlx<H: DriverHarness>(harness: &H, outbox: &Outbox<H>, events: Vec<Event>) {
    let mut tx = harness.base().begin().await;
    outbox.stage_all(&mut tx, events).await.unwrap();
    harness.base().commit(tx).await;
}

/// Everything in the outbox, oldest first, as everybody sees it.
pub(super) async fn entries<H: DriverHarness>(harness: &H) -> Vec<Entry> {
    harness.base().store().list(Filter::default()).await.unwrap()
}

/// How many entries everybody sees.
pub(super) async fn count<H: DriverHarness>(harness: &H) -> usize {
    entries(harness).await.len()
}

/// What was said to `Stage`.
pub(super) fn staged(said: &Said) -> Staged {
    match said {
        Said::Staged(Ok(staged)) => *staged,
        other => panic!("not staged: {other:?}"),
    }
}
