//! The entries that an operator means, by ids or by a filter: how they are found, and the values of `matching.sql`.

use std::collections::BTreeSet;

use async_trait::async_trait;
use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::shared::Asked;
use pillarbox_core::{Result, RouteName, Standing, Status};
use serde::Serialize;
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::call::UnitOfWork;
use crate::front::Front;
use crate::reap::route_after;
use crate::sql::{Meant, Sql, Statements};

/// One of the looks for a page, each further than the one before it. The last one finds all entries, those before it all of the
/// oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// At so many that wait, in the order of staging.
    Waiting(usize),
    /// At so many of those that came back or have a due time.
    Back(usize),
    All,
}

/// The looks for these entries. So a page of what waits costs as much whatever the backlog is, unless few entries match.
fn looks(asked: &Asked<'_>) -> Vec<Look> {
    let waits = |status: &Status| matches!(status, Status::Pending | Status::Retrying);
    let page = match asked.limit {
        Some(page) if asked.ids.is_none() && page <= LIST_MAX && asked.statuses.iter().all(waits) => {
            page as usize
        }
        _ => return vec![Look::All],
    };
    let second = match asked.statuses[..] {
        [Status::Retrying] => Look::Back(page * 20),
        _ if asked.waits => Look::Back(page * 20),
        _ => Look::Waiting(page * 20),
    };
    vec![Look::Waiting(page * 2), second, Look::All]
}

/// The text that finds all of them by an index.
pub(crate) fn text<'m>(asked: &Asked<'_>, meant: &'m Meant) -> &'m Sql {
    let rare = |status: &Status| matches!(status, Status::Dead | Status::Discarded);
    match asked.ids {
        Some(_) => &meant.ids,
        None if asked.statuses.iter().all(rare) => &meant.ended,
        None if asked.filter.status == Some(Standing::Blocked) => &meant.blocked,
        None if !asked.statuses.iter().any(|status| status.is_terminal()) => &meant.live,
        None => &meant.any,
    }
}

/// The first of the entries that are meant, as many as the limit says, oldest first. Only the answer of one look is taken.
pub(crate) struct Page<'a> {
    pub(crate) statements: &'a Statements,
    pub(crate) statement: &'a Meant,
    pub(crate) asked: &'a Asked<'a>,
}

#[async_trait]
impl UnitOfWork for Page<'_> {
    type Outcome = Vec<MySqlRow>;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Vec<MySqlRow>> {
        let asked = self.asked;
        let looks = looks(asked);
        let routes = if looks.len() > 1 { self.routes(tx).await? } else { vec![] };
        for look in looks {
            let mut front = Front::new(asked, &routes, self.statements);
            match look {
                Look::Waiting(most) => front.waiting(most, tx).await?,
                Look::Back(most) => front.back(most, tx).await?,
                Look::All => break,
            }
            let rows = match front.seqs() {
                [] => vec![],
                seqs => self.statement.front.with(bind_seqs(asked, seqs))?.rows(tx).await?,
            };
            let is_full = asked.limit.is_some_and(|limit| rows.len() as u64 >= u64::from(limit));
            if is_full || front.is_whole() {
                return Ok(rows);
            }
        }
        text(asked, self.statement).with(bind(asked))?.rows(tx).await
    }

    /// Nothing is changed.
    fn stands(&self, _rows: &Vec<MySqlRow>) -> bool {
        false
    }
}

impl Page<'_> {
    /// The routes in which something may wait.
    async fn routes(&self, tx: &mut MySqlConnection) -> Result<Vec<Vec<u8>>> {
        if let Some(route) = &self.asked.filter.route {
            return Ok(vec![route.as_str().into()]);
        }
        let mut routes = BTreeSet::new();
        for part in [1, 2] {
            let mut before = Vec::new();
            while let Some(route) = route_after(self.statements, part, before, tx).await? {
                before = route.clone();
                routes.insert(route);
            }
        }
        Ok(routes.into_iter().collect())
    }
}

/// The values of `matching.sql`.
pub(crate) fn bind(asked: &Asked<'_>) -> Bind {
    let ids: Vec<String> = asked.ids.unwrap_or_default().iter().map(ToString::to_string).collect();
    bind_list(asked, &ids)
}

/// The same, where the entries are named by their seqs.
fn bind_seqs(asked: &Asked<'_>, seqs: &[i64]) -> Bind {
    bind_list(asked, &seqs)
}

fn bind_list(asked: &Asked<'_>, list: &impl Serialize) -> Bind {
    let filter = asked.filter;
    let limit = asked.limit.map_or(i64::MAX, i64::from);
    Bind::new()
        .optional_text(filter.status.map(Standing::as_str))
        .json(&numbers(asked))
        .optional_text(filter.route.as_ref().map(RouteName::as_str))
        .optional_text(filter.event_type.clone())
        .optional_text(filter.key.clone())
        .optional_text(filter.tenant.clone())
        .optional_text(filter.error_begins())
        .at(filter.since)
        .at(filter.until)
        .optional_number(filter.after)
        .json(list)
        .at(asked.now)
        // Where the standing is more than the status, the limit is put on what is left.
        .number(if asked.is_derived() { i64::MAX } else { limit })
        .number(limit)
        .optional_number(asked.waits.then_some(1))
        .optional_number(None)
}

/// The numbers of the statuses.
pub(crate) fn numbers(asked: &Asked<'_>) -> Vec<i64> {
    asked.statuses.iter().copied().map(number).collect()
}

/// The number of a status in the column's type.
pub(crate) fn number(status: Status) -> i64 {
    match status {
        Status::Pending => 1,
        Status::Retrying => 2,
        Status::InFlight => 3,
        Status::Delivered => 4,
        Status::Dead => 5,
        Status::Discarded => 6,
    }
}
