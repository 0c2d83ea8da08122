//! Giving lanes up.

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::HandOverRequest;
use sqlx::SqliteConnection;

use super::lanes_json;
use crate::call::{Statement, UnitOfWork};
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

pub(super) async fn hand_over(store: &SqliteStore, request: HandOverRequest) -> Result<()> {
    let (route, session) = (request.route.to_string(), request.session.to_string());
    match &request.lanes {
        Some(lanes) if lanes.is_empty() => Ok(()),
        Some(lanes) => {
            let free = free(&store.statements, &route, &session, Some(lanes_json(lanes)?));
            store.writer.execute(free).await.map(|_| ())
        }
        None => store.writer.together(&Leave { statements: &store.statements, route, session }).await,
    }
}

struct Leave<'a> {
    statements: &'a Statements,
    route: String,
    session: String,
}

#[async_trait]
impl UnitOfWork for &Leave<'_> {
    type Outcome = ();

    async fn run(self, tx: &mut SqliteConnection) -> Result<()> {
        leave(self.statements, &self.route, &self.session, tx).await
    }
}

/// Ends a session and frees its lanes.
pub(super) async fn leave(
    statements: &Statements,
    route: &str,
    session: &str,
    tx: &mut SqliteConnection,
) -> Result<()> {
    free(statements, route, session, None).execute(&mut *tx).await.map_err(classify)?;
    let leave = query(&statements.lanes_leave).bind(route.to_owned()).bind(session.to_owned());
    leave.execute(tx).await.map(|_| ()).map_err(classify)
}

fn free(statements: &Statements, route: &str, session: &str, lanes: Option<String>) -> Statement {
    query(&statements.lanes_free).bind(route.to_owned()).bind(session.to_owned()).bind(lanes)
}
