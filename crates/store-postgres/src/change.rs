//! What operators change: entries by hand, and whether a route is paused. Audited first.

use pillarbox_core::limits::AUDIT_TOLD_MAX;
use pillarbox_core::port::shared::{Asked, Columns, Verb, audit_record, candidate, sift};
use pillarbox_core::port::{Changed, Effect, PauseChange, PauseRequest, PauseTo, SelectionRequest};
use pillarbox_core::{Result, Status, check_name};

use crate::bind::Bind;
use crate::call::Traffic;
use crate::error::Phase;
use crate::meant::page;
use crate::row::Cells;
use crate::store::PostgresStore;

impl PostgresStore {
    /// One transaction: what is there, the audit records, the change.
    pub(crate) async fn change_entries(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        check_name("actor", &request.actor)?;
        let readers = self.readers().await?;
        let asked = Asked::selected(&request, verb);
        let mut unit = self.unit(Traffic::Operator).await?;
        let found = page(&mut unit, &self.sql().selected, &asked, &readers).await?;
        let found = found.iter().map(|row| candidate(&mut Cells::of(row)));
        let (picked, mut changed) = sift(found, verb, asked.ids)?;
        if request.effect == Effect::Apply && !picked.is_empty() {
            let sql = match verb {
                Verb::Requeue => &self.sql().requeue,
                Verb::Discard | Verb::Cancel => &self.sql().discard,
                Verb::Hasten => &self.sql().hasten,
            };
            if matches!(verb, Verb::Hasten | Verb::Cancel) {
                // A lane that is taken from here on is taken when the change is there.
                unit.rows(&self.sql().lanes_mark, Bind::new().value(picked.clone()).done()?).await?;
            }
            let arguments = Bind::new()
                .value(picked)
                .value(verb.takes().map(Status::as_str).collect::<Vec<_>>())
                .text(&request.actor)
                .at(request.now)
                .text(verb.audited_as().as_str())
                .value(verb == Verb::Cancel)
                .number(AUDIT_TOLD_MAX.into());
            let rows = unit.rows(sql, arguments.done()?).await?;
            let mut done = 0;
            for mut row in rows.iter().map(Cells::of) {
                done = row.count()?;
                changed.audit.push(audit_record(&mut row)?);
            }
            // Another operator was faster with the others.
            changed.fenced = changed.changed.saturating_sub(done);
            changed.skipped += changed.fenced;
            changed.changed = done;
        }
        unit.commit(Phase::Committing).await?;
        Ok(changed)
    }

    /// One transaction: how it is, the audit record, the change.
    pub(crate) async fn change_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        request.check()?;
        let mut unit = self.unit(Traffic::Operator).await?;
        let route = || Bind::new().text(request.route.as_str());
        let known = unit.rows(&self.sql().pause_lock, route().done()?).await?;
        let change = request.change(known.first().map_or(Ok(false), |row| Cells::of(row).flag())?);
        if change == PauseChange::Changed {
            let set = route()
                .text(&request.actor)
                .text(&request.reason)
                .at(request.now)
                .text(request.to.audited_as().as_str())
                .value(request.to == PauseTo::Paused);
            unit.rows(&self.sql().pause_set, set.done()?).await?;
        }
        unit.commit(Phase::Committing).await?;
        Ok(change)
    }
}
