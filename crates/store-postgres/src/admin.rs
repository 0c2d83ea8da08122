//! What operators see.

use async_trait::async_trait;
use pillarbox_core::limits::{COUNTED_MAX, HEADS_NAMED_MAX};
use pillarbox_core::port::shared::{Asked, Columns, RouteTally, Verb, audit_record, inventory_row};
use pillarbox_core::port::{
    Admin, AuditFilter, Changed, CountByRequest, CountGroup, Filter, InventoryRequest, InventoryRow,
    LaneBacklog, PauseChange, PauseRequest, Pool, PurgeRequest, Purged, Recent, RecentRequest, RouteCounts,
    SelectionRequest, Story, Waits, WaitsRequest,
};
use pillarbox_core::{AuditRecord, Entry, ErrorKind, EventId, Result, RouteName, Status, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::{Again, Traffic, Unit};
use crate::error::{Phase, classify};
use crate::lanes::mend::is_damage;
use crate::meant::{Readers, groups, page};
use crate::row::{Cells, WHOLE_COLUMNS, decode_whole};
use crate::sql::Sql;
use crate::store::PostgresStore;

#[async_trait]
impl Admin for PostgresStore {
    fn connections(&self) -> Option<Pool> {
        Some(self.all_pools())
    }

    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        // The partial indexes know the answer. With old statistics the planner would rather read the table.
        let mut unit = self.unit(Traffic::Operator).await?;
        unit.script(&Sql::by_index()).await?;
        let rows =
            unit.rows(&self.sql().counts, Bind::new().at(now).number(COUNTED_MAX.into()).done()?).await?;
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
        let mut routes = RouteTally::default();
        for mut row in rows.iter().map(Cells::of) {
            let route = routes.count(&mut row)?;
            let (since, now) = (row.time()?, row.time()?);
            routes.waits_since(&route, since, now.unwrap_or(Timestamp::MIN));
        }
        handed.iter().map(Cells::of).try_for_each(|mut row| routes.handed(&mut row))?;
        behind.iter().map(Cells::of).try_for_each(|mut row| routes.blocked(&mut row))?;
        pauses.iter().map(Cells::of).try_for_each(|mut row| routes.paused(&mut row))?;
        Ok(routes.told())
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        self.lane_backlogs(route).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        self.listed(&Asked::listed(&filter)).await
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        request.filter.check()?;
        let readers = self.readers().await?;
        let unit = self.unit(Traffic::Operator).await?;
        let rows = match self.grouped(unit, &request, &readers).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let unit = self.unit_again(Traffic::Operator, &error).await?;
                self.grouped(unit, &request, &readers).await?
            }
            rows => rows?,
        };
        let found = rows.iter().map(Cells::of).map(|mut row| Ok((row.optional_text()?, row.count()?)));
        Ok(CountGroup::gather(request.by, found.collect::<Result<Vec<_>>>()?))
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        self.delivery_waits(request).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let arguments = Bind::new().number(request.after).number(request.limit.into()).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().inventory, arguments).await?;
        rows.iter().map(|row| inventory_row(&mut Cells::of(row))).collect()
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        let entries = self.listed(&Asked::named(&[id])).await?;
        let arguments = Bind::new().value(id.0).done()?;
        let audit = self.run(Traffic::Operator, Again::Always, &self.sql().audit_of, arguments).await?;
        Ok(Story::tell(entries, &records(&audit)?))
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        let kinds: Vec<&str> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
        let arguments = Bind::new()
            .number(filter.limit.into())
            .value(filter.before)
            .value(Some(kinds).filter(|kinds| !kinds.is_empty()))
            .value(filter.actor.as_deref())
            .at(filter.since);
        records(&self.run(Traffic::Operator, Again::Always, &self.sql().audit, arguments.done()?).await?)
    }

    async fn recent(&self, request: RecentRequest) -> Result<Recent> {
        self.recent_activity(request).await
    }

    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        self.change_entries(request, verb).await
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

impl PostgresStore {
    /// The entries that are asked for, oldest first.
    async fn listed(&self, asked: &Asked<'_>) -> Result<Vec<Entry>> {
        let readers = self.readers().await?;
        let unit = self.unit(Traffic::Operator).await?;
        match self.paged(unit, asked, &readers).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let unit = self.unit_again(Traffic::Operator, &error).await?;
                seen(&self.paged(unit, asked, &readers).await?)
            }
            rows => seen(&rows?),
        }
    }

    async fn paged(&self, mut unit: Unit, asked: &Asked<'_>, readers: &Readers) -> Result<Vec<PgRow>> {
        let rows = page(&mut unit, &self.sql().list, asked, readers).await?;
        unit.commit(Phase::Before).await?;
        Ok(rows)
    }

    async fn grouped(
        &self,
        mut unit: Unit,
        request: &CountByRequest,
        readers: &Readers,
    ) -> Result<Vec<PgRow>> {
        let rows = groups(&mut unit, &self.sql().count_by, request, readers).await?;
        unit.commit(Phase::Before).await?;
        Ok(rows)
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

/// Records of the audit trail.
pub(crate) fn records(rows: &[PgRow]) -> Result<Vec<AuditRecord>> {
    rows.iter().map(|row| audit_record(&mut Cells::of(row))).collect()
}
