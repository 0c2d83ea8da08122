//! The admin server of this process: what of the configuration and the command line becomes a dashboard.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use pillarbox_core::health::ProblemKind;
use pillarbox_core::port::Finding;
use pillarbox_core::{Error, redact_url};
use pillarbox_dashboard::{
    Access, Dashboard, DashboardOptions, Findings, Metrics, MetricsFormat, Ports, Role, Sampled,
};
use pillarbox_metrics::StoreSample;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::checkup::{self, Limits};
use crate::config::{AdminConfig, Config, Shown};
use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

/// Where and for whom the page is served.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) listen: SocketAddr,
    pub(crate) allow_actions: bool,
    pub(crate) behind_proxy: bool,
}

impl Plan {
    /// Refuses to serve to other machines without a token, or without TLS in front.
    pub(crate) fn check(&self, config: Option<&AdminConfig>) -> Result<(), Fault> {
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        let listen = self.listen;
        if config.is_none_or(|config| config.token().is_none() && config.viewer_token().is_none()) {
            return Err(Fault::usage(format!(
                "{listen} is open to other machines, so a token is needed. Make one with `openssl rand -hex 32`, \
                 and set token = \"${{PILLARBOX_TOKEN}}\" or token = \"${{file:PATH}}\" in [admin]; or listen on \
                 127.0.0.1"
            )));
        }
        if !self.behind_proxy {
            return Err(Fault::usage(format!(
                "{listen} is open to other machines, and the token would cross the network in plain text. Put a \
                 proxy with TLS in front and say so with --behind-proxy or behind_proxy = true in [admin], or listen \
                 on 127.0.0.1"
            )));
        }
        Ok(())
    }
}

/// What differs between the processes that serve a dashboard.
pub(crate) struct Process {
    /// What it counts.
    pub(crate) metrics: pillarbox_metrics::Metrics,
    /// The configuration, which may be read again. The doctor judges it as it is when somebody asks.
    pub(crate) current: watch::Receiver<Config>,
    /// The problems that can stop what this process does.
    pub(crate) stopping: &'static [ProblemKind],
}

/// A dashboard over this database.
pub(crate) fn dashboard(
    plan: &Plan,
    database: &Database,
    context: &Context,
    process: Process,
) -> Result<Dashboard, Fault> {
    let Process { metrics, current, stopping } = process;
    let ports = Ports {
        admin: database.admin.clone(),
        sagas: database.sagas.clone(),
        presence: database.presence.clone(),
        schema: database.schema.clone(),
        doctor: database.doctor.clone(),
    };
    let mut options = DashboardOptions::default();
    let config = context.config.admin.as_ref();
    let tokens = config.map(|config| (config.token().cloned(), config.viewer_token().cloned()));
    options.access = match tokens {
        Some((operator, viewer)) if operator.is_some() || viewer.is_some() => {
            Access::Tokens { operator, viewer }
        }
        _ if plan.allow_actions => Access::Everybody(Role::Operator),
        _ => Access::Everybody(Role::Viewer),
    };
    if let Some(config) = config {
        config.apply(&mut options);
    }
    options.unready.retain(|kind| stopping.contains(kind));
    options.secure = plan.behind_proxy;
    options.behind_proxy = plan.behind_proxy;
    options.actor = crate::context::operator();
    options.title = title(&context.database_url());
    let admin = database.admin.clone();
    options.metrics = Some(Metrics(Arc::new(move |sampled: Option<Sampled<'_>>, format: MetricsFormat| {
        match sampled {
            Some(Sampled { routes, sagas, relays, accepted, .. }) => {
                let sample = StoreSample::new(routes.to_vec(), sagas.clone(), relays.to_vec());
                metrics.set_store(&sample.pool(admin.connections()).accepted(accepted.clone()));
            }
            None => metrics.lose_store(),
        }
        match format {
            MetricsFormat::OpenMetrics => metrics.encode(),
            MetricsFormat::Plain => metrics.encode_plain(),
        }
    })));
    options.routes = Shown::new(&current.borrow(), &context.database_url()).facts();
    let limits = config.map_or_else(Limits::default, AdminConfig::limits);
    options.findings = Some(Arc::new(Examination { database: database.clone(), current, limits }));
    Ok(Dashboard::new(ports, options)?)
}

