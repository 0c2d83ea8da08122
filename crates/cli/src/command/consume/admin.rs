//! The admin server beside a consumer, where an address is given for it.

use std::net::SocketAddr;

use pillarbox_core::health::ProblemKind;
use pillarbox_metrics::Metrics;
use tokio::sync::watch;

use crate::admin::{self, Plan, Process};
use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

/// What stops a consumer. Circuits, late routes and the like are told too, and concern relays.
const STOPPING: [ProblemKind; 2] = [ProblemKind::Database, ProblemKind::Tables];

/// Serves the page, health and metrics until the work ends.
pub(super) async fn beside<T>(
    work: impl Future<Output = T>,
    listen: Option<SocketAddr>,
    database: &Database,
    context: &Context,
    metrics: Metrics,
) -> Result<T, Fault> {
    let Some(listen) = listen else { return Ok(work.await) };
    let config = context.config.admin.as_ref();
    let plan = Plan {
        listen,
        allow_actions: config.is_some_and(|config| config.allow_actions()),
        behind_proxy: config.is_some_and(|config| config.behind_proxy()),
    };
    let (_, current) = watch::channel(context.config.clone());
    admin::beside(work, &plan, database, context, Process { metrics, current, stopping: &STOPPING }).await
}
