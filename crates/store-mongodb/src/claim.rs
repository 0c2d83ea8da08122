//! Taking entries under a lease, and keeping them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use futures_util::future::try_join;
use mongodb::bson::{Bson, Document, doc};
pub(crate) use pillarbox_core::port::shared::micros;
use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, Company, ExtendRequest, Extended, Purging, ReapRequest, Reaped,
    SettleRequest, Settled, Steps, Store,
};
use pillarbox_core::{
    COMPANY_MAX, Error, ErrorKind, Fence, Held, NO_LANE, Result, RouteName, Timestamp, company,
};
use uuid::Uuid;

use crate::adopt::plain;
use crate::call::{Link, Reading, Traffic, UnitOfWork};
use crate::command::{
    Change, Find, aggregate, binary, has_attempts, later, literal, may_be_tried, next_fence, now, stamps,
    update,
};
use crate::lanes;
use crate::row::{decode, number, number_of, text};
use crate::store::MongoStore;
use crate::tables::{CAUSAL, OPEN, SEQ, Tables};

/// How long the marks of a claim may wait for transactions of others, in milliseconds.
const PATIENCE_MS: i64 = 1000;
/// How often a claim looks again because others took what it found.
const TRIES: u32 = 100;

#[async_trait]
impl Store for MongoStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        if request.limit == 0 {
            return Ok(Claim::default());
        }
        for _ in 0..TRIES {
            if let Taken::Claim(claim) = self.claim_once(&request).await? {
                return Ok(claim);
            }
        }
        let text = "other relays were faster with every entry that was found; the next claim tries again";
        Err(Error::new(ErrorKind::Contention, text))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        request.check()?;
        if request.held.is_empty() {
            return Ok(Extended::default());
        }
        let at = now(request.now);
        let set = doc! { "due_at": later(&at, micros(request.lease)), "leased_at": at };
        let changes = held_changes(request.held.iter().copied(), &self.tables, &[doc! { "$set": set }]);
        let done = self.execute(update(&self.tables.outbox, changes)).await?;
        if done.found == request.held.len() as u64 {
            return Ok(Extended::default());
        }
        let kept =
            still_held(&mut self.link(Traffic::Relay), &self.tables, request.held.iter().copied()).await?;
        Ok(Extended { fenced: request.held.into_iter().filter(|held| !kept.contains_key(held)).collect() })
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        self.settle_batch(request).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.reap_leases(request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.count_open_sagas(route).await
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging::of(self))
    }
}

enum Taken {
    Claim(Claim),
    /// Other relays were faster with everything that was found.
    Lost,
}

/// What may be claimed, as little of it as a choice needs.
struct Candidate {
    seq: i64,
    priority: i64,
    hlc: i64,
    created_at: i64,
    crashes: u32,
}

/// The fields of a [`Candidate`].
const CHOICE: [&str; 5] = ["seq", "priority", "hlc", "created_at", "crashes"];

impl Candidate {
    fn read(document: &Document) -> Self {
        Self {
            seq: number(document, "seq"),
            priority: number(document, "priority"),
            hlc: document.get("hlc").and_then(number_of).unwrap_or(i64::MAX),
            created_at: number(document, "created_at"),
            crashes: u32::try_from(number(document, "crashes")).unwrap_or(0),
        }
    }
}

/// How a route is at the beginning of a claim.
struct Route {
    is_open: bool,
    now: Timestamp,
}

impl MongoStore {
    async fn claim_once(&self, request: &ClaimRequest) -> Result<Taken> {
        let Some(route) = self.route(request).await? else {
            self.make_route(&request.route).await?;
            return Ok(Taken::Lost);
        };
        if !route.is_open {
            return Ok(Taken::Claim(Claim::default()));
        }
        let at = request.now.unwrap_or(route.now);
        if let Company::Suspects { beside } = request.company {
            return self.claim_suspects(request, beside, at).await;
        }
        let due = self.due(request, at).await?;
        if due.is_empty() {
            return Ok(Taken::Claim(Claim::default()));
        }
        self.take(request, due.iter().map(|found| found.seq).collect(), at).await
    }

    /// Whether relays by rows may claim on a route, and the server's time. Takes in what plain inserts have left.
    /// `None`: nothing stands for the route yet.
    async fn route(&self, request: &ClaimRequest) -> Result<Option<Route>> {
        let look = route_look(&self.tables, request.route.as_str());
        let found = self.rows(Traffic::Relay, look, Reading::Newest).await?;
        let Some(found) = found.first() else { return Ok(None) };
        if number(found, "plain") > 0 {
            self.adopt(Traffic::Relay).await?;
        }
        let is_paused = found.get("paused_at").and_then(number_of).is_some();
        let millis = number(found, "now");
        let now = Timestamp::from_micros(millis.saturating_mul(1000)).unwrap_or(Timestamp::MIN);
        Ok(Some(Route { is_open: !is_paused && number(found, "sessions") == 0, now }))
    }

