//! Taking entries under a lease, and keeping them.

use std::collections::BTreeMap;

use async_trait::async_trait;
pub(crate) use pillarbox_core::port::shared::micros;
use pillarbox_core::port::shared::{Columns, Decoded, held};
use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, Company, ExtendRequest, Extended, Purging, ReapRequest, Reaped,
    SettleRequest, Settled, Steps, Store,
};
use pillarbox_core::{
    COMPANY_MAX, Error, ErrorKind, Fence, Held, Result, RouteName, Status, Timestamp, company,
};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::row::{COLUMNS, Cells, decode};
use crate::sql::{Bound, Statements};
use crate::store::MySqlStore;

#[async_trait]
impl Store for MySqlStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        if request.limit == 0 {
            return Ok(Claim::default());
        }
        let step = Take { statements: &self.statements, request: &request };
        match self.together(Traffic::Relay, &step).await? {
            Taken::Claim(claim) => Ok(claim),
            Taken::RouteUnknown => {
                let make = self.statements.route_make.with(Bind::new().bytes(request.route.as_str()))?;
                self.execute(&make).await?;
                match self.together(Traffic::Relay, &step).await? {
                    Taken::Claim(claim) => Ok(claim),
                    Taken::RouteUnknown => Ok(Claim::default()),
                }
            }
        }
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        request.check()?;
        if request.held.is_empty() {
            return Ok(Extended::default());
        }
        self.together(Traffic::Reserved, &Extend { statements: &self.statements, request: &request }).await
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

/// A claim: rows are locked and read, some are chosen, and these are taken.
struct Take<'a> {
    statements: &'a Statements,
    request: &'a ClaimRequest,
}

enum Taken {
    Claim(Claim),
    /// Nothing stands for the route yet that relays by rows and by lanes could lock.
    RouteUnknown,
}

#[async_trait]
impl UnitOfWork for Take<'_> {
    type Outcome = Taken;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Taken> {
        let route = Bind::new().bytes(self.request.route.as_str());
        let state = self.statements.claim_lock.with(route)?.rows(tx).await?;
        let Some(state) = state.first() else { return Ok(Taken::RouteUnknown) };
        if Cells::of(state).flag()? {
            return Ok(Taken::Claim(Claim::default()));
        }
        if let Company::Suspects { beside } = self.request.company {
            return self.suspects(beside, tx).await.map(Taken::Claim);
        }
        let due = self.due(tx).await?;
        self.take(due, tx).await.map(Taken::Claim)
    }

    fn stands(&self, outcome: &Taken) -> bool {
        matches!(outcome, Taken::Claim(claim) if !claim.entries.is_empty() || !claim.undecodable.is_empty())
    }
}

/// A locked row, and the time by which it was found.
struct Locked {
    row: Decoded,
    now: Timestamp,
}

