//! `pillarbox dashboard`: the page, the API and health alone.

use std::net::SocketAddr;

use clap::Args;
use pillarbox_core::health::ProblemKind;
use tokio::sync::watch;

use crate::admin::{self, Plan, Process};
use crate::config::LISTEN_DEFAULT;
use crate::context::Context;
use crate::fault::Fault;
use crate::signal::Signals;

const EXAMPLES: &str = "\
The page shows whether events are moving, what is stuck, and why. /livez and /readyz are for probes, /api/v1 \
is for programs, and /api/v1/openapi.json describes it. Without a token, everybody who reaches the address may \
look, and with --allow-actions also act. With `token` in [admin], the page asks for it, and programs send it as \
`Authorization: Bearer TOKEN`. An address that other machines reach needs a token, and a proxy with TLS in \
front: see --behind-proxy.

Examples:
  pillarbox dashboard
  pillarbox dashboard --allow-actions
  pillarbox dashboard --listen 127.0.0.1:9000
  curl http://127.0.0.1:8025/readyz";

/// Where and for whom the page is served.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DashboardArgs {
    /// The address and port; port 0 takes a free one, and the first line says which
    /// [default: `listen` of [admin], else 127.0.0.1:8025]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Where no token is needed, let everybody who reaches the page requeue, discard and pause
    #[arg(long)]
    allow_actions: bool,
    /// A reverse proxy in front brings TLS, so cookies are only sent over it
    #[arg(long)]
    behind_proxy: bool,
}

pub(crate) async fn run(args: DashboardArgs, context: &Context) -> Result<(), Fault> {
    let config = context.config.admin.as_ref();
    let default = || LISTEN_DEFAULT.parse().map_err(|_| Fault::failed("the default address is not one"));
    let listen = match args.listen.or_else(|| config.and_then(|config| config.listen())) {
        Some(listen) => listen,
        None => default()?,
    };
    let plan = Plan {
        listen,
        allow_actions: args.allow_actions || config.is_some_and(|config| config.allow_actions()),
        behind_proxy: args.behind_proxy || config.is_some_and(|config| config.behind_proxy()),
    };
    plan.check(config)?;
    let mut signals = Signals::new()?;
    // The tables may be missing or older: the page says so until they are mended.
    crate::database::refuse_missing_file(&context.database_url())?;
    let database = context.connect().await?;
    let (_, current) = watch::channel(context.config.clone());
    let process =
        Process { metrics: pillarbox_metrics::Metrics::new(), current, stopping: &ProblemKind::ALL };
    let dashboard = admin::dashboard(&plan, &database, context, process)?;
    let listener = admin::listen(&plan).await?;
    let address = listener.local_addr().unwrap_or(plan.listen);
    let prefix = dashboard.prefix();
    context.out.say(format_args!("the page is at http://{address}{prefix}/"));
    let (stop, stopped) = watch::channel(false);
    let until = async {
        let mut stopped = stopped;
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let serving = dashboard.serve(listener, until);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            () = &mut serving => break,
            _ = signals.next() => if stop.send_replace(true) { break },
        }
    }
    database.staging.close().await;
    Ok(())
}
