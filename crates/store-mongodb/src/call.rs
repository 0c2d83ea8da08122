//! The one way in which a call reaches the server.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions, WriteConcern};
use mongodb::{ClientSession, Database};
use pillarbox_core::{Error, ErrorKind, Result, Retry, Timestamp};
use tokio::time::{sleep, timeout};

use crate::command::Find;
use crate::commit::{abort, end};
use crate::error::{Phase, classify, refused};
pub(crate) use crate::options::Traffic;
use crate::store::MongoStore;

/// What the client waits beyond the server's own timeouts before it gives a silent connection up.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a transaction of our own is tried while others are in its way.
pub(crate) const TRIES: u32 = 24;
/// The pause before the second try; twice as long before each further one, up to the most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Commands that happen together or not at all. They run again if another transaction was in their way.
#[async_trait]
pub(crate) trait UnitOfWork: Send + Sync {
    /// What the step found or did.
    type Outcome: Send;

    /// Runs the commands; an error rolls all of them back.
    async fn run(&self, tx: &mut Link<'_>) -> Result<Self::Outcome>;

    /// Whether what was done is to stand; if not, it is rolled back.
    fn stands(&self, _outcome: &Self::Outcome) -> bool {
        true
    }
}

/// How consistent a read is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// What the primary has now. What is read may be lost with it, unless a later write depends on it.
    Newest,
    /// What no failover takes back, all of it at one moment.
    Snapshot,
}

/// A way to the database: in a transaction, or each command by itself.
pub(crate) struct Link<'a> {
    pub(crate) database: Database,
    session: Option<&'a mut ClientSession>,
    phase: Phase,
    millis_max: i64,
}

/// What a write did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// How many documents it found or made.
    pub(crate) found: u64,
    /// How many of them are new.
    pub(crate) made: u64,
}

impl<'a> Link<'a> {
    /// Each command by itself.
    pub(crate) fn alone(database: Database, statement_timeout: Duration) -> Self {
        let millis_max =
            i64::try_from(statement_timeout.as_millis()).unwrap_or(i64::MAX).clamp(1, i32::MAX.into());
        Self { database, session: None, phase: Phase::Before, millis_max }
    }

    /// In the transaction of this session.
    pub(crate) fn inside(database: Database, session: &'a mut ClientSession, phase: Phase) -> Self {
        Self { database, session: Some(session), phase, millis_max: 0 }
    }

    fn bounded(&self, mut command: Document) -> Document {
        if self.session.is_none() && !command.contains_key("maxTimeMS") {
            command.insert("maxTimeMS", self.millis_max);
        }
        command
    }

    /// Runs a write. Outside of a transaction it returns when a majority of the nodes has it on disk.
    pub(crate) async fn write(&mut self, command: Document) -> Result<Done> {
        let answer = self.written(command).await?;
        let count =
            |name: &str| answer.get_i32(name).ok().and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        let made = answer.get_array("upserted").map_or(0, |made| made.len() as u64);
        Ok(Done { found: count("n"), made })
    }

    /// Runs an `update` and returns the places of the changes that made a document.
    pub(crate) async fn write_each(&mut self, command: Document) -> Result<BTreeSet<usize>> {
        let answer = self.written(command).await?;
        let made = answer.get_array("upserted").map_or(&[][..], Vec::as_slice);
        let place = |made: &Bson| usize::try_from(made.as_document()?.get_i32("index").ok()?).ok();
        Ok(made.iter().filter_map(place).collect())
    }

    async fn written(&mut self, command: Document) -> Result<Document> {
        let mut command = self.bounded(command);
        if self.session.is_none() {
            command.insert("writeConcern", doc! { "w": "majority", "j": true });
        }
        let run = self.database.run_command(command);
        let answer = match &mut self.session {
            Some(session) => run.session(&mut **session).await,
            None => run.await,
        };
        let answer = answer.map_err(|error| classify(&error, self.phase))?;
        match refused(&answer, self.phase) {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    /// Runs a `find` or an `aggregate` and reads all of its documents.
    pub(crate) async fn ask(&mut self, command: Document, reading: Reading) -> Result<Vec<Document>> {
        let mut command = self.bounded(command);
        let failed = |error: mongodb::error::Error| classify(&error, self.phase);
        if let Some(session) = &mut self.session {
            let cursor = self.database.run_cursor_command(command).session(&mut **session).await;
            let mut cursor = cursor.map_err(failed)?;
            return cursor.stream(session).try_collect().await.map_err(failed);
        }
        let level = match reading {
            Reading::Newest => "local",
            Reading::Snapshot => "snapshot",
        };
        command.insert("readConcern", doc! { "level": level });
        let cursor = self.database.run_cursor_command(command).await.map_err(failed)?;
        cursor.try_collect().await.map_err(failed)
    }

    /// Runs a `find` for what the primary has now.
    pub(crate) async fn find(&mut self, find: Find) -> Result<Vec<Document>> {
        self.ask(find.command(), Reading::Newest).await
    }

    /// The pinned time, or the server's.
    pub(crate) async fn now_or(&self, pinned: Option<Timestamp>) -> Result<Timestamp> {
        match pinned {
            Some(now) => Ok(now),
            None => clock(&self.database, self.phase).await,
        }
    }
}

/// The server's clock.
pub(crate) async fn clock(database: &Database, phase: Phase) -> Result<Timestamp> {
    let answer = database.run_command(doc! { "hello": 1 }).await.map_err(|error| classify(&error, phase))?;
    let millis = match answer.get("localTime") {
        Some(Bson::DateTime(at)) => at.timestamp_millis(),
        _ => 0,
    };
    millis.checked_mul(1000).filter(|micros| *micros > 0).and_then(Timestamp::from_micros).ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the clock of the database is before the year 1970 or after 9999; set the clock of its machine",
        )
    })
}

