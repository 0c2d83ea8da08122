//! The application's side: staging events in its own transaction.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::SchemaState;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Error, ErrorKind, Event, EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::Staging;

use crate::batch::{check_size, document, parts};
use crate::call::{Link, clock};
use crate::command::{Change, Find, event, insert, update};
use crate::commit::{Tx, commit};
use crate::connect;
use crate::error::{DUPLICATE, Phase};
use crate::options::Options;
use crate::row::Cells;
use crate::store::MongoStore;
use crate::tables::{EVENT, Tables};
use crate::transaction::{Patience, check_open, wall_clock};

/// Stages events of one route inside the application's own transaction. Cheap to clone: one for each route
/// and process is enough.
///
/// The events become durable when that transaction commits, and a rollback removes them. The transaction is that of the
/// driver's session: begin it with `start_transaction` before staging.
///
/// If a call fails, MongoDB ends the whole transaction. Return the error, and run the transaction again from its
/// beginning if the error's [`Retry`](pillarbox_core::Retry) says that it may help.
#[derive(Clone)]
pub struct Outbox {
    pub(crate) staging: Staging,
    pub(crate) options: Options,
    pub(crate) tables: Arc<Tables>,
}

/// Where collections are known to be: the name of the database, and the prefix.
static MIGRATED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

impl MongoStore {
    /// The outbox of this route in the same collections. It stages in any transaction of this database.
    pub fn outbox(&self, route: impl Into<String>) -> Outbox {
        let tables = Arc::clone(&self.tables);
        Outbox { staging: Staging::new(route), options: self.named_options(), tables }
    }
}

impl Outbox {
    /// The outbox of this route, with default settings. If the route breaks a rule, staging refuses it.
    #[must_use]
    pub fn new(route: impl Into<String>) -> Self {
        let options = Options::default();
        Self { staging: Staging::new(route), tables: Arc::new(Tables::new(&options)), options }
    }

    /// Sets which collections to write to. Default: those of [`Options::default`], in the database that the URL of the
    /// session's client names.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.tables = Arc::new(Tables::new(&options));
        self.options = options;
        self
    }

    /// Stages one event.
    ///
    /// # Errors
    /// When the route or the event breaks a rule, when its document would be larger than MongoDB allows, or when the
    /// session has no transaction, before anything is written. Also any error of the database.
    pub async fn stage(&self, tx: &mut Tx<'_>, event: Event) -> Result<Staged> {
        let staged = self.stage_all(tx, [event]).await?;
        staged.into_iter().next().ok_or_else(|| Error::invalid("nothing was staged"))
    }

    /// Stages any number of events. The outcomes are in the order of the events.
    ///
    /// # Errors
    /// As for [`stage`](Self::stage).
    pub async fn stage_all(
        &self,
        tx: &mut Tx<'_>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Staged>> {
        let entries = self.staging.entries(events)?;
        entries.iter().try_for_each(check_size)?;
        check_open(tx).await?;
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        self.check_migrated(tx).await?;
        let mut link = self.link(tx)?;
        insert_all(&mut link, &self.tables, entries).await
    }

    /// Refuses to stage where nobody has migrated: MongoDB would make a collection without indexes. Looked up once.
    async fn check_migrated(&self, tx: &ClientSession) -> Result<()> {
        let database = connect::database(&tx.client(), &self.options)?;
        let place = (database.name().to_owned(), self.tables.prefix.clone());
        if MIGRATED.lock().is_ok_and(|known| known.contains(&place)) {
            return Ok(());
        }
        let find = Find::new(&self.tables.schema, Document::new()).limit(1).fields(&["_id"]);
        if Link::alone(database, self.options.statement_timeout).find(find).await?.is_empty() {
            SchemaState::Missing.check()?;
        }
        if let Ok(mut known) = MIGRATED.lock() {
            known.insert(place);
        }
        Ok(())
    }

    /// Locks this key until the transaction ends. Another transaction that calls this for the same route and
    /// key waits until then, so that the events of both have an order. Without this call, two transactions
    /// that stage one key at the same time are unordered.
    ///
    /// Call it as the first command of a transaction, on a session that was not used before. MongoDB cannot wait later: a
    /// transaction sees the data of its beginning, so it fails at once with
    /// [`Contention`](pillarbox_core::ErrorKind::Contention) if another one has locked the key meanwhile.
    ///
    /// # Errors
    /// When the route or the key breaks a rule, or when the lock is not free within the lock timeout.
    pub async fn serialize(&self, tx: &mut Tx<'_>, key: &str) -> Result<()> {
        let route = self.staging.route()?;
        check_name("key", key)?;
        check_open(tx).await?;
        let id = doc! { "route": route.as_str(), "key": key };
        let lock = update(
            &self.tables.serial,
            [Change::upsert(doc! { "_id": id }, doc! { "$inc": { "locked": 1_i64 } })],
        );
        let mut patience = Patience::of(tx, self.options.lock_timeout);
        loop {
            match self.link(tx)?.write(lock.clone()).await {
                Err(error) if patience.again(&error) => patience.begin_again(tx).await?,
                answer => return answer.map(drop),
            }
        }
    }

    /// Commits the transaction, then wakes the relay of this process if there is one.
    ///
    /// `Ok` means that a majority of the nodes has committed the transaction, if its write concern says so, as the default
    /// does. A commit whose answer was lost is sent again; MongoDB commits it once.
    ///
    /// # Errors
    /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when the transaction had already ended. Also any error
    /// of the database. [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the commit may have
    /// happened.
    pub async fn commit(&self, tx: Tx<'_>) -> Result<()> {
        commit(tx).await?;
        self.staging.committed();
        Ok(())
    }

    /// The document that stages this event with any other driver: insert it in a transaction of that driver.
    ///
    /// # Errors
    /// When the route or the event breaks a rule, or when it has a delay, which needs the server's clock.
    pub fn document(&self, event: Event) -> Result<Document> {
        if event.delay.is_some() {
            return Err(Error::invalid("a document cannot have a delay; stage the event with the outbox"));
        }
        let entry = self.staging.entry(&self.staging.route()?, event)?;
        check_size(&entry)?;
        Ok(document(entry, wall_clock(), None))
    }

    /// The way to the collections in the application's transaction.
    pub(crate) fn link<'t>(&self, tx: &'t mut ClientSession) -> Result<Link<'t>> {
        let database = connect::database(&tx.client(), &self.options)?;
        Ok(Link::inside(database, tx, Phase::Application))
    }
}

