//! Claiming and extending: who works on what, and until when.

use std::time::Duration;

use pillarbox_core::port::{Claim, ClaimOrder, ClaimRequest, ExtendRequest, Extended, Undecodable};
use pillarbox_core::{Entry, Hlc, Result, Status};
use sqlx::postgres::{PgArguments, PgRow};

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::error::{Phase, classify};
use crate::row::{Delivery, decode};
use crate::settle::{Changed, sorted};
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn claim_entries(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        if request.limit == 0 {
            return Ok(Claim::default());
        }
        let limit = i64::from(request.limit);
        let arguments = Bind::new()
            .text(request.route.as_str())
            .at(request.now)
            .number(i64::from(request.max_attempts))
            // Retries take at most half, rounded up, so that they never starve fresh entries.
            .number((limit + 1) / 2)
            .number(limit)
            .text(&request.owner)
            .number(micros(request.lease))
            .done()?;
        let sql = match request.order {
            ClaimOrder::Staged => &self.sql().claim_staged,
            ClaimOrder::Causal => &self.sql().claim_causal,
        };
        let rows = self.run(Line::Relay, Again::IfUndone, sql, arguments).await?;
        let mut claim = read(&rows, &request).map_err(|error| classify(error, Phase::Before))?;
        sort(&mut claim.entries, request.order);
        Ok(claim)
    }

    pub(crate) async fn extend_leases(&self, request: ExtendRequest) -> Result<Extended> {
        request.check()?;
        if request.held.is_empty() {
            return Ok(Extended::default());
        }
        let held = sorted(request.held.iter().copied());
        let arguments: PgArguments =
            Bind::new().held(&held).at(request.now).number(micros(request.lease)).done()?;
        // A lease that is prolonged twice is prolonged.
        let rows = self.run(Line::Reserved, Again::Always, &self.sql().extend, arguments).await?;
        Ok(Extended { fenced: Changed::read(&rows)?.fenced(held) })
    }
}

fn read(rows: &[PgRow], request: &ClaimRequest) -> sqlx::Result<Claim> {
    let mut claim = Claim { entries: Vec::with_capacity(rows.len()), undecodable: vec![] };
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

/// Oldest first: an update returns its rows in any order.
fn sort(entries: &mut [Entry], order: ClaimOrder) {
    match order {
        ClaimOrder::Staged => entries.sort_unstable_by_key(|entry| (entry.priority, entry.seq)),
        ClaimOrder::Causal => entries.sort_unstable_by_key(|entry| {
            (entry.hlc.map_or(i64::MAX, Hlc::raw), entry.created_at, entry.seq)
        }),
    }
}

/// Whole microseconds, at most a thousand years: beyond that the database's arithmetic overflows.
pub(crate) fn micros(duration: Duration) -> i64 {
    const MAX: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(MAX).min(MAX)
}
