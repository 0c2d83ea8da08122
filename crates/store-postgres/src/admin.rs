//! What operators see.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::limits::HEADS_NAMED_MAX;
use pillarbox_core::port::{
    Admin, BlockingHead, Changed, CountByRequest, CountGroup, Filter, InventoryRequest, InventoryRow, Pause,
    PauseChange, PauseRequest, PurgeRequest, Purged, RouteCounts, SelectionRequest, Story,
};
use pillarbox_core::{
    AuditRecord, Entry, Error, ErrorKind, EventId, Result, RouteName, Standing, Status, Timestamp,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::change::Verb;
use crate::error::{Phase, classify};
use crate::lanes::mend::is_damage;
use crate::meant::Asked;
use crate::row::{At, WHOLE_COLUMNS, decode_audit, decode_inventory, decode_whole};
use crate::sql::Sql;
use crate::store::PostgresStore;

#[async_trait]
impl Admin for PostgresStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        // The partial indexes know the answer. With old statistics the planner would rather read the table.
        let mut unit = self.begin(Line::Operator).await?;
        unit.script(&Sql::by_index()).await?;
        let rows = unit.rows(&self.sql().counts, Bind::new().at(now).done()?).await?;
        let most = Bind::new().number(HEADS_NAMED_MAX.into()).done()?;
        let behind = unit.rows(&self.sql().counts_blocked, most).await?;
        let pauses = unit.rows(&self.sql().pauses, Bind::new().done()?).await?;
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
            count_moved(&mut routes, row, Status::InFlight.into())?;
        }
        for row in &behind {
            count_blocked(&mut routes, row)?;
        }
        for row in &pauses {
            note_pause(&mut routes, row)?;
        }
        Ok(routes.into_values().collect())
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        let arguments = Asked::listed(&filter).bind(&self.readers().await?).done()?;
        seen(&self.run(Line::Operator, Again::Always, &self.sql().list, arguments).await?)
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        request.filter.check()?;
        let all = Asked { limit: None, ..Asked::listed(&request.filter) };
        let arguments = all
            .bind(&self.readers().await?)
            .text(request.by.as_str())
            .number(request.filter.limit.into())
            .done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().count_by, arguments).await?;
        let groups = rows.iter().map(|row| {
            let entries: i64 = row.try_get(1).map_err(unreadable)?;
            Ok((row.try_get(0).map_err(unreadable)?, u64::try_from(entries).unwrap_or(0)))
        });
        Ok(CountGroup::gather(request.by, groups.collect::<Result<Vec<_>>>()?))
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let arguments = Bind::new().number(request.after).number(request.limit.into()).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().inventory, arguments).await?;
        rows.iter().map(|row| decode_inventory(row).map_err(|error| classify(error, Phase::Before))).collect()
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        let any = Filter::default();
        let named = Asked { ids: Some(&[id]), limit: None, ..Asked::listed(&any) };
        let named = named.bind(&self.readers().await?).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().list, named).await?;
        let arguments = Bind::new().value(id.0).done()?;
        let audit = self.run(Line::Operator, Again::Always, &self.sql().audit_of, arguments).await?;
        let audit = audit.iter().map(decode_audit).collect::<Result<Vec<_>>>()?;
        let story = |entry: Entry| {
            let audit =
                audit.iter().filter(|record| record.route.as_ref() == Some(&entry.route)).cloned().collect();
            Story { entry, audit }
        };
        Ok(seen(&rows)?.into_iter().map(story).collect())
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        let arguments = Bind::new().number(limit.into()).done()?;
        let newest = self.run(Line::Operator, Again::Always, &self.sql().audit, arguments).await?;
        newest.iter().rev().map(decode_audit).collect()
    }

    async fn requeue(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Requeue).await
    }

    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Discard).await
    }

    async fn hasten(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Hasten).await
    }

    async fn cancel(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Cancel).await
    }

    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        self.change_pause(request).await
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_settled(request).await
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_accepted(request).await
    }
}

/// Entries as an operator sees them: the standing and the head follow the columns.
fn seen(rows: &[PgRow]) -> Result<Vec<Entry>> {
    let entry = |row: &PgRow| {
        let mut entry = decode_whole(row)?;
        if row.try_get::<&str, _>(WHOLE_COLUMNS)? == Status::InFlight.as_str() {
            entry.status = Status::InFlight;
        }
        entry.blocked_by = row.try_get::<Option<Uuid>, _>(WHOLE_COLUMNS + 1)?.map(EventId);
        Ok(entry)
    };
    rows.iter().map(|row| entry(row).map_err(|error| classify(error, Phase::Before))).collect()
}

fn unreadable(_: sqlx::Error) -> Error {
    Error::new(ErrorKind::Corrupt, "the counts cannot be read")
}

/// Adds a row of `route, status, entries, since, now` to its route.
fn count(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &PgRow) -> Result<()> {
    let status: Status = row.try_get::<&str, _>(1).map_err(unreadable)?.parse()?;
    let entries: i64 = row.try_get(2).map_err(unreadable)?;
    let since = row.try_get::<Option<At>, _>(3).map_err(unreadable)?.and_then(At::timestamp);
    let now = row.try_get::<At, _>(4).map_err(unreadable)?.timestamp();
    let counts = of_route(routes, row)?;
    *counts.counts.entry(status).or_default() += u64::try_from(entries).unwrap_or(0);
    if let (Some(since), Some(now)) = (since, now) {
        counts.oldest_due_age = counts.oldest_due_age.max(Some(now.since(since)));
    }
    Ok(())
}

/// Counts a row of `route, status, entries` as something else than its status.
fn count_moved(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &PgRow, to: Standing) -> Result<()> {
    let status: Status = row.try_get::<&str, _>(1).map_err(unreadable)?.parse()?;
    let entries: i64 = row.try_get(2).map_err(unreadable)?;
    of_route(routes, row)?.move_from(status, to, u64::try_from(entries).unwrap_or(0));
    Ok(())
}

/// Counts a row of `counts_blocked.sql`: how many are blocked, or whom many wait for.
fn count_blocked(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &PgRow) -> Result<()> {
    if row.try_get::<Option<&str>, _>(1).map_err(unreadable)?.is_some() {
        return count_moved(routes, row, Standing::Blocked);
    }
    let blocked: i64 = row.try_get(2).map_err(unreadable)?;
    let head = BlockingHead {
        event_id: EventId(row.try_get(3).map_err(unreadable)?),
        key: row.try_get(4).map_err(unreadable)?,
        blocked: u64::try_from(blocked).unwrap_or(0),
    };
    of_route(routes, row)?.heads.push(head);
    Ok(())
}

/// Notes a row of `pauses.sql`.
fn note_pause(routes: &mut BTreeMap<RouteName, RouteCounts>, row: &PgRow) -> Result<()> {
    let at = row.try_get::<At, _>(1).map_err(unreadable)?.timestamp();
    let pause = Pause {
        at: at.unwrap_or(Timestamp::MIN),
        actor: row.try_get(2).map_err(unreadable)?,
        reason: row.try_get(3).map_err(unreadable)?,
    };
    of_route(routes, row)?.paused = Some(pause);
    Ok(())
}

/// The counts of the route in the first column.
fn of_route<'r>(
    routes: &'r mut BTreeMap<RouteName, RouteCounts>,
    row: &PgRow,
) -> Result<&'r mut RouteCounts> {
    let route = RouteName::new(row.try_get::<String, _>(0).map_err(unreadable)?)?;
    Ok(routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route)))
}
