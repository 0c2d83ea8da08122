//! What a store's author writes so that the suite can run on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Admin, Inbox, Presence, Schema, Stage, Store};
use pillarbox_core::{EventId, Timestamp};

/// A store under test: how to open one, how its transactions work, and how to harm it.
///
/// Every case gets a harness of its own, so cases run side by side and leave nothing behind for each other.
#[async_trait]
pub trait StoreHarness: Send + Sync + Sized + 'static {
    /// The application's transaction.
    type Tx: Send;
    /// Stages events in that transaction.
    type Outbox: Stage<Self::Tx> + 'static;
    /// Accepts events in that transaction.
    type Inbox: Inbox<Self::Tx> + 'static;
    /// The store.
    type Store: Store + Admin + Schema + 'static;

    /// The store's name in what the suite prints.
    const NAME: &'static str;

    /// A fresh, empty, migrated store of its own, with causal order on.
    async fn start() -> Self;

    /// The store.
    fn store(&self) -> Arc<Self::Store>;

    /// Where relays of this store say that they are there; `None`: nowhere, and the cases about that are skipped.
    fn presence(&self) -> Option<Arc<dyn Presence>> {
        None
    }

    /// An outbox of this route. A route that breaks a rule is refused when something is staged.
    fn outbox(&self, route: &str) -> Self::Outbox;

    /// The inbox.
    fn inbox(&self) -> Self::Inbox;

    /// The time now, by the clock that the store decides by.
    async fn now(&self) -> Timestamp;

    /// Begins a transaction as an application would.
    async fn begin(&self) -> Self::Tx;

    /// Commits it.
    async fn commit(&self, tx: Self::Tx);

    /// Rolls it back.
    async fn rollback(&self, tx: Self::Tx);

    /// Sets the one savepoint that the suite uses at a time.
    async fn savepoint(&self, tx: &mut Self::Tx);

    /// Rolls back to that savepoint; the transaction goes on.
    async fn rollback_to_savepoint(&self, tx: &mut Self::Tx);

    /// Harms this transaction as an application does that takes no notice of it: what commits it afterwards must say
    /// that it did not commit. Not a method, because callbacks do it too. `false`: it cannot be harmed that way here,
    /// and the case prints that it was skipped.
    async fn ruin(_tx: &mut Self::Tx, _how: Ruin) -> bool {
        false
    }

    /// Harms or changes the store behind the port's back. `false`: this store cannot do that, and the case
    /// prints that it was skipped.
    async fn tamper(&self, tamper: Tamper) -> bool;

    /// Whether several transactions can write at the same time. `false` for a database with one writer: the
    /// cases that interleave open transactions are then skipped, and say so.
    fn concurrent_writers(&self) -> bool {
        true
    }
}

/// How a transaction is harmed, so that it cannot be committed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ruin {
    /// A statement fails, and the database gives the whole transaction up for it.
    FailedStatement,
    /// Its own statements end it: a plain ROLLBACK.
    Ended,
    /// Its connection breaks.
    BrokenConnection,
}

/// What the suite does to a store behind the port's back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Tamper {
    /// From now on no audit record can be written.
    FailAudit,
    /// Audit records can be written again.
    RepairAudit,
    /// Makes the headers of this entry unreadable, on every route that carries it.
    SpoilHeaders(EventId),
    /// Deletes this entry.
    DeleteEntry(EventId),
    /// Leaves this entry in flight without a lease end.
    ForgetLeaseEnd(EventId),
    /// Stages by plain means and three columns, as an application in any language would.
    StagePlain {
        /// The column `route`.
        route: String,
        /// The column `type`.
        event_type: String,
        /// The column `payload_bytes`.
        payload: Vec<u8>,
    },
    /// The same with a text, written as a literal: as its first user does it, and as many drivers do with every value.
    StageText {
        /// The column `route`.
        route: String,
        /// The column `type`.
        event_type: String,
        /// The column `payload`.
        payload: String,
    },
    /// Stages on the route `orders` by plain means with a value in this column that is not as it should be. `false`:
    /// the store refuses it.
    StageWrong {
        /// Under which id.
        id: EventId,
        /// The column.
        column: &'static str,
        /// What is in it, as text.
        value: &'static str,
    },
    /// Stages by plain means and four columns.
    StageKeyed {
        /// The column `route`.
        route: String,
        /// The column `type`.
        event_type: String,
        /// The column `key`.
        key: String,
        /// The column `payload_bytes`.
        payload: Vec<u8>,
    },
    /// Holds a lock on this entry in another transaction until [`Tamper::UnlockEntries`].
    LockEntry(EventId),
    /// Ends the transactions that [`Tamper::LockEntry`] began.
    UnlockEntries,
    /// Takes the column `last_error` away from the outbox table.
    DropColumn,
    /// Moves the database's clock on, and not the worker's. `false`: they are one clock.
    AdvanceClock(Duration),
}
