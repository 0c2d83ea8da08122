//! What operators see.

use std::collections::BTreeMap;

use pillarbox_core::limits::HEADS_NAMED_MAX;
use pillarbox_core::port::{
    BlockingHead, CountByRequest, CountGroup, Filter, InventoryRequest, InventoryRow, Pause, RouteCounts,
    Story,
};
use pillarbox_core::{
    AuditRecord, Entry, EventId, Reference, Result, RouteName, Standing, Status, Timestamp,
};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::claim::seqs_json;
use crate::error::classify;
use crate::meant::Asked;
use crate::row::{COLUMNS, decode, decode_inventory, shown_route};
use crate::sql::query;
use crate::store::SqliteStore;

pub(crate) async fn counts(store: &SqliteStore, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
    let statements = &store.statements;
    // One transaction, so that an entry that moves is counted once.
    let mut tx = store.pool().begin().await.map_err(classify)?;
    let now = match now {
        Some(now) => now,
        None => statements.now(&mut tx).await?,
    };
    let mut routes = BTreeMap::new();
    // The oldest entry that is due at once, by its row; when it was staged is not in the index.
    let mut firsts = BTreeMap::<RouteName, i64>::new();
    for row in query(&statements.count_ready).fetch_all(&mut *tx).await.map_err(classify)? {
        let route = count(&mut routes, &row)?;
        let first: i64 = row.try_get_unchecked(3).map_err(classify)?;
        firsts.entry(route).and_modify(|known| *known = first.min(*known)).or_insert(first);
    }
    let due = query(&statements.count_due).bind(now.as_micros());
    for row in due.fetch_all(&mut *tx).await.map_err(classify)? {
        let route = count(&mut routes, &row)?;
        let since: Option<i64> = row.try_get_unchecked(3).map_err(classify)?;
        waits_since(&mut routes, &route, since, now);
    }
    for row in query(&statements.count_ended).fetch_all(&mut *tx).await.map_err(classify)? {
        count(&mut routes, &row)?;
    }
    let handed = query(&statements.count_handed).bind(now.as_micros());
    for row in handed.fetch_all(&mut *tx).await.map_err(classify)? {
        moved(&mut routes, &row, Status::InFlight.into())?;
    }
    let behind = query(&statements.count_blocked).bind(HEADS_NAMED_MAX);
    for row in behind.fetch_all(&mut *tx).await.map_err(classify)? {
        blocked(&mut routes, &row)?;
    }
    for row in query(&statements.pauses).fetch_all(&mut *tx).await.map_err(classify)? {
        paused(&mut routes, &row)?;
    }
    let seqs: Vec<i64> = firsts.values().copied().collect();
    let created = query(&statements.created).bind(seqs_json(&seqs)?);
    let created: BTreeMap<i64, i64> = created
        .fetch_all(&mut *tx)
        .await
        .map_err(classify)?
        .iter()
        .map(|row| {
            Ok((row.try_get_unchecked(0).map_err(classify)?, row.try_get_unchecked(1).map_err(classify)?))
        })
        .collect::<Result<_>>()?;
    for (route, seq) in firsts {
        waits_since(&mut routes, &route, created.get(&seq).copied(), now);
    }
    tx.rollback().await.map_err(classify)?;
    Ok(routes.into_values().collect())
}

/// Adds a row of `route, status, entries` to its route.
fn count(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &SqliteRow) -> Result<RouteName> {
    let route = shown_route(row.try_get_unchecked(0).map_err(classify)?)?;
    let status: Status = row.try_get_unchecked::<&str, _>(1).map_err(classify)?.parse()?;
    let entries: i64 = row.try_get_unchecked(2).map_err(classify)?;
    let counts = routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route.clone()));
    *counts.counts.entry(status).or_default() += u64::try_from(entries).unwrap_or(0);
    Ok(route)
}

/// Counts a row of `route, status, entries` as something else than its status.
fn moved(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &SqliteRow, to: Standing) -> Result<()> {
    let route = shown_route(row.try_get_unchecked(0).map_err(classify)?)?;
    let status: Status = row.try_get_unchecked::<&str, _>(1).map_err(classify)?.parse()?;
    let entries: i64 = row.try_get_unchecked(2).map_err(classify)?;
    let counts = routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route));
    counts.move_from(status, to, u64::try_from(entries).unwrap_or(0));
    Ok(())
}

/// Counts a row of `count_blocked.sql`: how many are blocked, or whom many wait for.
fn blocked(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &SqliteRow) -> Result<()> {
    if row.try_get_unchecked::<Option<&str>, _>(1).map_err(classify)?.is_some() {
        return moved(routes, row, Standing::Blocked);
    }
    let route = shown_route(row.try_get_unchecked(0).map_err(classify)?)?;
    let entries: i64 = row.try_get_unchecked(2).map_err(classify)?;
    let id: &str = row.try_get_unchecked(3).map_err(classify)?;
    let head = BlockingHead {
        event_id: EventId(Uuid::try_parse(id).unwrap_or(Uuid::nil())),
        key: row.try_get_unchecked(4).map_err(classify)?,
        blocked: u64::try_from(entries).unwrap_or(0),
    };
    routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route)).heads.push(head);
    Ok(())
}

/// Notes a row of `pauses.sql`.
fn paused(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &SqliteRow) -> Result<()> {
    let route = shown_route(row.try_get_unchecked(0).map_err(classify)?)?;
    let at: i64 = row.try_get_unchecked(1).map_err(classify)?;
    let pause = Pause {
        at: Timestamp::from_micros(at).unwrap_or(Timestamp::MIN),
        actor: row.try_get_unchecked::<Option<String>, _>(2).map_err(classify)?.unwrap_or_default(),
        reason: row.try_get_unchecked::<Option<String>, _>(3).map_err(classify)?.unwrap_or_default(),
    };
    routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route)).paused = Some(pause);
    Ok(())
}

