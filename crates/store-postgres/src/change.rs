//! What operators change: requeue and discard, audited first.

use std::collections::BTreeSet;

use pillarbox_core::port::{Changed, Effect, Selection, SelectionRequest};
use pillarbox_core::{AuditKind, Error, ErrorKind, EventId, Result, RouteName, SagaId, check_name};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::bind::Bind;
use crate::call::Line;
use crate::error::Phase;
use crate::store::PostgresStore;

impl PostgresStore {
    /// One transaction: what is there, the audit records, the change.
    pub(crate) async fn change(&self, request: SelectionRequest, kind: AuditKind) -> Result<Changed> {
        check_name("actor", &request.actor)?;
        let selection = Selected::new(&request.selection);
        let mut unit = self.begin(Line::Operator).await?;
        let found = unit.rows(&self.sql().selected, selection.bind().done()?).await?;
        let found = Found::read(found.first())?;
        let missing = selection.missing(&found.known);
        // A discard leaves the steps of open sagas as they are.
        let left = if kind == AuditKind::Discarded { found.steps } else { 0 };
        let changed = match request.effect {
            Effect::DryRun => found.dead.saturating_sub(left),
            Effect::Apply => {
                let sql = if kind == AuditKind::Requeued { &self.sql().requeue } else { &self.sql().discard };
                let bind = selection.bind().text(&request.actor).at(request.now);
                let rows = unit.rows(sql, bind.done()?).await?;
                rows.first().map_or(Ok(0), |row| number(row, 0))?
            }
        };
        unit.commit(Phase::Committing).await?;
        // By the filter, what is not dead was never meant. By id it was, whoever got there first.
        let skipped = if selection.ids.is_some() { found.entries.saturating_sub(changed + left) } else { 0 };
        Ok(Changed { changed, missing, skipped, sagas: found.sagas })
    }
}

/// The selection as values: what is `None` does not narrow.
struct Selected<'a> {
    ids: Option<Vec<Uuid>>,
    route: Option<&'a str>,
    event_type: Option<&'a str>,
    key: Option<&'a str>,
}

impl<'a> Selected<'a> {
    fn new(selection: &'a Selection) -> Self {
        match selection {
            Selection::Ids(ids) => {
                let ids = Some(ids.iter().map(|id| id.0).collect());
                Self { ids, route: None, event_type: None, key: None }
            }
            Selection::Matching(filter) => Self {
                ids: None,
                route: filter.route.as_ref().map(RouteName::as_str),
                event_type: filter.event_type.as_deref(),
                key: filter.key.as_deref(),
            },
        }
    }

    fn bind(&self) -> Bind {
        Bind::new().value(self.ids.clone()).value(self.route).value(self.event_type).value(self.key)
    }

    /// An id that was named twice is missing once.
    fn missing(&self, known: &[Uuid]) -> Vec<EventId> {
        let mut seen: BTreeSet<Uuid> = known.iter().copied().collect();
        self.ids.iter().flatten().filter(|id| seen.insert(**id)).map(|id| EventId(*id)).collect()
    }
}

/// What a selection finds before it is changed.
struct Found {
    dead: u64,
    entries: u64,
    known: Vec<Uuid>,
    /// Of the dead, those of sagas that have not ended; and these sagas.
    steps: u64,
    sagas: Vec<SagaId>,
}

impl Found {
    fn read(row: Option<&PgRow>) -> Result<Self> {
        let row = row.ok_or_else(unreadable)?;
        let known: Option<Vec<Uuid>> = row.try_get(2).map_err(|_| unreadable())?;
        let sagas: Option<Vec<String>> = row.try_get(4).map_err(|_| unreadable())?;
        Ok(Self {
            dead: number(row, 0)?,
            entries: number(row, 1)?,
            known: known.unwrap_or_default(),
            steps: number(row, 3)?,
            sagas: sagas.unwrap_or_default().iter().filter_map(|id| id.parse().ok()).collect(),
        })
    }
}

fn number(row: &PgRow, column: usize) -> Result<u64> {
    let number: i64 = row.try_get(column).map_err(|_| unreadable())?;
    Ok(u64::try_from(number).unwrap_or(0))
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "the answer to a change cannot be read")
}
