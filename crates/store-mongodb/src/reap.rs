//! Returning expired leases, and burying what has no attempts left.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::Stale;
use pillarbox_core::port::{Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{CRASHES_IN_COMPANY, Error, ErrorKind, Failure, NO_LANE, Result, Timestamp};

use crate::call::{Link, Reading, Traffic, UnitOfWork};
use crate::change::audit;
use crate::command::{Change, Find, aggregate, insert, is_spent, stamp_of, stamps, update};
use crate::lanes;
use crate::row::{Cells, number, number_of, text};
use crate::store::MongoStore;
use crate::tables::{OPEN, SEQ, Tables};

/// What a reap looks at of an entry.
const READ: [&str; 12] = [
    "seq",
    "event_id",
    "route",
    "type",
    "attempts",
    "crashes",
    "max_attempts",
    "status",
    "last_error",
    "fence",
    "lane",
    "due_at",
];

impl MongoStore {
    /// Rows, and sessions of lanes: a relay of either kind returns what the other kind left.
    pub(crate) async fn reap_leases(&self, request: ReapRequest) -> Result<Reaped> {
        let sessions = lanes::reap(self, &request).await?;
        Ok(reap_rows(self, &request).await?.with_sessions(sessions))
    }

    /// The routes that have something live.
    async fn live_routes(&self) -> Result<Vec<String>> {
        let pipeline =
            vec![doc! { "$match": { "settled_at": Bson::Null } }, doc! { "$group": { "_id": "$route" } }];
        let mut command = aggregate(&self.tables.outbox, pipeline);
        command.insert("hint", self.tables.index(OPEN));
        let rows = self.rows(Traffic::Relay, command, Reading::Newest).await?;
        Ok(rows.iter().map(|row| text(row, "_id").to_owned()).collect())
    }
}

pub(crate) async fn reap_rows(store: &MongoStore, request: &ReapRequest) -> Result<Reaped> {
    request.check()?;
    let mut reap = Reap { tables: &store.tables, request, routes: vec![], only: None };
    reap.routes = match &request.route {
        Some(route) => vec![route.to_string()],
        None => store.live_routes().await?,
    };
    // Nearly always there is nothing to do; a look needs no transaction.
    let mut link = store.link(Traffic::Relay);
    let now = link.now_or(request.now).await?;
    let found = reap.stale(now, &mut link).await?;
    let suspects = match &request.route {
        Some(route) => has_suspects(store, route.as_str(), request.steps).await?,
        None => false,
    };
    if found.is_empty() || request.effect == Effect::DryRun {
        let stale = found.iter().filter(|found| found.stale.leased).count() as u64;
        return Ok(Reaped { stale, suspects, ..Reaped::default() });
    }
    let stale = match store.together(Traffic::Relay, &reap).await {
        // A relay that was killed leaves its transaction open until the server ends it. The entries in it have to wait
        // that long, and no others.
        Err(error) if error.kind() == ErrorKind::Contention => one_by_one(store, reap, &found).await?,
        answer => answer?,
    };
    let mut reaped = Reaped::of_rows(stale);
    reaped.suspects = suspects || reaped.released > 0;
    Ok(reaped)
}

/// Reaps entries each in a transaction of its own, and leaves alone what another transaction has.
async fn one_by_one(store: &MongoStore, mut reap: Reap<'_>, found: &[Found]) -> Result<Vec<Stale>> {
    let mut reaped = Vec::new();
    for one in found {
        reap.only = Some(one.stale.seq);
        match store.attempt(Traffic::Relay, &reap).await {
            Err(error) if error.kind() == ErrorKind::Contention => {}
            answer => reaped.extend(answer?),
        }
    }
    Ok(reaped)
}

/// Whether entries of a route came back from an expired lease and wait for a relay by rows.
async fn has_suspects(store: &MongoStore, route: &str, steps: Steps) -> Result<bool> {
    let mut filter = doc! { "status": "retrying", "route": route, "due_at": Bson::Null, "settled_at": Bson::Null,
    "crashes": { "$gt": 0 } };
    leave_steps(&mut filter, steps);
    let suspects =
        Find::new(&store.tables.outbox, filter).limit(1).fields(&["seq"]).hint(store.tables.index(OPEN));
    if store.find(Traffic::Relay, suspects).await?.is_empty() {
        return Ok(false);
    }
    let look = crate::claim::route_look(&store.tables, route);
    let route = store.rows(Traffic::Relay, look, Reading::Newest).await?;
    Ok(route.first().is_none_or(|found| {
        number(found, "sessions") == 0 && found.get("paused_at").and_then(number_of).is_none()
    }))
}

fn leave_steps(filter: &mut Document, steps: Steps) {
    if steps == Steps::Leave {
        filter.insert("lane", doc! { "$ne": i32::from(NO_LANE) });
    }
}

struct Reap<'a> {
    tables: &'a Tables,
    request: &'a ReapRequest,
    routes: Vec<String>,
    /// If set, the one entry to look at.
    only: Option<i64>,
}

/// An entry that a reap is about, and what it is known by until it is written.
struct Found {
    stale: Stale,
    fence: i64,
    status: String,
    lane: i64,
    crashes: i64,
}

