//! Says that a relay is there and how it is, beside its work: nothing of the work waits for it or fails with it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::limits::{PRESENCE_LEASE_MAX, PRESENCE_LEASE_MIN};
use pillarbox_core::port::{AnnounceRequest, Presence, RunId};
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::Relay;

/// How often an announcement is repeated before it ends: one that is lost changes nothing.
const TIMES: u32 = 3;
/// The longest that one announcement may take: a store that hangs must not hold up the end of a run.
const CALL_MAX: Duration = Duration::from_secs(2);
/// How new entries are learned of.
const WAKE: &str = "poll";

/// Does the work; while it lasts the relay is announced, if it has a place for that.
pub(super) async fn announced<T>(relay: &Relay, mode: &'static str, work: impl Future<Output = T>) -> T {
    let Some(presence) = relay.presence.as_deref() else { return work.await };
    let run = RunId(pillarbox_host::random_u64().cast_signed());
    let herald = Herald { relay, presence, run, mode };
    let (ended, end) = oneshot::channel();
    let work = async move {
        let result = work.await;
        // The herald waits for this for as long as it lives.
        let _ = ended.send(());
        result
    };
    let (result, ()) = tokio::join!(work, herald.run(end));
    result
}

struct Herald<'a> {
    relay: &'a Relay,
    presence: &'a dyn Presence,
    run: RunId,
    mode: &'static str,
}

impl Herald<'_> {
    async fn run(&self, mut end: oneshot::Receiver<()>) {
        let mut failed = false;
        loop {
            // Not given up when the work ends: an announcement that arrived after its withdrawal would stay.
            let said = contained(self.presence.announce(self.announcement())).await;
            failed = self.tell(said, failed);
            tokio::select! {
                biased;
                _ = &mut end => break,
                () = self.relay.shared.turned.notified() => {}
                () = sleep(self.lease() / TIMES) => {}
            }
        }
        self.tell(contained(self.presence.withdraw(self.run)).await, failed);
    }

    /// How long an announcement holds: as long as a claim of the relay protects an entry, within bounds.
    fn lease(&self) -> Duration {
        self.relay.options.lease.clamp(PRESENCE_LEASE_MIN, PRESENCE_LEASE_MAX)
    }

    fn announcement(&self) -> AnnounceRequest {
        let state = self.relay.handle().state();
        AnnounceRequest {
            run: self.run,
            route: self.relay.route.clone(),
            owner: self.relay.owner.clone(),
            mode: self.mode.to_owned(),
            wake: WAKE.to_owned(),
            in_flight: u64::try_from(state.in_flight).unwrap_or(u64::MAX),
            circuit: state.circuit,
            outage: state.outage(),
            lease: self.lease(),
            on_dead: self.relay.feed.nature().ordered.then_some(self.relay.options.on_dead),
            now: None,
        }
    }

    /// Only the first failure in a row is worth a warning: the relay's own calls tell of a store that is away.
    fn tell(&self, said: Result<()>, failed_before: bool) -> bool {
        match said {
            Ok(()) => return false,
            Err(error) if failed_before => {
                tracing::debug!(route = %self.relay.route, %error, "the relay could still not be announced");
            }
            Err(error) => {
                tracing::warn!(
                    route = %self.relay.route, %error,
                    "this relay could not be announced, so `pillarbox status` does not show it; it goes on \
                     delivering"
                );
            }
        }
        true
    }
}

/// Bounds a call, and contains its panic.
async fn contained(call: impl Future<Output = Result<()>>) -> Result<()> {
    match timeout(CALL_MAX, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(said)) => said,
        Ok(Err(_panic)) => {
            Err(Error::new(ErrorKind::Internal, "the store panicked while announcing the relay"))
        }
        Err(_) => Err(Error::new(ErrorKind::Timeout, format!("no answer within {CALL_MAX:?}"))),
    }
}
