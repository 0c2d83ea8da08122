//! The drivers that an outbox stages with and an inbox accepts with, each under the same suite.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness};
use pillarbox_core::{HybridClock, Ident};
use pillarbox_store_sqlite::{Inbox, Options, Outbox};

use crate::harness::SqliteHarness;

/// Nobody waits longer for the lock of the file.
const PATIENCE: Duration = Duration::from_millis(500);

/// Counts what is in the outbox, as text.
const COUNT: &str = "select cast(count(*) as text) as number from pillarbox_outbox";

/// What a driver does its acts with.
struct Place {
    file: PathBuf,
    outbox: Outbox,
    inbox: Inbox,
}

/// A driver: begins a transaction on a connection of its own, does the acts in it, and ends it. The transaction takes
/// the lock with its first write, so that a lock that stays is told by that write.
#[async_trait(?Send)]
trait Driver: 'static {
    const NAME: &'static str;

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said>;
}

/// A driver on a store.
struct On<D> {
    base: SqliteHarness,
    driver: PhantomData<D>,
}

impl<D> On<D> {
    fn file(&self) -> PathBuf {
        self.base.directory.path().join("pillarbox.db")
    }
}

#[async_trait(?Send)]
impl<D: Driver> DriverHarness for On<D> {
    type Base = SqliteHarness;

    const NAME: &'static str = D::NAME;

    async fn start() -> Self {
        Self { base: SqliteHarness::start().await, driver: PhantomData }
    }

    fn base(&self) -> &Self::Base {
        &self.base
    }

    fn stamped(outbox: Outbox, clock: HybridClock) -> Outbox {
        outbox.clock(Arc::new(clock))
    }

    fn missing(&self, route: &str) -> Outbox {
        Outbox::new(route).options(Options::default().prefix(Ident::new("missing").unwrap()))
    }

    async fn run(&self, outbox: Outbox, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        D::run(&Place { file: self.file(), outbox, inbox: self.base.inbox() }, acts, end).await
    }
}
