//! A transaction around an operation: begun before it, and committed after it with the events that it collected.

use pillarbox_core::port::Buffer;
use pillarbox_core::{Error, Result};
use sqlx::{PgPool, Postgres, Transaction};

use crate::outbox::Outbox;
use crate::store::PostgresStore;

/// What [`Outbox::transaction`] begins its transaction on: a store, which
/// has a pool for that, or a pool of the application's.
pub trait Begin: sealed::Begin {}

impl Begin for PostgresStore {}
impl Begin for PgPool {}

mod sealed {
    use std::future::Future;

    use pillarbox_core::Result;
    use sqlx::{PgPool, Postgres, Transaction};

    use crate::error::{Phase, classify};
    use crate::store::PostgresStore;

    pub trait Begin: Sync {
        fn begin_one(&self) -> impl Future<Output = Result<Transaction<'static, Postgres>>> + Send;
    }

    impl Begin for PostgresStore {
        async fn begin_one(&self) -> Result<Transaction<'static, Postgres>> {
            self.pool().begin_one().await
        }
    }

    impl Begin for PgPool {
        async fn begin_one(&self) -> Result<Transaction<'static, Postgres>> {
            self.begin().await.map_err(|error| classify(error, Phase::Application))
        }
    }
}

impl Outbox {
    /// Runs an operation in a transaction: begins it, stages what the operation has put into the buffer in one statement,
    /// commits, and wakes the relay of this process. An error of the operation or of staging rolls everything back.
    ///
    /// The future can be spawned when the operation owns what it uses, as an `async move` closure does: the compiler
    /// cannot see yet that the future of a closure that borrows is `Send`.
    ///
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_postgres::{Outbox, PostgresStore};
    /// # async fn example(store: PostgresStore, outbox: Outbox) -> Result<()> {
    /// outbox
    ///     .transaction(&store, async |tx, buffer| {
    ///         // … your own statements, with `&mut **tx` …
    ///         buffer.stage(Event::json("order.placed", &7)?.key("o-7"))?;
    ///         buffer.stage(Event::json("stock.taken", &7)?.key("o-7"))
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the operation; and as for [`stage_all`](Self::stage_all) and [`commit`](Self::commit).
    pub async fn transaction<T, E: From<Error>>(
        &self,
        on: &impl Begin,
        work: impl AsyncFnOnce(&mut Transaction<'static, Postgres>, &mut Buffer) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut tx, mut buffer) = (on.begin_one().await?, Buffer::new());
        let outcome = match work(&mut tx, &mut buffer).await {
            Ok(done) => buffer.flush_rest(self, &mut tx).await.map(|()| done).map_err(E::from),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(done) => {
                self.commit(tx).await?;
                Ok(done)
            }
            Err(error) => {
                // Now and not in the background: who sees the error may count on it. A lost connection has done it too.
                if tx.rollback().await.is_err() {
                    tracing::debug!("the transaction had ended before it was rolled back");
                }
                Err(error)
            }
        }
    }
}