/// Serves the dashboard until the work ends. An address that is taken is refused before the work begins.
pub(crate) async fn beside<T>(
    work: impl Future<Output = T>,
    plan: &Plan,
    database: &Database,
    context: &Context,
    process: Process,
) -> Result<T, Fault> {
    plan.check(context.config.admin.as_ref())?;
    let current = process.current.clone();
    let dashboard = dashboard(plan, database, context, process)?;
    let listener = listen(plan).await?;
    let address = listener.local_addr().unwrap_or(plan.listen);
    context.out.say(format_args!("the page is at http://{address}{}/", dashboard.prefix()));
    tokio::select! {
        result = work => Ok(result),
        () = follow(&dashboard, context, current) => Err(Fault::failed("the page has ended")),
        () = dashboard.serve(listener, std::future::pending()) => Err(Fault::failed("the page has ended")),
    }
}

/// Shows the routes of each new configuration, for ever.
async fn follow(dashboard: &Dashboard, context: &Context, mut current: watch::Receiver<Config>) {
    while current.changed().await.is_ok() {
        dashboard.set_routes(Shown::new(&current.borrow_and_update(), &context.database_url()).facts());
    }
    std::future::pending().await
}

/// What `pillarbox doctor` finds, for the page.
struct Examination {
    database: Database,
    current: watch::Receiver<Config>,
    limits: Limits,
}

impl Findings for Examination {
    fn look(&self) -> Pin<Box<dyn Future<Output = Result<Vec<Finding>, Error>> + Send + '_>> {
        let config = self.current.borrow().clone();
        Box::pin(async move { checkup::examine(&self.database, &config, self.limits).await })
    }
}

/// The name of the database, without its user, password and host.
fn title(url: &str) -> String {
    let url = redact_url(url);
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    if name.is_empty() || name.contains('@') { "outbox".to_owned() } else { name.to_owned() }
}

/// Opens the port.
pub(crate) async fn listen(plan: &Plan) -> Result<TcpListener, Fault> {
    TcpListener::bind(plan.listen).await.map_err(|error| {
        Fault::failed(format!(
            "cannot listen on {}: {error}. Name another address with --listen or in [admin]",
            plan.listen
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_name_of_the_database_and_no_secret() {
        for (url, name) in [
            ("sqlite://pillarbox.db", "pillarbox.db"),
            ("sqlite:///var/lib/a.db?mode=rwc", "a.db"),
            ("postgres://app:hunter2@db.example.com:5432/shop?sslmode=require", "shop"),
            ("postgres://app:hunter2@db/", "outbox"),
            ("mongodb://a:b@h1,h2/orders?replicaSet=r", "orders"),
        ] {
            assert_eq!(title(url), name, "{url}");
        }
    }

    #[test]
    fn other_machines_need_a_token_and_tls() {
        let plan = |listen: &str, behind_proxy| Plan {
            listen: listen.parse().unwrap(),
            allow_actions: false,
            behind_proxy,
        };
        let with: AdminConfig = toml::from_str(&format!("token = \"{}\"", "t".repeat(32))).unwrap();
        assert!(plan("127.0.0.1:1", false).check(None).is_ok());
        assert!(plan("[::1]:1", false).check(None).is_ok());
        let fault = plan("0.0.0.0:1", true).check(None).unwrap_err();
        assert!(fault.exit_code() == 2 && fault.message().unwrap().contains("a token is needed"));
        let fault = plan("[::]:1", false).check(Some(&with)).unwrap_err();
        assert!(fault.exit_code() == 2 && fault.message().unwrap().contains("--behind-proxy"));
        assert!(plan("0.0.0.0:1", true).check(Some(&with)).is_ok());
    }
}
