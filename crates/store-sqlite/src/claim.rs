//! Taking entries under a lease, and keeping them.

use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

use pillarbox_core::port::{
    Claim, ClaimOrder, ClaimRequest, Company, ExtendRequest, Extended, Steps, Undecodable,
};
use pillarbox_core::{COMPANY_MAX, Entry, Error, Fence, Held, Result, company};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::classify;
use crate::row::decode;
use crate::sql::query;
use crate::store::SqliteStore;

pub(crate) async fn claim(store: &SqliteStore, request: ClaimRequest) -> Result<Claim> {
    request.check()?;
    if request.limit == 0 {
        return Ok(Claim::default());
    }
    if let Company::Suspects { beside } = request.company {
        return claim_suspects(store, &request, beside).await;
    }
    let statement = match request.order {
        ClaimOrder::Staged => &store.statements.claim_staged,
        ClaimOrder::Causal => &store.statements.claim_causal,
    };
    // Most of the time of a relay with little to do there is nothing; a look does not take the write lock.
    if !claimable(store, &request, &mut *store.reader().await?).await? {
        return Ok(Claim::default());
    }
    let take = query(statement)
        .bind(request.now.map(|now| now.as_micros()))
        .bind(request.route.to_string())
        .bind(request.limit)
        .bind(micros(request.lease))
        .bind(request.owner)
        .bind(request.max_attempts)
        .bind(request.steps == Steps::Take);
    let rows = store.writer.fetch_all(take).await?;
    read(&rows, request.order)
}

fn read(rows: &[SqliteRow], order: ClaimOrder) -> Result<Claim> {
    let mut claim = Claim { entries: Vec::with_capacity(rows.len()), ..Claim::default() };
    for row in rows {
        let decoded = decode(row)?;
        match decoded.failure() {
            None => claim.entries.push(decoded.entry),
            Some(failure) => claim.undecodable.push(Undecodable {
                held: decoded.entry.held(),
                event_id: decoded.id_known.then_some(decoded.entry.event_id),
                failure,
            }),
        }
    }
    sort(&mut claim.entries, order);
    Ok(claim)
}

/// The least accused among the first suspects, and as many as may be together. Looked for without the write lock:
/// whoever is faster takes them, and this claim gets what is left.
async fn claim_suspects(store: &SqliteStore, request: &ClaimRequest, beside: u32) -> Result<Claim> {
    let rows = query(&store.statements.suspects)
        .bind(request.route.to_string())
        .bind(request.max_attempts)
        .bind(COMPANY_MAX)
        .bind(request.steps == Steps::Take)
        .fetch_all(&mut *store.reader().await?)
        .await
        .map_err(classify)?;
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
    let take = query(&store.statements.claim_suspects)
        .bind(request.now.map(|now| now.as_micros()))
        .bind(request.route.to_string())
        .bind(seqs_json(&seqs)?)
        .bind(micros(request.lease))
        .bind(request.owner.clone());
    read(&store.writer.fetch_all(take).await?, request.order)
}

async fn claimable(
    store: &SqliteStore,
    request: &ClaimRequest,
    connection: &mut SqliteConnection,
) -> Result<bool> {
    let row = query(&store.statements.claimable)
        .bind(request.now.map(|now| now.as_micros()))
        .bind(request.route.as_str().to_owned())
        .bind(request.max_attempts)
        .bind(request.steps == Steps::Take)
        .fetch_one(connection)
        .await
        .map_err(classify)?;
    row.try_get_unchecked(0).map_err(classify)
}

/// RETURNING promises no order, and the two arms of a claim have one each.
fn sort(entries: &mut [Entry], order: ClaimOrder) {
    match order {
        ClaimOrder::Staged => entries.sort_unstable_by_key(|entry| (entry.priority, entry.seq)),
        ClaimOrder::Causal => entries.sort_unstable_by_key(|entry| {
            (entry.hlc.map_or(i64::MAX, |hlc| hlc.raw()), entry.created_at, entry.seq)
        }),
    }
}

pub(crate) async fn extend(store: &SqliteStore, request: ExtendRequest) -> Result<Extended> {
    request.check()?;
    if request.held.is_empty() {
        return Ok(Extended::default());
    }
    let extend = query(&store.statements.extend)
        .bind(request.now.map(|now| now.as_micros()))
        .bind(micros(request.lease))
        .bind(held_json(request.held.iter().copied()));
    let extended = held_of(&store.writer.fetch_all(extend).await?)?;
    Ok(Extended { fenced: request.held.into_iter().filter(|held| !extended.contains(held)).collect() })
}

/// Whole microseconds of a duration, at most a century or so: what is added to a clock must not overflow.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(pillarbox_core::Timestamp::MAX.as_micros())
}

/// Claims as the JSON parameter that statements read: `{"seq": fence, …}`. An object, because its members need no
/// second look at the text as the elements of an array of pairs would.
pub(crate) fn held_json(held: impl Iterator<Item = Held>) -> String {
    let mut json = String::from("{");
    for (index, held) in held.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(json, "{comma}\"{}\":{}", held.seq, held.fence.0);
    }
    json.push('}');
    json
}

/// The claims that a statement returned.
pub(crate) fn held_of(rows: &[SqliteRow]) -> Result<HashSet<Held>> {
    rows.iter()
        .map(|row| {
            let seq = row.try_get_unchecked(0).map_err(classify)?;
            let fence = Fence(row.try_get_unchecked(1).map_err(classify)?);
            Ok(Held { seq, fence })
        })
        .collect()
}

/// Rows as the JSON parameter that statements read: `[seq, …]`.
pub(crate) fn seqs_json(seqs: &[i64]) -> Result<String> {
    serde_json::to_string(seqs).map_err(|_| Error::invalid("a row cannot be written as JSON"))
}