impl Take<'_> {
    fn steps(&self) -> bool {
        self.request.steps == Steps::Take
    }

    /// Due entries, each arm in its order, and no more than the claim wants.
    async fn due(&self, tx: &mut MySqlConnection) -> Result<Vec<Locked>> {
        let (request, limit) = (self.request, i64::from(self.request.limit));
        let half = (limit + 1) / 2;
        let s = self.statements;
        let (back, fresh) = match request.order {
            ClaimOrder::Staged => (&s.claim_back, &s.claim_staged),
            ClaimOrder::Causal => (&s.claim_back_causal, &s.claim_causal),
        };
        let up_to = |limit: i64| {
            let of_route = Bind::new().at(request.now).bytes(request.route.as_str()).number(limit);
            of_route.number(request.max_attempts.into()).flag(self.steps())
        };
        let mut ready = locked(&fresh.with(up_to(limit))?, tx).await?;
        ready.extend(locked(&back.with(up_to(limit))?, tx).await?);
        let mut timed = locked(&s.claim_due.with(up_to(half))?, tx).await?;
        let batch = usize::try_from(limit).unwrap_or(usize::MAX);
        // A full arm may not have told all, and there is room left.
        if timed.len() == usize::try_from(half).unwrap_or(usize::MAX) && ready.len() + timed.len() < batch {
            timed = locked(&s.claim_due.with(up_to(limit))?, tx).await?;
        }
        // Retries never starve fresh entries.
        let first = |found: &Locked| match request.order {
            ClaimOrder::Staged => (i64::from(found.row.entry.priority), Timestamp::MIN, found.row.entry.seq),
            ClaimOrder::Causal => {
                let entry = &found.row.entry;
                (entry.hlc.map_or(i64::MAX, pillarbox_core::Hlc::raw), entry.created_at, entry.seq)
            }
        };
        ready.sort_unstable_by_key(first);
        ready.truncate(batch - timed.len().min(batch.div_ceil(2)));
        timed.truncate(batch - ready.len());
        ready.extend(timed);
        Ok(ready)
    }

    /// The least accused among the first suspects, and as many as may be together.
    async fn suspects(&self, beside: u32, tx: &mut MySqlConnection) -> Result<Claim> {
        let bind = Bind::new()
            .at(self.request.now)
            .bytes(self.request.route.as_str())
            .number(COMPANY_MAX.into())
            .number(self.request.max_attempts.into())
            .flag(self.steps());
        let mut suspects = locked(&self.statements.claim_suspects.with(bind)?, tx).await?;
        let Some(crashes) = suspects.iter().map(|found| found.row.entry.crashes).min() else {
            return Ok(Claim::default());
        };
        let room = company(crashes).saturating_sub(beside).min(self.request.limit);
        if room == 0 {
            return Ok(Claim { suspects: Some(company(crashes)), ..Claim::default() });
        }
        suspects.retain(|found| found.row.entry.crashes == crashes);
        suspects.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        self.take(suspects, tx).await
    }

    /// Takes these rows. What they are after it is known without reading them again.
    async fn take(&self, mut found: Vec<Locked>, tx: &mut MySqlConnection) -> Result<Claim> {
        let Some(now) = found.first().map(|found| found.now) else { return Ok(Claim::default()) };
        let request = self.request;
        let seqs: Vec<i64> = found.iter().map(|found| found.row.entry.seq).collect();
        let bind = Bind::new().at(Some(now)).number(micros(request.lease)).text(&request.owner);
        let taken = self.statements.claim_take.execute(&bind, seqs, tx).await?;
        if taken != found.len() as u64 {
            return Err(Error::new(ErrorKind::Contention, "another relay has taken some of these entries"));
        }
        for found in &mut found {
            let entry = &mut found.row.entry;
            entry.status = Status::InFlight;
            entry.attempts += 1;
            entry.fence = Fence((entry.fence.0 + 1).max(now.as_micros()));
            entry.owner = Some(request.owner.clone());
            entry.due_at = Some(now.saturating_add(request.lease));
            entry.last_attempt_at = Some(now);
        }
        Ok(Claim::of_rows(found.into_iter().map(|found| found.row), request.order))
    }
}

async fn locked(statement: &Bound, tx: &mut MySqlConnection) -> Result<Vec<Locked>> {
    let locked = |row: &MySqlRow| {
        let now = Cells::from(row, COLUMNS.len()).time()?.unwrap_or(Timestamp::MIN);
        Ok(Locked { row: decode(row), now })
    };
    statement.rows(tx).await?.iter().map(locked).collect()
}

struct Extend<'a> {
    statements: &'a Statements,
    request: &'a ExtendRequest,
}

#[async_trait]
impl UnitOfWork for Extend<'_> {
    type Outcome = Extended;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Extended> {
        let request = self.request;
        let held = || request.held.iter().copied();
        let bind = Bind::new().at(request.now).number(micros(request.lease)).held(held());
        let extended = self.statements.extend.with(bind)?.execute(tx).await?;
        if extended.rows == request.held.len() as u64 {
            return Ok(Extended::default());
        }
        let kept = still_held(self.statements, held(), tx).await?;
        Ok(Extended { fenced: held().filter(|held| !kept.contains_key(held)).collect() })
    }
}

/// The claims that are still held, locked until the transaction ends.
pub(crate) async fn still_held(
    statements: &Statements,
    claims: impl Iterator<Item = Held> + Send,
    tx: &mut MySqlConnection,
) -> Result<BTreeMap<Held, ()>> {
    let rows = statements.held.with(Bind::new().held(claims))?.rows(tx).await?;
    rows.iter().map(|row| Ok((held(&mut Cells::of(row))?, ()))).collect()
}
