//! What operators change: entries by hand, and whether a route is paused. Audited first.

use std::collections::BTreeSet;

use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{
    Changed, Effect, Filter, PauseChange, PauseRequest, PauseTo, Selection, SelectionRequest, Skip, Skipped,
};
use pillarbox_core::{
    Action, AuditKind, Error, ErrorKind, EventId, Result, RouteName, SagaId, Standing, Status, check_name,
};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};

use crate::bind::Bind;
use crate::call::Line;
use crate::error::Phase;
use crate::meant::Asked;
use crate::store::PostgresStore;

/// What is done to entries by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Requeue,
    Discard,
    Hasten,
    Cancel,
}

impl Verb {
    fn action(self) -> Action {
        match self {
            Self::Requeue => Action::Requeue,
            Self::Discard => Action::Discard,
            Self::Hasten => Action::Hasten,
            Self::Cancel => Action::Cancel,
        }
    }

    fn audited_as(self) -> AuditKind {
        match self {
            Self::Requeue => AuditKind::Requeued,
            Self::Discard => AuditKind::Discarded,
            Self::Hasten => AuditKind::Hastened,
            Self::Cancel => AuditKind::Cancelled,
        }
    }

    /// The stored statuses that it takes.
    fn takes(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |status| status.after(self.action()).is_some())
    }

    /// Of these, those that the filter means.
    fn statuses(self, filter: &Filter) -> Vec<Status> {
        let meant = filter.status.map_or(&Status::ALL[..], Standing::stored);
        self.takes().filter(|status| meant.contains(status)).collect()
    }
}

impl PostgresStore {
    /// One transaction: what is there, the audit records, the change.
    pub(crate) async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        check_name("actor", &request.actor)?;
        let readers = self.readers().await?;
        let any = Filter::default();
        let (ids, filter, limit) = match &request.selection {
            Selection::Ids(ids) => (Some(&ids[..]), &any, None),
            Selection::Matching(filter) => (None, filter, request.limit),
        };
        let statuses = if ids.is_some() { Status::ALL.to_vec() } else { verb.statuses(filter) };
        let waits = verb == Verb::Hasten && ids.is_none();
        let asked = Asked { filter, ids, statuses, limit, waits, now: request.now };
        let mut unit = self.begin(Line::Operator).await?;
        let found = unit.rows(&self.sql().selected, asked.bind(&readers).done()?).await?;
        let (picked, mut changed) = sift(&found, verb, ids)?;
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
                .value(verb == Verb::Cancel);
            let rows = unit.rows(sql, arguments.done()?).await?;
            let done: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
            let done = u64::try_from(done).unwrap_or(0);
            // Somebody else was faster with the others.
            changed.skipped += changed.changed.saturating_sub(done);
            changed.changed = done;
        }
        unit.commit(Phase::Committing).await?;
        Ok(changed)
    }

    /// One transaction: how it is, the audit record, the change.
    pub(crate) async fn change_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        request.check()?;
        let mut unit = self.begin(Line::Operator).await?;
        let route = || Bind::new().text(request.route.as_str());
        let known = unit.rows(&self.sql().pause_lock, route().done()?).await?;
        let paused: bool = known.first().map_or(Ok(false), |row| get(row, 0))?;
        let wanted = request.to == PauseTo::Paused;
        let change = if paused == wanted { PauseChange::Already } else { PauseChange::Changed };
        if change == PauseChange::Changed {
            let kind = if wanted { AuditKind::RoutePaused } else { AuditKind::RouteResumed };
            let set = route()
                .text(&request.actor)
                .text(&request.reason)
                .at(request.now)
                .text(kind.as_str())
                .value(wanted);
            unit.rows(&self.sql().pause_set, set.done()?).await?;
        }
        unit.commit(Phase::Committing).await?;
        Ok(change)
    }
}

/// The rows of `selected.sql` that can be changed, and what is told of them and of the others.
fn sift(rows: &[PgRow], verb: Verb, ids: Option<&[EventId]>) -> Result<(Vec<i64>, Changed)> {
    let mut picked = Vec::new();
    let mut known = BTreeSet::new();
    let mut sagas = BTreeSet::new();
    let mut changed = Changed::default();
    for row in rows {
        let seq = get(row, 0)?;
        let event_id = EventId(get(row, 1)?);
        known.insert(event_id);
        changed.cursor = Some(seq);
        let saga = get::<Option<&str>>(row, 7)?.map(str::parse::<SagaId>).transpose()?;
        if get::<&str>(row, 3)?.parse::<Status>()? == Status::Dead {
            sagas.extend(saga);
        }
        match refusal(row, verb, saga)? {
            None => picked.push(seq),
            Some(why) => {
                let route = RouteName::new(get::<String>(row, 2)?)?;
                changed.skip(Skipped { event_id, route, why });
            }
        }
    }
    changed.sagas = sagas.into_iter().take(usize::try_from(LIST_MAX).unwrap_or(usize::MAX)).collect();
    // An id that was named twice is missing once.
    changed.missing = ids.into_iter().flatten().copied().filter(|id| known.insert(*id)).collect();
    changed.changed = picked.len() as u64;
    Ok((picked, changed))
}

/// Why a row of `selected.sql`, a step of this open saga, cannot be changed so; `None`: it can.
fn refusal(row: &PgRow, verb: Verb, saga: Option<SagaId>) -> Result<Option<Skip>> {
    let status: Status = get::<&str>(row, 3)?.parse()?;
    if status.after(verb.action()).is_none() {
        return Ok(Some(Skip::Standing(get::<&str>(row, 4)?.parse()?)));
    }
    let (held, due): (bool, bool) = (get(row, 5)?, get(row, 6)?);
    Ok(match verb {
        Verb::Discard | Verb::Cancel if saga.is_some() => saga.map(Skip::OpenSaga),
        Verb::Hasten if due => Some(Skip::Due),
        Verb::Cancel if held => Some(Skip::LaneHeld),
        _ => None,
    })
}

fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, column: usize) -> Result<T> {
    row.try_get(column).map_err(|_| Error::new(ErrorKind::Corrupt, "the answer to a change cannot be read"))
}