/// Inserts entries of one or several routes, and says which are new.
pub(crate) async fn insert_all(
    link: &mut Link<'_>,
    tables: &Tables,
    entries: Vec<NewEntry>,
) -> Result<Vec<Staged>> {
    let ids: Vec<EventId> = entries.iter().map(|entry| entry.event_id).collect();
    let mut known = known(link, tables, &entries).await?;
    // The first one of an id counts.
    let fresh: Vec<NewEntry> =
        entries.into_iter().filter(|entry| known.insert((entry.route.to_string(), entry.event_id))).collect();
    let now = match fresh.iter().any(|entry| entry.delay_micros().is_some()) {
        true => Some(clock(&link.database, Phase::Application).await?),
        false => None,
    };
    let told: HashSet<EventId> = fresh.iter().map(|entry| entry.event_id).collect();
    let created = wall_clock();
    for part in parts(&fresh) {
        let documents = part.iter().map(|entry| document(entry.clone(), created, now)).collect();
        link.write(insert(&tables.outbox, documents))
            .await
            .map_err(|error| if error.code() == Some(&DUPLICATE.to_string()) { raced() } else { error })?;
    }
    Ok(Staged::tell(ids, told))
}

/// Which of the entries are there already. Only an id that the application has chosen can be: MongoDB ends a transaction
/// that inserts a duplicate.
async fn known(
    link: &mut Link<'_>,
    tables: &Tables,
    entries: &[NewEntry],
) -> Result<BTreeSet<(String, EventId)>> {
    let chosen = entries.iter().filter(|entry| entry.event.id.is_some());
    let ids: Vec<Bson> = chosen.map(|entry| Bson::Binary(event(entry.event_id))).collect();
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let routes: BTreeSet<&str> = entries.iter().map(|entry| entry.route.as_str()).collect();
    let routes: Vec<&str> = routes.into_iter().collect();
    let filter = doc! { "event_id": { "$in": ids }, "route": { "$in": routes } };
    let find = Find::new(&tables.outbox, filter).fields(&["route", "event_id"]).hint(tables.index(EVENT));
    let mut known = BTreeSet::new();
    for document in link.find(find).await? {
        let mut row = Cells::of(&document, &["route", "event_id"]);
        let (route, id) = (row.text()?, row.event_id()?);
        known.extend(id.map(|id| (route, id)));
    }
    Ok(known)
}

fn raced() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another transaction has just staged an event of the same id; run this one again from its beginning",
    )
    .with_code(DUPLICATE.to_string())
}
