//! A transaction around an operation: begun before it, and committed after it with the events that it collected.

use std::time::{Duration, Instant};

use mongodb::{Client, ClientSession};
use pillarbox_core::port::Clock;
use pillarbox_core::{Error, ErrorKind, Result, Timestamp};
use pillarbox_host::{SystemClock, outbox};
use tokio::time::sleep;

use crate::call::{Traffic, durable};
use crate::commit::{Tx, abort, rollback};
use crate::error::{Phase, classify};
use crate::outbox::Outbox;
use crate::store::MongoStore;

/// How long to wait for another transaction before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl MongoStore {
    /// Begins a transaction of the application, on a session of the store's [client](Self::client).
    ///
    /// Any other session of the driver with a transaction works as well, also one of the application's own client: events
    /// that an outbox stages in it are committed with it.
    ///
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_mongodb::{MongoStore, Outbox};
    /// # async fn example(store: MongoStore, outbox: Outbox) -> Result<()> {
    /// let mut tx = store.begin().await?;
    /// // … your own commands, with `.session(&mut tx)` …
    /// outbox.stage(&mut tx, Event::json("order.placed", &7)?).await?;
    /// outbox.commit(tx).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// When no connection becomes free in time, or when the server cannot be reached.
    pub async fn begin(&self) -> Result<Tx<'static>> {
        self.open_transaction(Traffic::Operator).await
    }
}

outbox! {
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_mongodb::{MongoStore, Outbox};
    /// # async fn example(store: MongoStore, outbox: Outbox) -> Result<()> {
    /// outbox
    ///     .transaction(&store, async |tx, buffer| {
    ///         // … your own commands, with `.session(&mut *tx)` …
    ///         buffer.stage(Event::json("order.placed", &7)?.key("o-7"))?;
    ///         buffer.stage(Event::json("stock.taken", &7)?.key("o-7"))
    ///     })
    ///     .await
    /// # }
    /// ```
    Outbox, owned Tx
}

impl Begin for MongoStore {}
impl sealed::Begin for MongoStore {
    async fn begin_one(&self) -> Result<Tx<'static>> {
        self.begin().await
    }
}

impl Begin for Client {}
impl sealed::Begin for Client {
    async fn begin_one(&self) -> Result<Tx<'static>> {
        begin_on(self).await
    }
}

/// Begins a durable transaction on a session of its own.
pub(crate) async fn begin_on(client: &Client) -> Result<ClientSession> {
    let begun = async {
        let mut session = client.start_session().default_transaction_options(durable()).await?;
        session.start_transaction().await?;
        Ok(session)
    };
    begun.await.map_err(|error| classify(&error, Phase::Application))
}

/// Refuses a session without a transaction: what is written in it would be committed at once. The driver tells it by
/// refusing to begin a second one; nothing is sent for that.
pub(crate) async fn check_open(session: &mut ClientSession) -> Result<()> {
    match session.start_transaction().await {
        Ok(()) => {
            abort(session).await;
            Err(Error::invalid(
                "the session has no transaction; call start_transaction on it before, so that the event is committed with \
                 your own write",
            ))
        }
        Err(error) if error.to_string().contains("already in progress") => Ok(()),
        Err(error) => Err(classify(&error, Phase::Application)),
    }
}

/// The writer's clock: an insert cannot ask for the server's.
pub(crate) fn wall_clock() -> Timestamp {
    SystemClock.now()
}

/// Waiting for another transaction that has written the same document. A transaction sees the data of its beginning, so
/// waiting means beginning it again. That is possible only while nothing else has happened in it.
pub(crate) struct Patience {
    until: Instant,
    can_begin_again: bool,
}

impl Patience {
    /// Patience with a call on this session: only if the session has not been used yet.
    pub(crate) fn of(session: &ClientSession, most: Duration) -> Self {
        Self { until: Instant::now() + most, can_begin_again: session.operation_time().is_none() }
    }

    /// Whether to wait and try again.
    pub(crate) fn again(&self, error: &Error) -> bool {
        self.can_begin_again && error.kind() == ErrorKind::Contention && Instant::now() < self.until
    }

    /// Waits a moment and begins the transaction again.
    pub(crate) async fn begin_again(&mut self, session: &mut ClientSession) -> Result<()> {
        abort(session).await;
        sleep(LOOK_AGAIN).await;
        session.start_transaction().await.map_err(|error| classify(&error, Phase::Application))
    }
}