/// What transactions of our own need: a view of one moment, and a commit that no failover takes back.
pub(crate) fn durable() -> TransactionOptions {
    TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .write_concern(
            WriteConcern::builder().w(mongodb::options::Acknowledgment::Majority).journal(true).build(),
        )
        .build()
}

impl MongoStore {
    /// Runs a step in a transaction. Nothing of it is handed on before the commit has succeeded.
    pub(crate) async fn together<S: UnitOfWork>(&self, traffic: Traffic, step: &S) -> Result<S::Outcome> {
        let mut tries = Tries::default();
        loop {
            match self.attempt(traffic, step).await {
                Err(error) if tries.again(&error) => {
                    if traffic == Traffic::Relay && error.kind() == ErrorKind::Contention {
                        self.end_abandoned().await;
                    }
                    tries.pause().await;
                }
                answer => return answer,
            }
        }
    }

    /// Runs one write that commits by itself. Doing it twice must be doing it once.
    pub(crate) async fn execute(&self, command: Document) -> Result<Done> {
        let mut tries = Tries::default();
        loop {
            let mut link = self.link(Traffic::Relay);
            let write = timeout(self.patience(), link.write(command.clone()));
            match self.unobstructed(write).await.unwrap_or_else(|_| Err(silent())) {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    /// Reads with one command.
    pub(crate) async fn rows(
        &self,
        traffic: Traffic,
        command: Document,
        reading: Reading,
    ) -> Result<Vec<Document>> {
        let mut tries = Tries::default();
        loop {
            let mut link = self.link(traffic);
            let rows = timeout(self.patience(), link.ask(command.clone(), reading)).await;
            match rows.unwrap_or_else(|_| Err(silent())) {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    /// Reads what the primary has now.
    pub(crate) async fn find(&self, traffic: Traffic, find: Find) -> Result<Vec<Document>> {
        self.rows(traffic, find.command(), Reading::Newest).await
    }

    /// Each command by itself.
    pub(crate) fn link(&self, traffic: Traffic) -> Link<'static> {
        Link::alone(self.database_for(traffic), self.options().statement_timeout)
    }

    /// Runs a step in a transaction, once.
    pub(crate) async fn attempt<S: UnitOfWork>(&self, traffic: Traffic, step: &S) -> Result<S::Outcome> {
        let mut session = self.open_transaction(traffic).await?;
        let mut link = Link::inside(self.database_for(traffic), &mut session, Phase::Before);
        // When it takes too long the work is dropped, and the transaction with it.
        let outcome = timeout(self.patience(), step.run(&mut link)).await.unwrap_or_else(|_| Err(silent()));
        match outcome {
            Ok(outcome) if step.stands(&outcome) => {
                let ended = timeout(self.patience(), end(&mut session)).await;
                ended.unwrap_or_else(|_| Err(silent().with_retry(Retry::Unknown)))?;
                Ok(outcome)
            }
            outcome => {
                abort(&mut session).await;
                outcome
            }
        }
    }

    /// A transaction on a session of its own.
    pub(crate) async fn open_transaction(&self, traffic: Traffic) -> Result<ClientSession> {
        let client = self.client_for(traffic);
        let opened = async {
            let mut session = client.start_session().default_transaction_options(durable()).await?;
            session.start_transaction().await?;
            Ok(session)
        };
        opened.await.map_err(|error| classify(&error, Phase::Before))
    }

    /// How long the client waits for one answer.
    pub(crate) fn patience(&self) -> Duration {
        self.options().statement_timeout.saturating_add(SILENCE)
    }
}

pub(crate) fn silent() -> Error {
    Error::new(ErrorKind::Timeout, "the database did not answer in time")
}

/// How often something of our own was tried.
#[derive(Default)]
pub(crate) struct Tries {
    conflicts: u32,
    breaks: u32,
}

impl Tries {
    /// Whether it is worth another try: nothing has happened, and what was in the way may be gone.
    pub(crate) fn again(&mut self, error: &Error) -> bool {
        let (count, most) = match error.kind() {
            ErrorKind::Contention => (&mut self.conflicts, TRIES),
            // A connection that broke before anything was committed. Any number of the pool may have.
            ErrorKind::Unavailable if error.retry() == Retry::Later => (&mut self.breaks, 3),
            _ => return false,
        };
        *count += 1;
        let again = *count < most;
        if again {
            tracing::debug!(%error, "the call is repeated");
        }
        again
    }

    pub(crate) async fn pause(&self) {
        sleep(PAUSE.saturating_mul(1 << self.conflicts.min(10)).min(PAUSE_MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_tried_again_and_not_for_ever() {
        let conflict = Error::new(ErrorKind::Contention, "x").with_code("112");
        let mut tries = Tries::default();
        assert_eq!((0..100).filter(|_| tries.again(&conflict)).count(), TRIES as usize - 1);
        let unknown = Error::new(ErrorKind::Unavailable, "x").with_retry(Retry::Unknown);
        assert!(!tries.again(&unknown), "it may have been committed");
        assert!(!tries.again(&Error::new(ErrorKind::Schema, "x")));
    }
}