    /// Makes the document that stands for a route.
    pub(crate) async fn make_route(&self, route: &RouteName) -> Result<()> {
        let make =
            Change::upsert(doc! { "_id": route.as_str() }, doc! { "$setOnInsert": { "turns": 0_i64 } });
        self.execute(update(&self.tables.route_state, [make])).await.map(drop)
    }

    /// Due entries, each arm in its order, and no more than the claim wants.
    async fn due(&self, request: &ClaimRequest, at: Timestamp) -> Result<Vec<Candidate>> {
        let limit = i64::from(request.limit);
        let half = (limit + 1) / 2;
        let arms = Arms { tables: &self.tables, request, at };
        let ask = async |find: Find| self.candidates(find).await;
        let ready = async {
            let mut found = Vec::new();
            for (fresh, again) in arms.ready(limit) {
                let (fresh, again) = try_join(ask(fresh), ask(again)).await?;
                found.extend(fresh.into_iter().chain(again));
            }
            Ok(found)
        };
        let (mut ready, mut timed) = try_join(ready, ask(arms.timed(half))).await?;
        let batch = usize::try_from(limit).unwrap_or(usize::MAX);
        // A full arm may not have told all, and there is room left.
        if timed.len() == usize::try_from(half).unwrap_or(usize::MAX) && ready.len() + timed.len() < batch {
            timed = ask(arms.timed(limit)).await?;
        }
        // Retries never starve fresh entries, of which the first arms have told.
        ready.sort_unstable_by_key(|found| match request.order {
            ClaimOrder::Staged => (found.priority, 0, found.seq),
            ClaimOrder::Causal => (found.hlc, found.created_at, found.seq),
        });
        ready.truncate(batch - timed.len().min(batch.div_ceil(2)));
        timed.truncate(batch - ready.len());
        ready.extend(timed);
        Ok(ready)
    }

    async fn candidates(&self, find: Find) -> Result<Vec<Candidate>> {
        let found = self.find(Traffic::Relay, find.fields(&CHOICE)).await?;
        Ok(found.iter().map(Candidate::read).collect())
    }

    /// The least accused among the first suspects, and as many as may be together.
    async fn claim_suspects(&self, request: &ClaimRequest, beside: u32, at: Timestamp) -> Result<Taken> {
        let find = Arms { tables: &self.tables, request, at }.suspects(COMPANY_MAX.into());
        let mut suspects = self.candidates(find).await?;
        let Some(crashes) = suspects.iter().map(|found| found.crashes).min() else {
            return Ok(Taken::Claim(Claim::default()));
        };
        let room = company(crashes).saturating_sub(beside).min(request.limit);
        if room == 0 {
            return Ok(Taken::Claim(Claim { suspects: Some(company(crashes)), ..Claim::default() }));
        }
        suspects.retain(|found| found.crashes == crashes);
        suspects.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        self.take(request, suspects.iter().map(|found| found.seq).collect(), at).await
    }

