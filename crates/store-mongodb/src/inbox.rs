//! The other side: applying an event once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, ClientSession};
use pillarbox_core::port::shared::AcceptPlan;
use pillarbox_core::port::{self, AcceptBatch, AcceptRequest, Accepted, Origin, Position, Transactions};
use pillarbox_core::{ErrorKind, EventId, Fence, Result};

use crate::call::Link;
use crate::command::{Change, Find, event, literal, update};
use crate::commit::{Tx, abort, commit};
use crate::connect;
use crate::error::Phase;
use crate::options::Options;
use crate::row::{number, text};
use crate::store::MongoStore;
use crate::tables::Tables;
use crate::transaction::{Patience, begin_on, check_open};

/// Marks events as seen, in the transaction of the handler's own write. Cheap to clone.
///
/// A consumer takes its transactions from the inbox's client. [`accept`](Self::accept) also works in a transaction that the
/// application began elsewhere.
///
/// ```
/// # use std::sync::Arc;
/// # use mongodb::bson::doc;
/// # use pillarbox_core::{Result, port::Source};
/// # use pillarbox_engine::Consumer;
/// # use pillarbox_store_mongodb::{MongoStore, Options};
/// # async fn example(source: Arc<dyn Source>) -> Result<()> {
/// let store = MongoStore::connect("mongodb://localhost/shop?replicaSet=rs0", Options::default()).await?;
/// let invoices = store.database().collection("invoices");
/// let consumer = Consumer::builder(source, Arc::new(store.inbox())).name("billing").build()?;
/// # let shutdown = std::future::pending();
/// consumer
///     .run(shutdown, async |tx, event| {
///         invoices.insert_one(doc! { "order": event.key }).session(&mut *tx).await?;
///         Ok(())
///     })
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Inbox {
    client: Client,
    options: Options,
    tables: Arc<Tables>,
}

impl MongoStore {
    /// The inbox in the same database, for a consumer. Its transactions begin on [`client`](Self::client).
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        let (client, tables) = (self.client().clone(), Arc::clone(&self.tables));
        Inbox { client, options: self.named_options(), tables }
    }
}

impl Inbox {
    /// The inbox in the collections that these settings name.
    #[must_use]
    pub fn new(client: Client, options: &Options) -> Self {
        Self { client, options: options.clone(), tables: Arc::new(Tables::new(options)) }
    }

    /// Marks the event for this consumer. The handler may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends, at most for the lock timeout, if it is the first command
    /// of a new session, as in a consumer. Otherwise it fails with
    /// [`Contention`](pillarbox_core::ErrorKind::Contention), and its transaction has to be run again.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule, or when the session has no transaction, before anything is written. Also
    /// any error of the database.
    pub async fn accept(&self, tx: &mut Tx<'_>, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        check_open(tx).await?;
        let mut patience = Patience::of(tx, self.options.lock_timeout);
        loop {
            match self.accept_once(tx, &request).await {
                Err(error) if patience.again(&error) => patience.begin_again(tx).await?,
                answer => return answer,
            }
        }
    }

    /// Marks several events for one consumer. The outcomes stand in the order of the events. They are the same as with
    /// [`accept`](Self::accept) for each of them.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule or the batch has too many events, before anything is written. Also any
    /// error of the database.
    pub async fn accept_all(&self, tx: &mut Tx<'_>, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        batch.check()?;
        check_open(tx).await?;
        if batch.events.is_empty() {
            return Ok(Vec::new());
        }
        let mut patience = Patience::of(tx, self.options.lock_timeout);
        loop {
            match self.accept_all_once(tx, &batch).await {
                Err(error) if patience.again(&error) => patience.begin_again(tx).await?,
                answer => return answer,
            }
        }
    }

