//! Giving lanes up.

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::HandOverRequest;
use sqlx::SqliteConnection;

use super::lanes_json;
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::{SqliteStore, Step, together};

pub(super) async fn hand_over(store: &SqliteStore, request: HandOverRequest) -> Result<()> {
    let mut connection = store.writer().await?;
    let (route, session) = (request.route.to_string(), request.session.to_string());
    match &request.lanes {
        Some(lanes) if lanes.is_empty() => Ok(()),
        Some(lanes) => {
            free(&store.statements, route, session, Some(lanes_json(lanes)?), &mut connection).await
        }
        None => together(&mut connection, &Leave { statements: &store.statements, route, session }).await,
    }
}

struct Leave<'a> {
    statements: &'a Statements,
    route: String,
    session: String,
}

#[async_trait]
impl Step for Leave<'_> {
    type Outcome = ();

    async fn run(&self, tx: &mut SqliteConnection) -> Result<()> {
        leave(self.statements, self.route.clone(), self.session.clone(), tx).await
    }
}

/// Ends a session and frees its lanes.
pub(super) async fn leave(
    statements: &Statements,
    route: String,
    session: String,
    tx: &mut SqliteConnection,
) -> Result<()> {
    free(statements, route.clone(), session.clone(), None, &mut *tx).await?;
    let leave = query(&statements.lanes_leave).bind(route).bind(session);
    leave.execute(tx).await.map(|_| ()).map_err(classify)
}

async fn free(
    statements: &Statements,
    route: String,
    session: String,
    lanes: Option<String>,
    connection: &mut SqliteConnection,
) -> Result<()> {
    let free = query(&statements.lanes_free).bind(route).bind(session).bind(lanes);
    free.execute(connection).await.map(|_| ()).map_err(classify)
}
