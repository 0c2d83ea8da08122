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
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::call::{Traffic, begin};
use crate::error::{Phase, classify};
use crate::meant::{Page, bind, number, text};
use crate::reap::route_after;
use crate::row::{COLUMNS, Cells, decode};
use crate::sql::{Sql, Statements};
use crate::store::MySqlStore;

/// One moment for all of a report, so that an entry that moves is counted once.
pub(crate) const SNAPSHOT: &str = "set transaction isolation level repeatable read; \
    start transaction with consistent snapshot, read only";

#[async_trait]
impl Admin for MySqlStore {
    fn connections(&self) -> Option<Pool> {
        Some(self.all_pools())
    }

    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        let mut tx = begin(self.pool(), SNAPSHOT).await?;
        let now = self.statements.now_or(now, &mut tx).await?;
        let mut routes = RouteTally::default();
        let firsts = tally(&self.statements, now, &mut routes, &mut tx).await?;
        let seqs: Vec<i64> = firsts.values().copied().collect();
        let mut created = BTreeMap::new();
        for row in &fetch(&self.statements.created, Bind::new().json(&seqs), &mut tx).await? {
            let mut row = Cells::of(row);
            created.insert(row.number()?, row.time()?);
        }
        for (route, seq) in firsts {
            routes.waits_since(&route, created.get(&seq).copied().flatten(), now);
        }
        tx.rollback().await.map_err(|error| classify(error, Phase::Before))?;
        Ok(routes.told())
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        self.lane_backlogs(route).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        let asked = Asked::listed(&filter);
        let page = Page { statements: &self.statements, statement: &self.statements.list, asked: &asked };
        seen(&self.together(Traffic::Operator, &page).await?)
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        request.filter.check()?;
        let asked = Asked::counted(&request.filter);
        let bind = bind(&asked).text(request.by.as_str()).number(request.filter.limit.into());
        let groups = text(&asked, &self.statements.count_by).with(bind)?;
        let rows = self.rows(Traffic::Operator, &groups).await?;
        let groups = rows.iter().map(Cells::of).map(|mut row| Ok((row.optional_text()?, row.count()?)));
        Ok(CountGroup::gather(request.by, groups.collect::<Result<Vec<_>>>()?))
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        self.delivery_waits(request).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let bind = Bind::new().number(request.after).number(request.limit.into());
        let rows = self.rows(Traffic::Operator, &self.statements.inventory.with(bind)?).await?;
        rows.iter().map(|row| inventory_row(&mut Cells::of(row))).collect()
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        // One moment, so that the trail explains the status that is shown.
        let mut tx = begin(self.pool(), SNAPSHOT).await?;
        let (ids, s) = ([id], &self.statements);
        let named = Asked::named(&ids);
        let rows = fetch(text(&named, &s.list), bind(&named), &mut tx).await?;
        let audit = fetch(&s.audit_of, Bind::new().bytes(*id.0.as_bytes()), &mut tx).await?;
        tx.rollback().await.map_err(|error| classify(error, Phase::Before))?;
        Ok(Story::tell(seen(&rows)?, &records(&audit)?))
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        let kinds: Vec<&str> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
        let arguments = Bind::new()
            .number(filter.limit.into())
            .optional_number(filter.before)
            .optional_text(Some(kinds.join(",")).filter(|kinds| !kinds.is_empty()))
            .optional_text(filter.actor)
            .at(filter.since);
        records(&self.rows(Traffic::Operator, &self.statements.audit.with(arguments)?).await?)
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

/// Adds up everything that indexes tell. Returns the oldest entry of each route that is due at once, by its row: when it
/// was staged is not in the index.
async fn tally(
    s: &Statements,
    now: Timestamp,
    routes: &mut RouteTally,
    tx: &mut MySqlConnection,
) -> Result<BTreeMap<RouteName, i64>> {
    let at = || Bind::new().at(Some(now));
    let mut firsts = BTreeMap::<RouteName, i64>::new();
    for row in &fetch(&s.count_ready, Bind::new(), tx).await? {
        let mut row = Cells::of(row);
        let (route, first) = (routes.count(&mut row)?, row.number()?);
        firsts.entry(route).and_modify(|known| *known = first.min(*known)).or_insert(first);
    }
    for row in &fetch(&s.count_due, at(), tx).await? {
        let mut row = Cells::of(row);
        let route = routes.count(&mut row)?;
        routes.waits_since(&route, row.time()?, now);
    }
    let limits = [
        (Status::Delivered, i64::from(COUNTED_MAX)),
        (Status::Dead, i64::MAX),
        (Status::Discarded, i64::from(COUNTED_MAX)),
    ];
    for (status, limit) in limits {
        let mut before = Vec::new();
        while let Some(route) = route_after(s, number(status), before, tx).await? {
            let ended = Bind::new().number(number(status)).bytes(route.clone()).number(limit);
            before = route;
            for row in &fetch(&s.count_ended, ended, tx).await? {
                routes.count(&mut Cells::of(row))?;
            }
        }
    }
    for row in &fetch(&s.count_handed, at(), tx).await? {
        routes.handed(&mut Cells::of(row))?;
    }
    for row in &fetch(&s.count_blocked, Bind::new().number(HEADS_NAMED_MAX.into()), tx).await? {
        routes.blocked(&mut Cells::of(row))?;
    }
    for row in &fetch(&s.pauses, Bind::new(), tx).await? {
        routes.paused(&mut Cells::of(row))?;
    }
    Ok(firsts)
}

async fn fetch(sql: &Sql, bind: Bind, connection: &mut MySqlConnection) -> Result<Vec<MySqlRow>> {
    sql.with(bind)?.rows(connection).await
}

/// Entries as an operator sees them: the standing and the head follow the columns.
fn seen(rows: &[MySqlRow]) -> Result<Vec<Entry>> {
    let entry = |row: &MySqlRow| {
        let (mut entry, mut derived) = (decode(row).entry, Cells::from(row, COLUMNS.len()));
        if derived.text()? == Status::InFlight.as_str() {
            entry.status = Status::InFlight;
        }
        entry.blocked_by = derived.event_id()?;
        Ok(entry)
    };
    rows.iter().map(entry).collect()
}

/// Records of the audit trail.
pub(crate) fn records(rows: &[MySqlRow]) -> Result<Vec<AuditRecord>> {
    rows.iter().map(|row| audit_record(&mut Cells::of(row))).collect()
}