impl Reap<'_> {
    /// What a reap finds: what is due by time, what is due at once but stuck, and if asked what was leased before the clock
    /// was set back.
    async fn stale(&self, now: Timestamp, link: &mut Link<'_>) -> Result<Vec<Found>> {
        let (request, at) = (self.request, now.as_micros());
        let mut found: Vec<Found> = Vec::new();
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        for route in &self.routes {
            let due = || Bson::from(doc! { "$lte": at });
            let mut arms = vec![
                (doc! { "status": "in_flight" }, due()),
                (doc! { "status": "in_flight" }, Bson::Null),
                // What is pending has spent none, and may be the whole backlog.
                (spent(request.max_attempts), due()),
                (spent(request.max_attempts), Bson::Null),
            ];
            if request.leases == Leases::Impossible {
                let begins = doc! { "$subtract": ["$leased_at", at] };
                let lasts = doc! { "$subtract": ["$due_at", "$leased_at"] };
                let impossible = doc! { "$expr": { "$gt": [begins, lasts] } };
                let mut filter = doc! { "status": "in_flight", "leased_at": { "$ne": Bson::Null } };
                filter.extend(impossible);
                arms.push((filter, doc! { "$gt": at }.into()));
            }
            for (mut filter, due) in arms {
                let left = limit.saturating_sub(found.len());
                if left == 0 {
                    return Ok(found);
                }
                filter.extend(doc! { "route": route, "due_at": due, "settled_at": Bson::Null });
                leave_steps(&mut filter, request.steps);
                if let Some(seq) = self.only {
                    filter.insert("seq", stamp_of(seq));
                }
                let find = Find::new(&self.tables.outbox, filter)
                    .sort(doc! { "due_at": 1, "priority": 1, "seq": 1 })
                    .limit(i64::try_from(left).unwrap_or(i64::MAX))
                    .fields(&READ)
                    .hint(self.tables.index(OPEN));
                for document in link.find(find).await? {
                    found.push(self.read(&document)?);
                }
            }
        }
        Ok(found)
    }

    fn read(&self, document: &Document) -> Result<Found> {
        let (attempts, crashes) = (number(document, "attempts"), number(document, "crashes"));
        let status = text(document, "status").to_owned();
        let leased = status == "in_flight";
        // With the lease that is over now, if it had one.
        let counted = attempts - (crashes + i64::from(leased)).min(CRASHES_IN_COMPANY.into());
        let own = document.get("max_attempts").and_then(number_of);
        let allowed = own.or(self.request.max_attempts.map(i64::from));
        let spent = allowed.is_some_and(|allowed| counted >= allowed);
        // Spent without a lease: what its last attempt said is the reason, not a lease.
        let error = match document.get("last_error") {
            Some(Bson::String(error)) if !leased => error.clone(),
            _ => Failure::lease_expired().to_string(),
        };
        let value = |name: &str| document.get(name).cloned().unwrap_or(Bson::Null);
        let mut row = Cells::values(vec![
            value("seq"),
            value("event_id"),
            value("route"),
            value("type"),
            attempts.into(),
            leased.into(),
            spent.into(),
            error.into(),
        ]);
        let (fence, lane) = (number(document, "fence"), number(document, "lane"));
        Ok(Found { stale: Stale::read(&mut row)?, fence, status, lane, crashes })
    }
}

/// Entries that were tried before and have no attempts left.
fn spent(max_attempts: Option<u32>) -> Document {
    let mut filter = doc! { "status": "retrying" };
    filter.extend(is_spent(max_attempts));
    filter
}

#[async_trait]
impl UnitOfWork for Reap<'_> {
    type Outcome = Vec<Stale>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Vec<Stale>> {
        let now = tx.now_or(self.request.now).await?;
        let (tables, at) = (self.tables, now.as_micros());
        let found = self.stale(now, tx).await?;
        let (mut records, mut changes) = (Vec::new(), Vec::new());
        let mut revised = BTreeMap::new();
        for one in &found {
            let stale = &one.stale;
            let mut set = doc! {
                "status": if stale.spent { "dead" } else { "retrying" },
                "crashes": one.crashes + i64::from(stale.leased),
                "last_error": &stale.error,
            };
            if stale.spent {
                set.insert("settled_at", at);
                let mut record = audit(at, "dead", &self.request.owner);
                record.insert("route", stale.death.route.as_str());
                record.insert("event_id", crate::command::event(stale.death.event_id));
                record.insert("detail", &stale.error);
                records.push(record);
            }
            let filter =
                doc! { "seq": { "$in": stamps([stale.seq]) }, "fence": one.fence, "status": &one.status };
            let unset = doc! { "due_at": "", "owner": "", "claim": "" };
            let change = Change::all(filter, doc! { "$set": set, "$unset": unset });
            changes.push(change.hint(tables.index(SEQ)));
            // Should the route be read by lanes: these entries were not theirs until now.
            revised.insert((stale.death.route.to_string(), one.lane), ());
        }
        // The audit record comes before the status that it explains.
        if !records.is_empty() {
            tx.write(insert(&tables.audit, records)).await?;
        }
        if !changes.is_empty() {
            let wanted = changes.len() as u64;
            if tx.write(update(&tables.outbox, changes)).await?.found != wanted {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "an entry changed while it was reaped; try again",
                ));
            }
            if let Some(revise) = lanes::revise(tables, &revised.into_keys().collect()) {
                tx.write(revise).await?;
            }
        }
        Ok(found.into_iter().map(|found| found.stale).collect())
    }
}