    async fn accept_all_once(&self, tx: &mut ClientSession, batch: &AcceptBatch) -> Result<Vec<Accepted>> {
        let lanes = AcceptPlan::lanes(batch);
        let known = match lanes.is_empty() {
            true => Vec::new(),
            false => self.known(self.link(tx)?, &batch.consumer, &lanes).await?,
        };
        let plan = AcceptPlan::new(batch, known);
        let stale: Vec<Document> = plan.stale().into_iter().map(|id| mark_id(&batch.consumer, id)).collect();
        let mut seen = BTreeSet::new();
        if !stale.is_empty() {
            let find = Find::new(&self.tables.inbox, doc! { "_id": { "$in": stale } }).fields(&["_id"]);
            let found = self.link(tx)?.find(find).await?;
            let found: Vec<&Document> =
                found.iter().filter_map(|found| found.get_document("_id").ok()).collect();
            let is_seen = |id: &EventId| found.contains(&&mark_id(&batch.consumer, *id));
            seen.extend(plan.stale().into_iter().filter(is_seen));
        }
        let at = self.apart(tx)?.now_or(batch.now).await?.as_micros();
        for newer in plan.newer() {
            self.remember(tx, &batch.consumer, &newer.origin, at).await?;
        }
        let fresh: Vec<EventId> = plan.to_mark().into_iter().filter(|id| !seen.contains(id)).collect();
        if !fresh.is_empty() {
            let made = doc! { "$setOnInsert": { "accepted_at": at } };
            let marks = fresh
                .iter()
                .map(|id| Change::upsert(doc! { "_id": mark_id(&batch.consumer, *id) }, made.clone()));
            let made = self.link(tx)?.write_each(update(&self.tables.inbox, marks)).await?;
            let is_old = |nth: &usize| !made.contains(nth);
            seen.extend((0..fresh.len()).filter(is_old).map(|nth| fresh[nth]));
        }
        Ok(plan.outcomes(&seen))
    }

    /// Remembers a newer owner, unless another transaction is about to: nobody waits for the end of somebody else's
    /// handler.
    async fn remember(&self, tx: &mut ClientSession, consumer: &str, origin: &Origin, at: i64) -> Result<()> {
        let raise = raise(&self.tables, consumer, origin, at);
        if self.is_own(tx, consumer, &origin.lane).await? || self.is_free(tx, &raise).await? {
            self.link(tx)?.write(raise).await?;
        }
        Ok(())
    }

    /// Whether this transaction itself has remembered the owner of a lane that it sees: others see an earlier one.
    async fn is_own(&self, tx: &mut ClientSession, consumer: &str, lane: &str) -> Result<bool> {
        let Some(seen) = self.known(self.link(tx)?, consumer, &[lane]).await?.pop() else {
            return Ok(false);
        };
        let by_others = self.known(self.apart(tx)?, consumer, &[lane]).await?.pop();
        Ok(seen.is_newer(by_others.as_ref()))
    }

    async fn accept_once(&self, tx: &mut ClientSession, request: &AcceptRequest) -> Result<Accepted> {
        let own = request.origin.as_ref();
        let known = match own {
            Some(own) => self.known(self.link(tx)?, &request.consumer, &[&own.lane]).await?.pop(),
            None => None,
        };
        if own.zip(known.as_ref()).is_some_and(|(own, newest)| own.is_stale(newest)) {
            let find = Find::new(&self.tables.inbox, mark(request)).fields(&["_id"]);
            let marked = self.link(tx)?.find(find).await?;
            return Ok(if marked.is_empty() { Accepted::Stale } else { Accepted::Duplicate });
        }
        let at = self.apart(tx)?.now_or(request.now).await?.as_micros();
        // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
        if let Some(origin) = own.filter(|own| own.is_newer(known.as_ref())) {
            self.remember(tx, &request.consumer, origin, at).await?;
        }
        let made = doc! { "$setOnInsert": { "accepted_at": at } };
        let mark = update(&self.tables.inbox, [Change::upsert(mark(request), made)]);
        let marked = self.link(tx)?.write(mark).await?;
        Ok(if marked.made > 0 { Accepted::Fresh } else { Accepted::Duplicate })
    }

