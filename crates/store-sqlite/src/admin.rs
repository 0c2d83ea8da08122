//! What operators see.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::limits::{COUNTED_MAX, HEADS_NAMED_MAX};
use pillarbox_core::port::shared::{Asked, Columns, RouteTally, Verb, audit_record, inventory_row};
use pillarbox_core::port::{
    Admin, AuditFilter, Changed, CountByRequest, CountGroup, Filter, InventoryRequest, InventoryRow,
    LaneBacklog, PauseChange, PauseRequest, Pool, PurgeRequest, Purged, Recent, RecentRequest, RouteCounts,
    SelectionRequest, Story, Waits, WaitsRequest,
};
use pillarbox_core::{AuditRecord, Entry, EventId, Result, RouteName, Status, Timestamp};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::bind::Bind;
use crate::error::classify;
use crate::meant::{bind, text};
use crate::row::{COLUMNS, Cells, decode};
use crate::sql::Sql;
use crate::store::SqliteStore;

#[async_trait]
impl Admin for SqliteStore {
    fn connections(&self) -> Option<Pool> {
        Some(self.all_pools())
    }

    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        let s = &self.statements;
        // One transaction, so that an entry that moves is counted once.
        let mut tx = self.pool().begin().await.map_err(classify)?;
        let now = s.now_or(now, &mut tx).await?;
        let mut routes = RouteTally::default();
        // The oldest entry that is due at once, by its row; when it was staged is not in the index.
        let mut firsts = BTreeMap::<RouteName, i64>::new();
        for mut row in fetch(&s.count_ready, Bind::new(), &mut tx).await?.iter().map(Cells::of) {
            let (route, first) = (routes.count(&mut row)?, row.number()?);
            firsts.entry(route).and_modify(|known| *known = first.min(*known)).or_insert(first);
        }
        for mut row in fetch(&s.count_due, Bind::new().at(Some(now)), &mut tx).await?.iter().map(Cells::of) {
            let route = routes.count(&mut row)?;
            routes.waits_since(&route, row.time()?, now);
        }
        for row in &fetch(&s.count_ended, Bind::new().number(COUNTED_MAX.into()), &mut tx).await? {
            routes.count(&mut Cells::of(row))?;
        }
        for row in &fetch(&s.count_handed, Bind::new().at(Some(now)), &mut tx).await? {
            routes.handed(&mut Cells::of(row))?;
        }
        for row in &fetch(&s.count_blocked, Bind::new().number(HEADS_NAMED_MAX.into()), &mut tx).await? {
            routes.blocked(&mut Cells::of(row))?;
        }
        for row in &fetch(&s.pauses, Bind::new(), &mut tx).await? {
            routes.paused(&mut Cells::of(row))?;
        }
        let seqs: Vec<i64> = firsts.values().copied().collect();
        let mut created = BTreeMap::new();
        for mut row in fetch(&s.created, Bind::new().json(&seqs), &mut tx).await?.iter().map(Cells::of) {
            created.insert(row.number()?, row.time()?);
        }
        for (route, seq) in firsts {
            routes.waits_since(&route, created.get(&seq).copied().flatten(), now);
        }
        tx.rollback().await.map_err(classify)?;
        Ok(routes.told())
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        self.lane_backlogs(route).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        let asked = Asked::listed(&filter);
        let list = text(&asked, &self.statements.list).with(bind(&asked).done()?);
        seen(&list.fetch_all(self.pool()).await.map_err(classify)?)
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        request.filter.check()?;
        let asked = Asked::counted(&request.filter);
        let arguments = bind(&asked).text(request.by.as_str()).number(request.filter.limit.into()).done()?;
        let groups = text(&asked, &self.statements.count_by).with(arguments);
        let rows = groups.fetch_all(self.pool()).await.map_err(classify)?;
        let groups = rows.iter().map(Cells::of).map(|mut row| Ok((row.optional_text()?, row.count()?)));
        Ok(CountGroup::gather(request.by, groups.collect::<Result<Vec<_>>>()?))
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        self.delivery_waits(request).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let arguments = Bind::new().number(request.after).number(request.limit.into()).done()?;
        let page = self.statements.inventory.with(arguments);
        let rows = page.fetch_all(self.pool()).await.map_err(classify)?;
        rows.iter().map(|row| inventory_row(&mut Cells::of(row))).collect()
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        // One transaction, so that the trail explains the status that is shown.
        let mut tx = self.pool().begin().await.map_err(classify)?;
        let (ids, s) = ([id], &self.statements);
        let named = Asked::named(&ids);
        let rows = fetch(text(&named, &s.list), bind(&named), &mut tx).await?;
        let audit = fetch(&s.audit_of, Bind::new().text(&id.to_string()), &mut tx).await?;
        tx.rollback().await.map_err(classify)?;
        Ok(Story::tell(seen(&rows)?, &records(&audit)?))
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        let kinds: Vec<&str> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
        let arguments = Bind::new()
            .number(filter.limit.into())
            .value(filter.before)
            .json(&kinds)
            .value(filter.actor)
            .at(filter.since);
        let newest = self.statements.audit.with(arguments.done()?);
        records(&newest.fetch_all(self.pool()).await.map_err(classify)?)
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

async fn fetch(sql: &Sql, bind: Bind, connection: &mut SqliteConnection) -> Result<Vec<SqliteRow>> {
    sql.with(bind.done()?).fetch_all(connection).await.map_err(classify)
}

/// Entries as an operator sees them: the standing and the head follow the columns.
fn seen(rows: &[SqliteRow]) -> Result<Vec<Entry>> {
    let entry = |row: &SqliteRow| {
        let mut entry = decode(row).entry;
        let mut derived = Cells::from(row, COLUMNS.len());
        if derived.text()? == Status::InFlight.as_str() {
            entry.status = Status::InFlight;
        }
        entry.blocked_by = derived.event_id()?;
        Ok(entry)
    };
    rows.iter().map(entry).collect()
}

/// Records of the audit trail.
pub(crate) fn records(rows: &[SqliteRow]) -> Result<Vec<AuditRecord>> {
    rows.iter().map(|row| audit_record(&mut Cells::of(row))).collect()
}
