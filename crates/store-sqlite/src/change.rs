//! What operators change: entries by hand, and whether a route is paused. Audited first.

use async_trait::async_trait;
use pillarbox_core::limits::AUDIT_TOLD_MAX;
use pillarbox_core::port::shared::{Asked, Columns, Verb, candidate, sift};
use pillarbox_core::port::{Changed, Effect, PauseChange, PauseRequest, PauseTo, SelectionRequest};
use pillarbox_core::{Result, check_name};
use sqlx::SqliteConnection;

use crate::admin::records;
use crate::bind::Bind;
use crate::call::UnitOfWork;
use crate::error::classify;
use crate::meant::{bind, text};
use crate::row::Cells;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

impl SqliteStore {
    /// One transaction: what is there, the audit records, the change.
    pub(crate) async fn change_entries(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        check_name("actor", &request.actor)?;
        let step = Change { statements: &self.statements, request: &request, verb };
        if request.effect == Effect::DryRun {
            let mut reader = self.pool().acquire().await.map_err(classify)?;
            return Ok(step.find(&mut reader).await?.1);
        }
        self.writer.durably(&step).await
    }

    /// One transaction: how it is, the audit record, the change.
    pub(crate) async fn change_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        request.check()?;
        self.writer.durably(&SetPause { statements: &self.statements, request: &request }).await
    }
}

struct Change<'a> {
    statements: &'a Statements,
    request: &'a SelectionRequest,
    verb: Verb,
}

impl Change<'_> {
    /// The rows to change, and the report about them and the other rows.
    async fn find(&self, connection: &mut SqliteConnection) -> Result<(Vec<i64>, Changed)> {
        let asked = Asked::selected(self.request, self.verb);
        let selected = text(&asked, &self.statements.selected).with(bind(&asked).done()?);
        let found = selected.fetch_all(connection).await.map_err(classify)?;
        let found = found.iter().map(|row| candidate(&mut Cells::of(row)));
        sift(found, self.verb, asked.ids)
    }
}

#[async_trait]
impl UnitOfWork for &Change<'_> {
    type Outcome = Changed;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Changed> {
        let (picked, mut changed) = self.find(&mut *tx).await?;
        if picked.is_empty() {
            return Ok(changed);
        }
        let now = self.request.now;
        // The audit rows come before the status that they explain.
        let audit = Bind::new()
            .at(now)
            .text(self.verb.audited_as().as_str())
            .text(&self.request.actor)
            .json(&picked)
            .done()?;
        let audited = self.statements.change_audit.with(audit).execute(&mut *tx).await.map_err(classify)?;
        let rows = i64::try_from(audited.rows_affected()).unwrap_or(i64::MAX);
        let told = Bind::new()
            .number(audited.last_insert_rowid().saturating_sub(rows))
            .number(AUDIT_TOLD_MAX.into())
            .done()?;
        let told = self.statements.change_told.with(told).fetch_all(&mut *tx).await.map_err(classify)?;
        changed.audit = records(&told)?;
        let sql = match self.verb {
            Verb::Requeue => &self.statements.requeue,
            Verb::Discard | Verb::Cancel => &self.statements.discard,
            Verb::Hasten => &self.statements.hasten,
        };
        let arguments = Bind::new().at(now).json(&picked).done()?;
        sql.with(arguments).execute(&mut *tx).await.map_err(classify)?;
        // The readers of these lanes are past these entries.
        let revise = self.statements.lanes_revise.with(Bind::new().json(&picked).done()?);
        revise.execute(tx).await.map_err(classify)?;
        Ok(changed)
    }
}

struct SetPause<'a> {
    statements: &'a Statements,
    request: &'a PauseRequest,
}

#[async_trait]
impl UnitOfWork for &SetPause<'_> {
    type Outcome = PauseChange;

    async fn run(self, tx: &mut SqliteConnection) -> Result<PauseChange> {
        let SetPause { statements, request } = *self;
        let pauses = query(&statements.pauses).fetch_all(&mut *tx).await.map_err(classify)?;
        let is_it = |text: Result<String>| text.is_ok_and(|route| route == request.route.as_str());
        let change = request.change(pauses.iter().any(|row| is_it(Cells::of(row).text())));
        if change == PauseChange::Already {
            return Ok(change);
        }
        let values = || {
            Bind::new()
                .at(request.now)
                .text(request.route.as_str())
                .text(&request.actor)
                .text(&request.reason)
        };
        let audit = values().text(request.to.audited_as().as_str()).done()?;
        statements.pause_audit.with(audit).execute(&mut *tx).await.map_err(classify)?;
        let sql = match request.to {
            PauseTo::Paused => &statements.pause,
            PauseTo::Running => &statements.resume,
        };
        sql.with(values().done()?).execute(tx).await.map_err(classify)?;
        Ok(change)
    }
}