    /// The newest owners that were seen of these lanes.
    async fn known(&self, mut link: Link<'_>, consumer: &str, lanes: &[&str]) -> Result<Vec<Origin>> {
        let owners: Vec<Document> = lanes.iter().map(|lane| owner_id(consumer, lane)).collect();
        let find = Find::new(&self.tables.inbox_fence, doc! { "_id": { "$in": owners } });
        let found = link.find(find).await?;
        let known = |found: &Document| {
            let position =
                Position { stream: text(found, "stream").to_owned(), offset: number(found, "position") };
            let lane = found.get_document("_id").map_or("", |id| text(id, "lane")).to_owned();
            Origin { lane, fence: Fence(number(found, "fence")), position }
        };
        Ok(found.iter().map(known).collect())
    }

    /// Whether no other transaction has written what this write is about: tried in one that is rolled back.
    async fn is_free(&self, tx: &ClientSession, write: &Document) -> Result<bool> {
        let mut probe = begin_on(&tx.client()).await?;
        let written = self.link(&mut probe)?.write(write.clone()).await;
        abort(&mut probe).await;
        match written {
            Err(error) if error.kind() == ErrorKind::Contention => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    fn link<'t>(&self, tx: &'t mut ClientSession) -> Result<Link<'t>> {
        let database = connect::database(&tx.client(), &self.options)?;
        Ok(Link::inside(database, tx, Phase::Application))
    }

    /// A way beside the transaction.
    fn apart(&self, tx: &ClientSession) -> Result<Link<'static>> {
        let database = connect::database(&tx.client(), &self.options)?;
        Ok(Link::alone(database, self.options.statement_timeout))
    }
}

/// Remembers a newer owner, never an earlier one.
fn raise(tables: &Tables, consumer: &str, own: &Origin, at: i64) -> Document {
    let is_newer = doc! { "$gt": [own.fence.0, { "$ifNull": ["$fence", -1_i64] }] };
    let newer = |value: Bson, name: &str| doc! { "$cond": [is_newer.clone(), value, format!("${name}")] };
    let set = doc! {
        "stream": newer(literal(own.position.stream.as_str()), "stream"),
        "position": newer(own.position.offset.into(), "position"),
        "seen_at": newer(at.into(), "seen_at"),
        "fence": newer(own.fence.0.into(), "fence"),
    };
    update(
        &tables.inbox_fence,
        [Change::upsert(doc! { "_id": owner_id(consumer, &own.lane) }, vec![doc! { "$set": set }])],
    )
}

/// The mark of an event.
fn mark(request: &AcceptRequest) -> Document {
    doc! { "_id": mark_id(&request.consumer, request.event_id) }
}

fn mark_id(consumer: &str, event_id: EventId) -> Document {
    doc! { "consumer": consumer, "event_id": event(event_id) }
}

/// The newest owner of a lane.
fn owner_id(consumer: &str, lane: &str) -> Document {
    doc! { "consumer": consumer, "lane": lane }
}

#[async_trait]
impl port::Inbox<ClientSession> for Inbox {
    async fn accept(&self, tx: &mut ClientSession, request: AcceptRequest) -> Result<Accepted> {
        Inbox::accept(self, tx, request).await
    }

    async fn accept_all(&self, tx: &mut ClientSession, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        Inbox::accept_all(self, tx, batch).await
    }
}

#[async_trait]
impl Transactions for Inbox {
    type Tx = Tx<'static>;

    async fn begin(&self) -> Result<Self::Tx> {
        begin_on(&self.client).await
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        commit(tx).await
    }

    async fn rollback(&self, mut tx: Self::Tx) -> Result<()> {
        abort(&mut tx).await;
        Ok(())
    }
}

// Nothing of the client: its options have passwords.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("prefix", &self.tables.prefix).finish_non_exhaustive()
    }
}
