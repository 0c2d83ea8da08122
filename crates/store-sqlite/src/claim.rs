//! Taking entries under a lease, and keeping them.

use std::collections::HashSet;

use async_trait::async_trait;
use pillarbox_core::port::shared::held;
pub(crate) use pillarbox_core::port::shared::micros;
use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, Company, ExtendRequest, Extended, Purging, ReapRequest, Reaped,
    SettleRequest, Settled, Steps, Store,
};
use pillarbox_core::{COMPANY_MAX, Held, Result, RouteName, company};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::bind::Bind;
pub(crate) use crate::bind::seqs_json;
use crate::error::classify;
use crate::row::{Cells, decode};
use crate::store::SqliteStore;

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        if request.limit == 0 {
            return Ok(Claim::default());
        }
        if let Company::Suspects { beside } = request.company {
            return self.claim_suspects(&request, beside).await;
        }
        let sql = match request.order {
            ClaimOrder::Staged => &self.statements.claim.staged,
            ClaimOrder::Causal => &self.statements.claim.causal,
        };
        // Most of the time of a relay with little to do there is nothing; a look does not take the write lock.
        if !self.is_claimable(&request, &mut *self.reader().await?).await? {
            return Ok(Claim::default());
        }
        let arguments = Bind::new()
            .at(request.now)
            .text(request.route.as_str())
            .number(request.limit.into())
            .number(micros(request.lease))
            .text(&request.owner)
            .number(request.max_attempts.into())
            .value(request.steps == Steps::Take)
            .done()?;
        Ok(read(&self.writer.fetch_all(sql.with(arguments)).await?, request.order))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        request.check()?;
        if request.held.is_empty() {
            return Ok(Extended::default());
        }
        let arguments =
            Bind::new().at(request.now).number(micros(request.lease)).held(&request.held).done()?;
        let extended = held_of(&self.writer.fetch_all(self.statements.extend.with(arguments)).await?)?;
        Ok(Extended { fenced: request.held.into_iter().filter(|held| !extended.contains(held)).collect() })
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

impl SqliteStore {
    /// The least accused among the first suspects, and as many as may be together. Looked for without the write lock:
    /// the faster claim takes them, and this claim gets the rest.
    async fn claim_suspects(&self, request: &ClaimRequest, beside: u32) -> Result<Claim> {
        let arguments = Bind::new()
            .text(request.route.as_str())
            .number(request.max_attempts.into())
            .number(COMPANY_MAX.into())
            .value(request.steps == Steps::Take)
            .done()?;
        let look = self.statements.suspects.with(arguments);
        let rows = look.fetch_all(&mut *self.reader().await?).await.map_err(classify)?;
        let suspect = |row: &SqliteRow| -> Result<(i64, u32)> {
            Ok((row.try_get_unchecked(0).map_err(classify)?, row.try_get_unchecked(1).map_err(classify)?))
        };
        let suspects = rows.iter().map(suspect).collect::<Result<Vec<_>>>()?;
        let Some(crashes) = suspects.iter().map(|(_, crashes)| *crashes).min() else {
            return Ok(Claim::default());
        };
        let room = company(crashes).saturating_sub(beside).min(request.limit);
        if room == 0 {
            return Ok(Claim { suspects: Some(company(crashes)), ..Claim::default() });
        }
        let equals = suspects.iter().filter(|suspect| suspect.1 == crashes).map(|suspect| suspect.0);
        let seqs: Vec<i64> = equals.take(usize::try_from(room).unwrap_or(usize::MAX)).collect();
        let arguments = Bind::new()
            .at(request.now)
            .text(request.route.as_str())
            .json(&seqs)
            .number(micros(request.lease))
            .text(&request.owner)
            .done()?;
        let take = self.statements.claim_suspects.with(arguments);
        Ok(read(&self.writer.fetch_all(take).await?, request.order))
    }

    async fn is_claimable(&self, request: &ClaimRequest, connection: &mut SqliteConnection) -> Result<bool> {
        let arguments = Bind::new()
            .at(request.now)
            .text(request.route.as_str())
            .number(request.max_attempts.into())
            .value(request.steps == Steps::Take)
            .done()?;
        let look = self.statements.claimable.with(arguments);
        let row = look.fetch_one(connection).await.map_err(classify)?;
        row.try_get_unchecked(0).map_err(classify)
    }
}

/// RETURNING promises no order, and the two arms of a claim have one each.
fn read(rows: &[SqliteRow], order: ClaimOrder) -> Claim {
    Claim::of_rows(rows.iter().map(decode), order)
}

/// The claims that a statement returned.
pub(crate) fn held_of(rows: &[SqliteRow]) -> Result<HashSet<Held>> {
    rows.iter().map(|row| held(&mut Cells::of(row))).collect()
}
