//! The live page of the demo, on a terminal.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};

use pillarbox_dashboard::{Access, Dashboard, DashboardOptions, Ports, Role};
use tokio::net::TcpListener;

use super::state::Demo;
use crate::config::LISTEN_DEFAULT;
use crate::context::Context;
use crate::fault::Fault;
use crate::signal::Signals;

/// Any free port, if the usual one is taken.
const ANY_PORT: &str = "127.0.0.1:0";

/// A page that is open.
pub(super) struct Page {
    dashboard: Dashboard,
    listener: Mutex<Option<TcpListener>>,
    address: String,
}

/// Opens the page if a person sits in front of it.
pub(super) async fn open(demo: &Demo, exit: bool, context: &Context) -> Result<Option<Page>, Fault> {
    let is_watched = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    if exit || context.out.json || context.out.quiet || !is_watched {
        return Ok(None);
    }
    let listener = match TcpListener::bind(LISTEN_DEFAULT).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind(ANY_PORT)
            .await
            .map_err(|error| Fault::failed(format!("cannot open a port for the page: {error}")))?,
    };
    let ports = Ports {
        admin: Arc::clone(&demo.database.admin),
        sagas: Arc::clone(&demo.database.sagas),
        presence: Arc::clone(&demo.database.presence),
        schema: Arc::clone(&demo.database.schema),
        doctor: Arc::clone(&demo.database.doctor),
    };
    let options = DashboardOptions::default().title("demo").access(Access::Everybody(Role::Operator));
    let dashboard = Dashboard::new(ports, options)?;
    let address =
        listener.local_addr().map_or_else(|_| LISTEN_DEFAULT.to_owned(), |address| address.to_string());
    context.out.say(format_args!("watch it at http://{address}/"));
    Ok(Some(Page { dashboard, listener: Mutex::new(Some(listener)), address }))
}

/// Serves the page for ever, if there is one.
pub(super) async fn serve(page: Option<&Page>) {
    let listener = page.and_then(|page| page.listener.lock().ok()?.take());
    match page.zip(listener) {
        Some((page, listener)) => page.dashboard.serve(listener, std::future::pending()).await,
        None => std::future::pending().await,
    }
}

impl Page {
    /// Stays open until a signal comes.
    pub(super) async fn stay(
        &self,
        serving: impl Future<Output = ()>,
        context: &Context,
    ) -> Result<(), Fault> {
        // Only from now on: before, Ctrl-C ends the demo at once.
        let mut signals = Signals::new()?;
        context.out.say(format_args!("the page stays at http://{}/ until Ctrl-C", self.address));
        tokio::select! {
            () = serving => {}
            _ = signals.next() => {}
        }
        Ok(())
    }
}
