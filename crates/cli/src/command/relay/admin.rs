//! The admin server beside the relays of this process, where the configuration names an address for it.

use pillarbox_core::health::ProblemKind;
use pillarbox_metrics::Metrics;
use tokio::sync::watch;

use crate::admin::{self, Plan, Process};
use crate::config::Config;
use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

/// Serves the page until the work ends, with the routes of the configuration as it is in `current`.
pub(super) async fn beside<T>(
    work: impl Future<Output = T>,
    database: &Database,
    context: &Context,
    metrics: Metrics,
    current: watch::Receiver<Config>,
) -> Result<T, Fault> {
    let config = context.config.admin.as_ref();
    let Some((config, listen)) = config.and_then(|config| Some((config, config.listen()?))) else {
        return Ok(work.await);
    };
    let plan = Plan { listen, allow_actions: config.allow_actions(), behind_proxy: config.behind_proxy() };
    let process = Process { metrics, current, stopping: &ProblemKind::ALL };
    admin::beside(work, &plan, database, context, process).await
}
