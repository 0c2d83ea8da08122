//! What a store's author writes so that the suite can run on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Admin, Inbox, Presence, Schema, Stage, Store};
use pillarbox_core::{EventId, Timestamp};

/// A store under test: how to open it, how its transactions work, and how to damage it.
///
/// Every case gets a harness of its own, so cases can run side by side and do not affect each other.
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

    /// The store's name in the output of the suite.
    const NAME: &'static str;

    /// Opens a fresh, empty, migrated store of its own, with causal order on.
    async fn start() -> Self;

    /// The store.
    fn store(&self) -> Arc<Self::Store>;

    /// Where relays of this store record that they are running. `None`: the store has no presence, and the
    /// cases about it are skipped.
    fn presence(&self) -> Option<Arc<dyn Presence>> {
        None
    }

    /// An outbox of this route. If the route breaks a rule, staging must refuse it.
    fn outbox(&self, route: &str) -> Self::Outbox;

    /// The inbox.
    fn inbox(&self) -> Self::Inbox;

    /// The current time of the clock that the store uses for its decisions.
    async fn now(&self) -> Timestamp;

    /// Begins a transaction as an application would.
    async fn begin(&self) -> Self::Tx;

    /// Commits the transaction.
    async fn commit(&self, tx: Self::Tx);

    /// Rolls the transaction back.
    async fn rollback(&self, tx: Self::Tx);

    /// Whether transactions have savepoints. `false`: the cases about them are skipped, and print that they were.
    fn savepoints(&self) -> bool {
        true
    }

    /// Sets a savepoint. The suite uses one at a time.
    async fn savepoint(&self, tx: &mut Self::Tx);

    /// Rolls back to that savepoint. The transaction goes on.
    async fn rollback_to_savepoint(&self, tx: &mut Self::Tx);

    /// Damages this transaction, as an application can do without noticing. A later commit of it must report
    /// that it did not commit. This is not a method, because callbacks use it too. `false`: the transaction
    /// cannot be damaged in this way, and the case prints that it was skipped.
    async fn ruin(_tx: &mut Self::Tx, _how: Ruin) -> bool {
        false
    }

    /// Damages or changes the store without using the port. `false`: this store cannot do that, and the case
    /// prints that it was skipped.
    async fn tamper(&self, tamper: Tamper) -> bool;

    /// Whether several transactions can write at the same time. `false` is for a database with one writer.
    /// The cases that interleave open transactions are then skipped, and print that they were.
    fn concurrent_writers(&self) -> bool {
        true
    }
}

/// How a transaction is damaged, so that it can no longer be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ruin {
    /// A statement fails, and the database aborts the whole transaction.
    FailedStatement,
    /// A statement of the transaction ends it: a plain ROLLBACK.
    Ended,
    /// Its connection breaks.
    BrokenConnection,
}

/// A change that the suite makes to a store without using the port.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Tamper {
    /// From now on no audit record can be written.
    FailAudit,
    /// From now on audit records can be written again.
    RepairAudit,
    /// Makes the headers of this entry unreadable, on every route that carries it.
    SpoilHeaders(EventId),
    /// Deletes this entry.
    DeleteEntry(EventId),
    /// Leaves this entry in flight without an end of its lease.
    ForgetLeaseEnd(EventId),
    /// Stages with a plain INSERT of three columns, as an application in any language would.
    StagePlain {
        /// The column `route`.
        route: String,
        /// The column `type`.
        event_type: String,
        /// The column `payload_bytes`.
        payload: Vec<u8>,
    },
    /// Stages with a plain INSERT and a text payload, written as a literal. The first user of Pillarbox does
    /// it in this way, and many drivers do so with every value.
    StageText {
        /// The column `route`.
        route: String,
        /// The column `type`.
        event_type: String,
        /// The column `payload`.
        payload: String,
    },
    /// Stages on the route `orders` with a plain INSERT that has an invalid value in this column. `false`:
    /// the store refuses it.
    StageWrong {
        /// The event id of the entry.
        id: EventId,
        /// The column with the invalid value.
        column: &'static str,
        /// The invalid value, as text.
        value: &'static str,
    },
    /// Stages with a plain INSERT of four columns.
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
    /// Drops the column `last_error` of the outbox table.
    DropColumn,
    /// Moves the database's clock forward, but not the worker's. `false`: both use the same clock.
    AdvanceClock(Duration),
}
