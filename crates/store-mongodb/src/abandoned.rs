//! Ending transactions that a killed relay left open: the server itself would do it after a minute.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::Result;
use tokio::time::{Instant, timeout};

use crate::call::Traffic;
use crate::error::{Phase, classify};
use crate::store::MongoStore;

/// How long a transaction of a relay must have got no command until it counts as abandoned, in microseconds. If its relay is
/// alive after all, as with a slow callback of a saga, its work is rolled back and done again.
const IDLE: i64 = 5_000_000;
/// How often a store looks for abandoned transactions at most, however much is in its way.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After how long somebody may be in the way of a single write: the server lets it wait.
const IN_THE_WAY: Duration = Duration::from_millis(200);

/// When a store last looked for abandoned transactions.
#[derive(Default)]
pub(crate) struct LastLook(Mutex<Option<Instant>>);

impl LastLook {
    /// Whether it may look again. If so, that is the last look now.
    fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= LOOK_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// The name under which the server knows the connections of the relays of these collections. A name of the application's
/// own comes before it.
pub(crate) fn app_name(own: Option<&str>, database: &str, prefix: &str) -> String {
    let ours = format!("pillarbox-relay {database}.{prefix}");
    match own {
        // The server refuses more than 128 bytes.
        Some(own) if own.len() + ours.len() < 127 => format!("{own} {ours}"),
        _ => ours,
    }
}

impl MongoStore {
    /// Waits for a single write. While something may be in its way, ends abandoned transactions.
    pub(crate) async fn unobstructed<T>(&self, write: impl Future<Output = T>) -> T {
        let mut write = pin!(write);
        loop {
            match timeout(IN_THE_WAY, write.as_mut()).await {
                Ok(done) => return done,
                Err(_) => self.end_abandoned().await,
            }
        }
    }

    /// Ends the transactions of relays of these collections that got no command for a while, unless it has just looked for
    /// them.
    ///
    /// Called as soon as another transaction is in the way: whoever called may not have the time for a second try. Ending
    /// one changes nothing that was committed, and needs no right beyond those of a relay: a user may see and end its own
    /// sessions.
    pub(crate) async fn end_abandoned(&self) {
        if !self.last_look().is_due() {
            return;
        }
        match self.kill_abandoned().await {
            Ok(0) => {}
            Ok(count) => {
                tracing::warn!(
                    "ended {count} transactions that stopped relays had left open; their entries are delivered again. \
                     If this repeats, check why relays are killed"
                );
            }
            Err(error) => {
                tracing::debug!(%error, "abandoned transactions were not looked for; the server will end them");
            }
        }
    }

    async fn kill_abandoned(&self) -> Result<usize> {
        let operations = doc! { "allUsers": false, "idleConnections": false, "idleSessions": true };
        let idle = doc! { "active": false, "transaction.timeInactiveMicros": { "$gte": IDLE } };
        let pipeline = vec![
            doc! { "$currentOp": operations },
            doc! { "$match": idle },
            doc! { "$project": { "appName": 1, "lsid": 1 } },
        ];
        let admin = self.client_for(Traffic::Relay).database("admin");
        let failed = |error: mongodb::error::Error| classify(&error, Phase::Before);
        let look = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} };
        let found = admin.run_cursor_command(look).await.map_err(failed)?;
        let found: Vec<Document> = found.try_collect().await.map_err(failed)?;
        let ours = app_name(None, self.database_for(Traffic::Relay).name(), &self.tables.prefix);
        let is_ours = |found: &&Document| found.get_str("appName").is_ok_and(|name| name.ends_with(&ours));
        let session =
            |found: &Document| Some(doc! { "id": found.get_document("lsid").ok()?.get("id")?.clone() });
        let sessions: Vec<Bson> = found.iter().filter(is_ours).filter_map(session).map(Bson::from).collect();
        if sessions.is_empty() {
            return Ok(0);
        }
        let count = sessions.len();
        admin.run_command(doc! { "killSessions": sessions }).await.map_err(failed)?;
        Ok(count)
    }
}
