//! SIGINT and SIGTERM, as something to wait for.

use crate::fault::Fault;

/// The signals that ask this process to stop, from now on instead of ending it.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes the signals over.
    pub(crate) fn new() -> Result<Self, Fault> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let take = |kind| {
                signal(kind).map_err(|error| Fault::failed(format!("cannot listen for signals: {error}")))
            };
            Ok(Self { interrupt: take(SignalKind::interrupt())?, terminate: take(SignalKind::terminate())? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