    /// Marks these entries with a token of this claim, as far as nobody else was faster, and reads what has it.
    async fn take(&self, request: &ClaimRequest, seqs: Vec<i64>, at: Timestamp) -> Result<Taken> {
        let token = Uuid::now_v7();
        let mut mark = mark(&self.tables, request, &seqs, at, token);
        mark.insert("maxTimeMS", PATIENCE_MS + i64::from(request.limit));
        match self.execute(mark).await {
            Ok(done) if done.found == 0 => return Ok(Taken::Lost),
            Ok(_) => {}
            // A transaction of somebody else holds one of them, and a write outside of one waits for it.
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.take_singly(request, &seqs, at, token).await?
            }
            Err(error) => return Err(error),
        }
        let mine = doc! { "seq": { "$in": stamps(seqs) }, "claim": binary(token) };
        let find = Find::new(&self.tables.outbox, mine.clone()).hint(self.tables.index(SEQ));
        // A relay by lanes that joined before the mark is seen here. One that joins later sees the mark.
        let (rows, readers) = try_join(
            self.find(Traffic::Relay, find),
            self.find(Traffic::Relay, readers(&self.tables, request.route.as_str())),
        )
        .await?;
        if !readers.is_empty() {
            self.untake(mine, &rows).await?;
            return Ok(Taken::Claim(Claim::default()));
        }
        Ok(Taken::Claim(Claim::of_rows(rows.into_iter().map(decode), request.order)))
    }

    /// Marks entry by entry what is not marked yet, and leaves out what a transaction of somebody else holds.
    async fn take_singly(
        &self,
        request: &ClaimRequest,
        seqs: &[i64],
        at: Timestamp,
        token: Uuid,
    ) -> Result<()> {
        for seq in seqs {
            let step = Single { mark: mark(&self.tables, request, &[*seq], at, token) };
            match self.attempt(Traffic::Relay, &step).await {
                Err(error) if error.kind() == ErrorKind::Contention => {}
                answer => answer?,
            }
        }
        Ok(())
    }

    /// Gives back what was marked while the route began to be read by lanes.
    async fn untake(&self, mut mine: Document, rows: &[Document]) -> Result<()> {
        mine.insert("status", "in_flight");
        let status = doc! { "$cond": [{ "$lte": ["$attempts", 1] }, "pending", "retrying"] };
        let attempts = doc! { "$max": [{ "$subtract": ["$attempts", 1] }, 0] };
        let back = vec![
            doc! { "$set": { "status": status, "attempts": attempts } },
            doc! { "$unset": ["due_at", "owner", "leased_at", "claim"] },
        ];
        let changes = [Change::all(mine, back).hint(self.tables.index(SEQ))];
        self.execute(update(&self.tables.outbox, changes)).await?;
        let revised = lanes::revised(rows);
        match lanes::revise(&self.tables, &revised) {
            Some(revise) => self.execute(revise).await.map(drop),
            None => Ok(()),
        }
    }
}

/// One mark in a transaction of its own: there a write fails at once where it would wait.
struct Single {
    mark: Document,
}

#[async_trait]
impl UnitOfWork for Single {
    type Outcome = ();

    async fn run(&self, tx: &mut Link<'_>) -> Result<()> {
        tx.write(self.mark.clone()).await.map(drop)
    }
}

/// Whether a route is paused, has a reader of lanes, or waits for plain documents to be taken in.
pub(crate) fn route_look(tables: &Tables, route: &str) -> Document {
    let one = |from: &str, filter: Document, name: &str| {
        let pipeline =
            vec![doc! { "$match": filter }, doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }];
        doc! { "$lookup": { "from": from, "pipeline": pipeline, "as": name } }
    };
    aggregate(
        &tables.route_state,
        vec![
            doc! { "$match": { "_id": route } },
            one(&tables.lane_session, doc! { "route": route }, "sessions"),
            one(&tables.outbox, plain(), "plain"),
            doc! { "$project": {
                "paused_at": 1, "sessions": { "$size": "$sessions" }, "plain": { "$size": "$plain" },
                "now": { "$toLong": "$$NOW" },
            } },
        ],
    )
}

fn readers(tables: &Tables, route: &str) -> Find {
    Find::new(&tables.lane_session, doc! { "route": route }).limit(1).fields(&["route"])
}

/// Where due entries are looked for: fresh entries, entries that were released or hastened, and entries whose time has
/// come. Each arm in the order of an index, so that nothing is sorted whatever the backlog is.
pub(crate) struct Arms<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) request: &'a ClaimRequest,
    pub(crate) at: Timestamp,
}

impl Arms<'_> {
    fn filter(&self, status: impl Into<Bson>, due: impl Into<Bson>) -> Document {
        let route = self.request.route.as_str();
        let mut filter =
            doc! { "status": status.into(), "route": route, "due_at": due.into(), "settled_at": Bson::Null };
        if self.request.steps == Steps::Leave {
            filter.insert("lane", doc! { "$ne": i32::from(NO_LANE) });
        }
        filter
    }

    fn arm(&self, filter: Document, index: &str, sort: Document, limit: i64) -> Find {
        Find::new(&self.tables.outbox, filter).sort(sort).limit(limit).hint(self.tables.index(index))
    }

    /// Pairs of fresh entries and of those that were in flight before. In causal order, those without a stamp come last.
    pub(crate) fn ready(&self, limit: i64) -> Vec<(Find, Find)> {
        let fresh = || self.filter("pending", Bson::Null);
        let again = || {
            let mut filter = self.filter("retrying", Bson::Null);
            filter.insert("crashes", 0);
            filter.extend(has_attempts(self.request.max_attempts));
            filter
        };
        match self.request.order {
            ClaimOrder::Staged => {
                let sort = || doc! { "priority": 1, "seq": 1 };
                vec![(self.arm(fresh(), OPEN, sort(), limit), self.arm(again(), OPEN, sort(), limit))]
            }
            ClaimOrder::Causal => [doc! { "$gte": 0 }.into(), Bson::Null]
                .map(|stamp: Bson| {
                    let stamped = |mut filter: Document| {
                        filter.insert("hlc", stamp.clone());
                        self.arm(filter, CAUSAL, doc! { "hlc": 1, "created_at": 1, "seq": 1 }, limit)
                    };
                    (stamped(fresh()), stamped(again()))
                })
                .into(),
        }
    }

    /// Entries whose time has come.
    pub(crate) fn timed(&self, limit: i64) -> Find {
        let due = doc! { "$lte": self.at.as_micros() };
        let mut filter = self.filter(doc! { "$in": ["pending", "retrying"] }, due);
        filter.extend(may_be_tried(self.request.max_attempts));
        self.arm(filter, OPEN, doc! { "due_at": 1, "priority": 1, "seq": 1 }, limit)
    }

    /// The first entries that came back from an expired lease.
    pub(crate) fn suspects(&self, limit: i64) -> Find {
        let mut filter = self.filter("retrying", Bson::Null);
        filter.insert("crashes", doc! { "$gt": 0 });
        filter.extend(has_attempts(self.request.max_attempts));
        self.arm(filter, OPEN, doc! { "seq": 1 }, limit)
    }
}