fn waits_since(
    routes: &mut BTreeMap<RouteName, RouteCounts>,
    route: &RouteName,
    since: Option<i64>,
    now: Timestamp,
) {
    if let (Some(counts), Some(since)) = (routes.get_mut(route), since.and_then(Timestamp::from_micros)) {
        counts.oldest_due_age = counts.oldest_due_age.max(Some(now.since(since)));
    }
}

pub(crate) async fn list(store: &SqliteStore, filter: Filter) -> Result<Vec<Entry>> {
    filter.check()?;
    let listed = Asked::listed(&filter).query(&store.statements.list)?;
    seen(&listed.fetch_all(store.pool()).await.map_err(classify)?)
}

/// Entries as an operator sees them: the standing and the head follow the columns.
fn seen(rows: &[SqliteRow]) -> Result<Vec<Entry>> {
    rows.iter()
        .map(|row| {
            let mut entry = decode(row)?.entry;
            let standing: &str = row.try_get_unchecked(COLUMNS.len()).map_err(classify)?;
            let head: Option<&str> = row.try_get_unchecked(COLUMNS.len() + 1).map_err(classify)?;
            if standing == Status::InFlight.as_str() {
                entry.status = Status::InFlight;
            }
            entry.blocked_by = head.and_then(|id| Uuid::try_parse(id).ok()).map(EventId);
            Ok(entry)
        })
        .collect()
}

pub(crate) async fn count_by(store: &SqliteStore, request: CountByRequest) -> Result<Vec<CountGroup>> {
    request.filter.check()?;
    let all = Asked { limit: None, ..Asked::listed(&request.filter) };
    let groups = all
        .query(&store.statements.count_by)?
        .bind(request.by.as_str())
        .bind(request.filter.limit)
        .fetch_all(store.pool())
        .await
        .map_err(classify)?;
    let groups = groups.iter().map(|row| {
        let entries: i64 = row.try_get_unchecked(1).map_err(classify)?;
        Ok((row.try_get_unchecked(0).map_err(classify)?, u64::try_from(entries).unwrap_or(0)))
    });
    Ok(CountGroup::gather(request.by, groups.collect::<Result<Vec<_>>>()?))
}

pub(crate) async fn inventory(store: &SqliteStore, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
    request.check()?;
    let rows = query(&store.statements.inventory).bind(request.after).bind(request.limit);
    let rows = rows.fetch_all(store.pool()).await.map_err(classify)?;
    rows.iter().map(decode_inventory).collect()
}

pub(crate) async fn show(store: &SqliteStore, id: EventId) -> Result<Vec<Story>> {
    // One transaction, so that the trail explains the status that is shown.
    let mut tx = store.pool().begin().await.map_err(classify)?;
    let any = Filter::default();
    let named = Asked { ids: Some(&[id]), limit: None, ..Asked::listed(&any) };
    let entries = named.query(&store.statements.list)?.fetch_all(&mut *tx).await.map_err(classify)?;
    let audit = query(&store.statements.audit_of).bind(id.to_string());
    let audit = records(&audit.fetch_all(&mut *tx).await.map_err(classify)?)?;
    tx.rollback().await.map_err(classify)?;
    let story = |entry: Entry| {
        let audit =
            audit.iter().filter(|record| record.route.as_ref() == Some(&entry.route)).cloned().collect();
        Story { entry, audit }
    };
    Ok(seen(&entries)?.into_iter().map(story).collect())
}

pub(crate) async fn audit(store: &SqliteStore, limit: u32) -> Result<Vec<AuditRecord>> {
    let newest =
        query(&store.statements.audit).bind(limit).fetch_all(store.pool()).await.map_err(classify)?;
    let mut records = records(&newest)?;
    records.reverse();
    Ok(records)
}

pub(crate) fn records(rows: &[SqliteRow]) -> Result<Vec<AuditRecord>> {
    rows.iter()
        .map(|row| {
            let at: i64 = row.try_get_unchecked(1).map_err(classify)?;
            let route: Option<&str> = row.try_get_unchecked(4).map_err(classify)?;
            let id: Option<&str> = row.try_get_unchecked(5).map_err(classify)?;
            Ok(AuditRecord {
                seq: row.try_get_unchecked(0).map_err(classify)?,
                at: Timestamp::from_micros(at).unwrap_or(Timestamp::MIN),
                kind: row.try_get_unchecked::<&str, _>(2).map_err(classify)?.parse()?,
                actor: row.try_get_unchecked(3).map_err(classify)?,
                route: route.map(shown_route).transpose()?,
                event_id: id.and_then(|id| Uuid::try_parse(id).ok()).map(EventId),
                saga_id: row
                    .try_get_unchecked::<Option<&str>, _>(6)
                    .map_err(classify)?
                    .map(str::parse)
                    .transpose()?,
                subject: match (
                    row.try_get_unchecked(7).map_err(classify)?,
                    row.try_get_unchecked(8).map_err(classify)?,
                ) {
                    (Some::<String>(kind), Some::<String>(value)) => Some(Reference::new(kind, value)),
                    _ => None,
                },
                step: row.try_get_unchecked(9).map_err(classify)?,
                detail: row.try_get_unchecked(10).map_err(classify)?,
            })
        })
        .collect()
}
