//! What operators change: entries by hand, and whether a route is paused. Audited first.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::limits::AUDIT_TOLD_MAX;
use pillarbox_core::port::shared::{Asked, Candidate, Columns, Verb, candidate, sift};
use pillarbox_core::port::{Changed, Effect, PauseChange, PauseRequest, PauseTo, SelectionRequest};
use pillarbox_core::{Result, Status, check_name};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use crate::admin::records;
use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::meant::Page;
use crate::row::Cells;
use crate::sql::Statements;
use crate::store::MySqlStore;

impl MySqlStore {
    /// One transaction: what is there, the audit records, the change.
    pub(crate) async fn change_entries(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        check_name("actor", &request.actor)?;
        let change = Change { statements: &self.statements, request: &request, verb };
        if request.effect == Effect::DryRun {
            let asked = change.asked();
            let rows = self.together(Traffic::Operator, &change.look(&asked)).await?;
            return Ok(change.sift(candidates(&rows)?)?.1);
        }
        self.together(Traffic::Operator, &change).await
    }

    /// One transaction: how it is, the audit record, the change.
    pub(crate) async fn change_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        request.check()?;
        let make = self.statements.route_make.with(Bind::new().bytes(request.route.as_str()))?;
        self.execute(&make).await?;
        let pause = SetPause { statements: &self.statements, request: &request };
        self.together(Traffic::Operator, &pause).await
    }
}

struct Change<'a> {
    statements: &'a Statements,
    request: &'a SelectionRequest,
    verb: Verb,
}

fn candidates(rows: &[MySqlRow]) -> Result<Vec<Candidate>> {
    rows.iter().map(|row| candidate(&mut Cells::of(row))).collect()
}

impl Change<'_> {
    /// The look at what is selected.
    fn look<'b>(&'b self, asked: &'b Asked<'b>) -> Page<'b> {
        Page { statements: self.statements, statement: &self.statements.selected, asked }
    }

    fn asked(&self) -> Asked<'_> {
        Asked::selected(self.request, self.verb)
    }

    /// The rows to change, and the report about them and the other rows.
    fn sift(&self, found: Vec<Candidate>) -> Result<(Vec<i64>, Changed)> {
        sift(found.into_iter().map(Ok), self.verb, self.asked().ids)
    }

    /// Locks what was selected. Others may have changed it since the look; their status counts.
    async fn lock(&self, found: &mut [Candidate], tx: &mut MySqlConnection) -> Result<()> {
        let seqs: Vec<i64> = found.iter().map(|entry| entry.seq).collect();
        let rows = self.statements.selected_lock.with(Bind::new().json(&seqs))?.rows(tx).await?;
        let mut statuses: BTreeMap<i64, Status> = BTreeMap::new();
        for row in &rows {
            let mut row = Cells::of(row);
            statuses.insert(row.number()?, row.text()?.parse()?);
        }
        for entry in found {
            let now = statuses.get(&entry.seq).copied().unwrap_or(Status::Discarded);
            if now != entry.status {
                (entry.status, entry.standing) = (now, now.into());
            }
        }
        Ok(())
    }
}

#[async_trait]
impl UnitOfWork for Change<'_> {
    type Outcome = Changed;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Changed> {
        let asked = self.asked();
        let mut found = candidates(&self.look(&asked).run(tx).await?)?;
        self.lock(&mut found, tx).await?;
        let (picked, mut changed) = self.sift(found)?;
        if picked.is_empty() {
            return Ok(changed);
        }
        let (now, statements) = (self.request.now, self.statements);
        // The audit rows come before the status that they explain.
        let kind = self.verb.audited_as().as_str();
        let audit = Bind::new().at(now).text(kind).text(&self.request.actor).json(&picked);
        let first = statements.change_audit.with(audit)?.execute(tx).await?.told;
        let sql = match self.verb {
            Verb::Requeue => &statements.requeue,
            Verb::Discard | Verb::Cancel => &statements.discard,
            Verb::Hasten => &statements.hasten,
        };
        sql.with(Bind::new().at(now).json(&picked))?.execute(tx).await?;
        // The readers of these lanes are past these entries.
        statements.lanes_revise.with(Bind::new().json(&picked))?.execute(tx).await?;
        let told = &picked[..picked.len().min(usize::try_from(AUDIT_TOLD_MAX).unwrap_or(usize::MAX))];
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        let told = Bind::new().number(first).text(kind).json(&told);
        changed.audit = records(&statements.change_told.with(told)?.rows(tx).await?)?;
        Ok(changed)
    }
}

struct SetPause<'a> {
    statements: &'a Statements,
    request: &'a PauseRequest,
}

#[async_trait]
impl UnitOfWork for SetPause<'_> {
    type Outcome = PauseChange;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<PauseChange> {
        let SetPause { statements, request } = self;
        let route = request.route.as_str();
        let state = statements.pause_of.with(Bind::new().bytes(route))?.rows(tx).await?;
        let is_paused = state.first().map_or(Ok(false), |row| Cells::of(row).flag())?;
        let change = request.change(is_paused);
        if change == PauseChange::Already {
            return Ok(change);
        }
        let values = Bind::new().at(request.now).bytes(route).text(&request.actor).text(&request.reason);
        let kind = request.to.audited_as().as_str();
        statements.pause_audit.with(values.clone().text(kind))?.execute(tx).await?;
        let sql = match request.to {
            PauseTo::Paused => &statements.pause,
            PauseTo::Running => &statements.resume,
        };
        sql.with(values)?.execute(tx).await?;
        Ok(change)
    }
}
