//! Claiming and extending: which relay works on which entries, and until when.

use std::time::Instant;

use async_trait::async_trait;
pub(crate) use pillarbox_core::port::shared::micros;
use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, Company, ExtendRequest, Extended, Purging, ReapRequest, Reaped,
    SettleRequest, Settled, Steps, Store, Undecodable,
};
use pillarbox_core::{COMPANY_MAX, CRASHES_IN_COMPANY, Result, RouteName, Status, company};
use sqlx::Row;
use sqlx::postgres::{PgArguments, PgRow};

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::error::{Phase, classify};
use crate::floor::{Claimed, Floor};
use crate::row::{At, Delivery, decode};
use crate::settle::{Changed, sorted};
use crate::store::PostgresStore;

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        if request.limit == 0 {
            return Ok(Claim::default());
        }
        if let Company::Suspects { beside } = request.company {
            return self.claim_suspects(&request, beside).await;
        }
        // A caller that sets the time wants to see all entries that are due at that time.
        let floor = match request.now {
            None => self.floors(request.order).begin(&request.route, Instant::now()),
            Some(_) => None,
        };
        let mut claim = self.claim_from(&request, floor).await?;
        if floor.is_some() && claim.entries.is_empty() && claim.undecodable.is_empty() {
            // Nothing from the floor on is not yet nothing.
            claim = self.claim_from(&request, None).await?;
        }
        request.order.sort(&mut claim.entries);
        Ok(claim)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        request.check()?;
        if request.held.is_empty() {
            return Ok(Extended::default());
        }
        let held = sorted(request.held.iter().copied());
        let arguments: PgArguments =
            Bind::new().held(&held).at(request.now).number(micros(request.lease)).done()?;
        // A lease that is prolonged twice is prolonged.
        let rows = self.run(Traffic::Reserved, Again::Always, &self.sql().extend, arguments).await?;
        Ok(Extended { fenced: Changed::read(&rows)?.fenced(held) })
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

impl PostgresStore {
    /// One claim from the floor, or a sweep.
    async fn claim_from(&self, request: &ClaimRequest, floor: Option<Floor>) -> Result<Claim> {
        let limit = i64::from(request.limit);
        let steps = request.steps == Steps::Take;
        let Floor { due, ready: [ready, seq] } = floor.unwrap_or(Floor::NONE);
        let bind = Bind::new()
            .text(request.route.as_str())
            .at(request.now)
            .number(i64::from(request.max_attempts))
            // Retries take at most half, rounded up, so that they never starve fresh entries.
            .number((limit + 1) / 2)
            .number(limit)
            .text(&request.owner)
            .number(micros(request.lease))
            .value(due)
            .number(ready);
        let (sql, arguments) = match request.order {
            ClaimOrder::Staged => (&self.sql().claim_staged, bind.number(seq).value(steps).done()?),
            ClaimOrder::Causal => (&self.sql().claim_causal, bind.value(steps).done()?),
        };
        let begun = Instant::now();
        let floors = self.floors(request.order);
        let answer = self.run(Traffic::Relay, Again::IfUndone, sql, arguments).await;
        let rows = answer.inspect_err(|_| floors.failed(&request.route))?;
        let (claim, (due_end, ready_end)) = read(&rows, request)
            .and_then(|claim| Ok((claim, ends(&rows)?)))
            .map_err(|error| classify(error, Phase::Before))?;
        if request.now.is_none() {
            let (ended, asked, taken) = (Instant::now(), request.limit, rows.len());
            let claimed = Claimed { begun, ended, asked, taken, due_end, ready_end };
            match floor {
                Some(_) => floors.followed(&request.route, &claimed),
                None => floors.swept(&request.route, &claimed),
            }
        }
        Ok(claim)
    }

    /// The least accused suspects, and as many as may be together. A row of the answer says how many that is.
    async fn claim_suspects(&self, request: &ClaimRequest, beside: u32) -> Result<Claim> {
        let companies: Vec<i64> = (1..=CRASHES_IN_COMPANY).map(|crashes| company(crashes).into()).collect();
        let arguments = Bind::new()
            .text(request.route.as_str())
            .at(request.now)
            .number(i64::from(request.max_attempts))
            .number(i64::from(COMPANY_MAX))
            .number(i64::from(request.limit))
            .text(&request.owner)
            .number(micros(request.lease))
            .number(i64::from(beside))
            .value(companies)
            .value(request.steps == Steps::Take)
            .done()?;
        let rows = self.run(Traffic::Relay, Again::IfUndone, &self.sql().claim_suspects, arguments).await?;
        let mut claim = suspects(&rows, request).map_err(|error| classify(error, Phase::Before))?;
        request.order.sort(&mut claim.entries);
        Ok(claim)
    }
}

fn suspects(rows: &[PgRow], request: &ClaimRequest) -> sqlx::Result<Claim> {
    let Some(first) = rows.first() else { return Ok(Claim::default()) };
    if first.try_get::<Option<i64>, _>(0)?.is_some() {
        return read(rows, request);
    }
    let company: Option<i64> = first.try_get(ENDS)?;
    Ok(Claim { suspects: company.and_then(|company| u32::try_from(company).ok()), ..Claim::default() })
}

fn read(rows: &[PgRow], request: &ClaimRequest) -> sqlx::Result<Claim> {
    let mut claim = Claim { entries: Vec::with_capacity(rows.len()), ..Claim::default() };
    for row in rows {
        let delivery = Delivery {
            route: request.route.clone(),
            status: Status::InFlight,
            due_at: None,
            owner: Some(request.owner.clone()),
            settled_at: None,
        };
        let mut decoded = decode(row, delivery)?;
        // The claim set both from one reading of the clock.
        decoded.entry.due_at = decoded.entry.last_attempt_at.map(|at| at.saturating_add(request.lease));
        match decoded.undecodable {
            None => claim.entries.push(decoded.entry),
            Some(failure) => claim.undecodable.push(Undecodable {
                held: decoded.entry.held(),
                event_id: Some(decoded.entry.event_id),
                failure,
            }),
        }
    }
    Ok(claim)
}

/// The first column behind those of the entry.
const ENDS: usize = 22;

/// Where both arms ended, as one of the rows says.
fn ends(rows: &[PgRow]) -> sqlx::Result<(Option<At>, Option<[i64; 2]>)> {
    let mut ends = (None, None);
    for row in rows {
        ends.0 = ends.0.or(row.try_get(ENDS)?);
        // What the arm took itself is not looked at again; behind a stamp alone there may be more that have it.
        ends.1 = ends.1.or(row.try_get::<Option<Vec<i64>>, _>(ENDS + 1)?.and_then(|end| match end[..] {
            [priority, seq] => Some([priority, seq.saturating_add(1)]),
            [stamp] => Some([stamp, i64::MIN]),
            _ => None,
        }));
    }
    Ok(ends)
}
