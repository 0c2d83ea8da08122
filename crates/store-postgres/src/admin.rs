//! What operators see.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::port::{
    Admin, Changed, Filter, InventoryRequest, InventoryRow, PurgeRequest, Purged, RouteCounts,
    SelectionRequest, Story,
};
use pillarbox_core::{
    AuditKind, AuditRecord, Entry, Error, ErrorKind, EventId, Result, RouteName, Status, Timestamp,
};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::error::{Phase, classify};
use crate::lanes::mend::is_damage;
use crate::row::{At, decode_audit, decode_inventory, decode_whole};
use crate::sql::Sql;
use crate::store::PostgresStore;

#[async_trait]
impl Admin for PostgresStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        // The partial indexes know the answer. With old statistics the planner would rather read the table.
        let mut unit = self.begin(Line::Operator).await?;
        unit.script(&Sql::by_index()).await?;
        let rows = unit.rows(&self.sql().counts, Bind::new().at(now).done()?).await?;
        let handed = match unit.rows(&self.sql().lanes_counts, Bind::new().at(now).done()?).await {
            // A server that follows another one does not have these tables: there are no relays on it, either. Where they
            // are damaged nothing is handed out, and looking at the schema says so.
            Err(error) if error.kind() == ErrorKind::ReadOnly || is_damage(&error) => vec![],
            handed => {
                let handed = handed?;
                unit.commit(Phase::Before).await?;
                handed
            }
        };
        let mut routes = BTreeMap::new();
        for row in &rows {
            count(&mut routes, row)?;
        }
        for row in &handed {
            count_handed(&mut routes, row)?;
        }
        Ok(routes.into_values().collect())
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        let arguments = Bind::new()
            .value(filter.status.map(Status::as_str))
            .value(filter.route.as_ref().map(RouteName::as_str))
            .value(filter.event_type)
            .value(filter.key)
            .number(filter.limit.into())
            .done()?;
        entries(&self.run(Line::Operator, Again::Always, &self.sql().list, arguments).await?)
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let arguments = Bind::new().number(request.after).number(request.limit.into()).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().inventory, arguments).await?;
        rows.iter().map(|row| decode_inventory(row).map_err(|error| classify(error, Phase::Before))).collect()
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        let arguments = Bind::new().value(id.0).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().show, arguments.clone()).await?;
        let audit = self.run(Line::Operator, Again::Always, &self.sql().audit_of, arguments).await?;
        let audit = audit.iter().map(decode_audit).collect::<Result<Vec<_>>>()?;
        let story = |entry: Entry| {
            let audit =
                audit.iter().filter(|record| record.route.as_ref() == Some(&entry.route)).cloned().collect();
            Story { entry, audit }
        };
        Ok(entries(&rows)?.into_iter().map(story).collect())
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        let arguments = Bind::new().number(limit.into()).done()?;
        let newest = self.run(Line::Operator, Again::Always, &self.sql().audit, arguments).await?;
        newest.iter().rev().map(decode_audit).collect()
    }

    async fn requeue(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, AuditKind::Requeued).await
    }

    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, AuditKind::Discarded).await
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_settled(request).await
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_accepted(request).await
    }
}

fn entries(rows: &[PgRow]) -> Result<Vec<Entry>> {
    rows.iter().map(|row| decode_whole(row).map_err(|error| classify(error, Phase::Before))).collect()
}

/// Adds a row of `route, status, entries, since, now` to its route.
fn count(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &PgRow) -> Result<()> {
    let unreadable = |_| Error::new(ErrorKind::Corrupt, "the counts cannot be read");
    let route = RouteName::new(row.try_get::<String, _>(0).map_err(unreadable)?)?;
    let status: Status = row.try_get::<&str, _>(1).map_err(unreadable)?.parse()?;
    let entries: i64 = row.try_get(2).map_err(unreadable)?;
    let since = row.try_get::<Option<At>, _>(3).map_err(unreadable)?.and_then(At::timestamp);
    let now = row.try_get::<At, _>(4).map_err(unreadable)?.timestamp();
    let counts = routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route));
    *counts.counts.entry(status).or_default() += u64::try_from(entries).unwrap_or(0);
    if let (Some(since), Some(now)) = (since, now) {
        counts.oldest_due_age = counts.oldest_due_age.max(Some(now.since(since)));
    }
    Ok(())
}

/// Moves what a row of `route, status, entries` says to be in flight.
fn count_handed(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &PgRow) -> Result<()> {
    let unreadable = |_| Error::new(ErrorKind::Corrupt, "the counts cannot be read");
    let route = RouteName::new(row.try_get::<String, _>(0).map_err(unreadable)?)?;
    let status: Status = row.try_get::<&str, _>(1).map_err(unreadable)?.parse()?;
    let handed = u64::try_from(row.try_get::<i64, _>(2).map_err(unreadable)?).unwrap_or(0);
    if let Some(counts) = routes.get_mut(&route) {
        let waiting = counts.counts.entry(status).or_default();
        *waiting = waiting.saturating_sub(handed);
        *counts.counts.entry(Status::InFlight).or_default() += handed;
    }
    Ok(())
}