/// Takes entries under a lease, if they are still as they were found.
fn mark(tables: &Tables, request: &ClaimRequest, seqs: &[i64], at: Timestamp, token: Uuid) -> Document {
    let now = Bson::Int64(at.as_micros());
    let filter = doc! {
        "seq": { "$in": stamps(seqs.iter().copied()) },
        "status": { "$in": ["pending", "retrying"] },
        "$or": [{ "due_at": Bson::Null }, { "due_at": { "$lte": now.clone() } }],
    };
    let set = doc! {
        "status": "in_flight",
        "attempts": { "$add": ["$attempts", 1] },
        "fence": next_fence(&now),
        "owner": literal(request.owner.as_str()),
        "due_at": later(&now, micros(request.lease)),
        "leased_at": now.clone(),
        "last_attempt_at": now,
        "claim": literal(binary(token)),
    };
    update(&tables.outbox, [Change::all(filter, vec![doc! { "$set": set }]).hint(tables.index(SEQ))])
}

/// One change of all claims that are still held, a part for each fence.
pub(crate) fn held_changes(
    held: impl Iterator<Item = Held>,
    tables: &Tables,
    pipeline: &[Document],
) -> Vec<Change> {
    by_fence(held)
        .into_iter()
        .map(|(fence, seqs)| Change::all(held_filter(fence, seqs), pipeline.to_vec()).hint(tables.index(SEQ)))
        .collect()
}

/// The filter of claims with one fence.
pub(crate) fn held_filter(fence: Fence, seqs: Vec<i64>) -> Document {
    doc! { "seq": { "$in": stamps(seqs) }, "fence": fence.0, "status": "in_flight" }
}

/// Claims by their fences. All entries of one claim nearly always have the same.
pub(crate) fn by_fence(held: impl Iterator<Item = Held>) -> BTreeMap<Fence, Vec<i64>> {
    let mut fences: BTreeMap<Fence, Vec<i64>> = BTreeMap::new();
    for held in held {
        fences.entry(held.fence).or_default().push(held.seq);
    }
    fences
}

/// A claimed entry, as much of it as a verdict depends on.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) attempts: i64,
    pub(crate) crashes: i64,
    pub(crate) route: String,
    pub(crate) lane: i64,
    pub(crate) event_id: Bson,
}

/// The claims that are still held.
pub(crate) async fn still_held(
    link: &mut Link<'_>,
    tables: &Tables,
    claims: impl Iterator<Item = Held> + Send,
) -> Result<BTreeMap<Held, Claimed>> {
    let claims: BTreeSet<Held> = claims.collect();
    let seqs = stamps(claims.iter().map(|held| held.seq));
    let find = Find::new(&tables.outbox, doc! { "seq": { "$in": seqs }, "status": "in_flight" })
        .fields(&["seq", "fence", "attempts", "crashes", "route", "lane", "event_id"])
        .hint(tables.index(SEQ));
    let mut kept = BTreeMap::new();
    for document in link.find(find).await? {
        let held = Held { seq: number(&document, "seq"), fence: Fence(number(&document, "fence")) };
        if claims.contains(&held) {
            let claimed = Claimed {
                attempts: number(&document, "attempts"),
                crashes: number(&document, "crashes"),
                route: text(&document, "route").to_owned(),
                lane: number(&document, "lane"),
                event_id: document.get("event_id").cloned().unwrap_or(Bson::Null),
            };
            kept.insert(held, claimed);
        }
    }
    Ok(kept)
}
