//! SIGINT, SIGTERM and SIGHUP, as something to wait for.

use crate::fault::Fault;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT or SIGTERM: to stop.
    Stop,
    /// SIGHUP: to read the configuration again.
    Reload,
}

/// The signals to this process, from now on instead of ending it.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
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
            Ok(Self {
                interrupt: take(SignalKind::interrupt())?,
                terminate: take(SignalKind::terminate())?,
                hangup: take(SignalKind::hangup())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Signal {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
        #[cfg(not(unix))]
        {
            let _ = tokio::signal::ctrl_c().await;
            Signal::Stop
        }
    }
}
