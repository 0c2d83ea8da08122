//! The admin server beside the relays of this process, where the configuration names an address for it.

use pillarbox_metrics::Metrics;

use crate::admin::{self, Plan};
use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

/// Serves the page until the work ends. An address that is taken is refused before anything is relayed.
pub(super) async fn beside<T>(
    work: impl Future<Output = T>,
    database: &Database,
    context: &Context,
    metrics: Metrics,
) -> Result<T, Fault> {
    let config = context.config.admin.as_ref();
    let Some((config, listen)) = config.and_then(|config| Some((config, config.listen()?))) else {
        return Ok(work.await);
    };
    let plan = Plan { listen, allow_actions: config.allow_actions(), behind_proxy: config.behind_proxy() };
    plan.check(Some(config))?;
    let dashboard = admin::dashboard(&plan, database, context, metrics)?;
    let listener = admin::listen(&plan).await?;
    let address = listener.local_addr().unwrap_or(listen);
    context.out.say(format_args!("the page is at http://{address}{}/", dashboard.prefix()));
    tokio::select! {
        result = work => Ok(result),
        () = dashboard.serve(listener, std::future::pending()) => Err(Fault::failed("the page has ended")),
    }
}
