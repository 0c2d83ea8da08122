//! The relay's side of the outbox: claim, extend, settle, reap.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::duration::format_duration;
use crate::entry::{Entry, Held};
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::hlc::Hlc;
use crate::limits::{ATTEMPTS_MAX, BATCH_MAX, LEASE_MAX};
use crate::name::{RouteName, check_name};
use crate::outcome::Failure;
use crate::time::Timestamp;

use super::{Effect, Purging};

/// The outbox as a relay sees it, by rows.
///
/// Every operation is one atomic step of the database and may safely be called again. If it was already done, it
/// changes nothing and the entries are reported as fenced. A store that leases lanes implements
/// [`Lanes`](super::Lanes) beside this trait.
#[async_trait]
pub trait Store: Send + Sync {
    /// Takes due entries of a route under a lease. The claim is the attempt.
    ///
    /// Two callers never hold one entry under a live lease. A claim takes no entry whose lease has expired and none
    /// whose attempts are spent. [`reap`](Self::reap) returns the former and buries the latter. While a relay reads
    /// the route by lanes, a claim takes nothing.
    ///
    /// A store may continue from where its last claim ended, and find entries before that point a little later. It
    /// returns nothing only if nothing is due.
    async fn claim(&self, request: ClaimRequest) -> Result<Claim>;

    /// Extends leases that are still held.
    async fn extend(&self, request: ExtendRequest) -> Result<Extended>;

    /// Records the outcomes of a batch of claimed entries in one step.
    async fn settle(&self, request: SettleRequest) -> Result<Settled>;

    /// Returns the entries of expired leases to the queue, and buries entries that have no attempts left. Sessions
    /// of lanes whose lease has expired are buried too, so that a route can be changed from lanes to rows.
    async fn reap(&self, request: ReapRequest) -> Result<Reaped>;

    /// How many sagas of a route have not ended, up to [`OPEN_SAGAS_MAX`](crate::limits::OPEN_SAGAS_MAX). A relay
    /// that does not run their steps warns about them. Default: none, as in a store that keeps no sagas.
    async fn open_sagas(&self, _route: &RouteName) -> Result<u64> {
        Ok(0)
    }

    /// What the retention of a relay on this store purges. Default: nothing, and the table grows until an operator
    /// purges it.
    fn purging(&self) -> Option<Purging> {
        None
    }
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Store + ?Sized> Store for Arc<T> {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        (**self).claim(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        (**self).extend(request).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        (**self).settle(request).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        (**self).reap(request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        (**self).open_sagas(route).await
    }

    fn purging(&self) -> Option<Purging> {
        (**self).purging()
    }
}

/// The order in which due entries are claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimOrder {
    /// By priority, then by the order of staging.
    #[default]
    Staged,
    /// By clock stamp, then by staging time, then by the order of staging. Entries without a stamp come last.
    Causal,
}

impl ClaimOrder {
    /// Sorts entries in this order, the oldest first.
    pub fn sort(self, entries: &mut [impl Borrow<Entry>]) {
        match self {
            Self::Staged => entries.sort_unstable_by_key(|entry| {
                let entry = entry.borrow();
                (entry.priority, entry.seq)
            }),
            Self::Causal => entries.sort_unstable_by_key(|entry| {
                let entry = entry.borrow();
                (entry.hlc.map_or(i64::MAX, Hlc::raw), entry.created_at, entry.seq)
            }),
        }
    }
}

/// Whether a claim takes suspects or other entries. See [`company`](crate::company).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// Entries that are not suspects.
    #[default]
    Open,
    /// The suspects with the fewest crashes, all with the same number, and at most as many as may be in flight
    /// together.
    Suspects {
        /// How many entries the caller already has in flight.
        beside: u32,
    },
}

/// Whether a request includes the steps of sagas beside other entries.
///
/// Only a relay that runs sagas may take steps, because settling a step moves its saga. If another relay delivered
/// a step, the step would be gone and its saga would never learn of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    /// Steps are left alone, because the caller does not run sagas.
    #[default]
    Leave,
    /// Steps are taken like any other entry.
    Take,
}

/// A request for due entries.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The route.
    pub route: RouteName,
    /// The most entries to take. Zero: none.
    pub limit: u32,
    /// How long no other relay may claim the entries.
    pub lease: Duration,
    /// The name of the relay that claims, for people. The proof of ownership is the fence.
    pub owner: String,
    /// Attempts allowed for an entry that sets no limit itself.
    pub max_attempts: u32,
    /// The order in which entries are claimed.
    pub order: ClaimOrder,
    /// Whether to take suspects or other entries.
    pub company: Company,
    /// Whether the claim includes the steps of sagas.
    pub steps: Steps,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl ClaimRequest {
    /// Refuses a request that no store can carry out, before it becomes an error of the database.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a batch, lease or number of attempts out of range.
    pub fn check(&self) -> Result<()> {
        check_name("owner", &self.owner)?;
        check_batch(self.limit)?;
        check_lease(self.lease)?;
        check_attempts(self.max_attempts)
    }
}

/// Refuses a batch over [`BATCH_MAX`].
pub(crate) fn check_batch(limit: u32) -> Result<()> {
    if limit > BATCH_MAX {
        return Err(Error::invalid(format!("the batch is {limit}; at most {BATCH_MAX} entries are allowed")));
    }
    Ok(())
}

/// Refuses a lease of zero or over [`LEASE_MAX`].
pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() || lease > LEASE_MAX {
        return Err(Error::invalid(format!(
            "lease is {}; it must be longer than zero and at most {} hours",
            format_duration(lease),
            LEASE_MAX.as_secs() / 3600
        )));
    }
    Ok(())
}

/// Refuses zero attempts or more than [`ATTEMPTS_MAX`].
pub(crate) fn check_attempts(attempts: u32) -> Result<()> {
    if attempts == 0 || attempts > ATTEMPTS_MAX {
        return Err(Error::invalid(format!("max_attempts is {attempts}; it must be 1 to {ATTEMPTS_MAX}")));
    }
    Ok(())
}

/// The answer to a [`ClaimRequest`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Claim {
    /// Entries as they are after the claim, oldest first.
    pub entries: Vec<Entry>,
    /// Claimed rows that cannot be decoded as entries. The caller settles them as dead.
    pub undecodable: Vec<Undecodable>,
    /// Set if suspects are due and were not taken: the most entries that may be in flight together with them. A
    /// store that would have to search for suspects sets this only when the request asks for suspects.
    pub suspects: Option<u32>,
}

/// A claimed row that cannot be decoded as an entry.
#[derive(Clone, Debug)]
pub struct Undecodable {
    /// The proof of the claim.
    pub held: Held,
    /// The event id, if that much can be decoded.
    pub event_id: Option<EventId>,
    /// Why it cannot be decoded, without the data.
    pub failure: Failure,
}

/// A request to extend the leases of claimed entries.
#[derive(Clone, Debug)]
pub struct ExtendRequest {
    /// The claims to extend.
    pub held: Vec<Held>,
    /// How long the leases last, from now on.
    pub lease: Duration,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl ExtendRequest {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lease out of range.
    pub fn check(&self) -> Result<()> {
        check_lease(self.lease)
    }
}

/// The answer to an [`ExtendRequest`]. Every claim of the request that is not listed as fenced was extended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Extended {
    /// Claims whose entries are now owned by another relay, settled or gone. They are no longer held.
    pub fenced: Vec<Held>,
}

/// What to record for one claimed entry.
///
/// The list of verdicts is complete on purpose: a store that does not know one of them must not compile. The
/// fields of a verdict may grow, so they are made with [`retry`](Self::retry) and the other functions here.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The destination confirmed the entry. This clears the last error.
    Delivered,
    /// The attempt failed. The entry is due again after this long by the database's clock.
    #[non_exhaustive]
    Retry {
        /// How long no relay may claim it.
        after: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// The entry is given up. It becomes dead, and its death is audited in the same step.
    #[non_exhaustive]
    Dead {
        /// What went wrong.
        failure: Failure,
    },
    /// The entry is given back unharmed and is due at once. The attempt does not count.
    #[non_exhaustive]
    Release {
        /// Why, if there is a reason to show.
        failure: Option<Failure>,
    },
    /// It is too early for the entry. It is pending again and due after this long by the database's clock, with a
    /// fresh budget of attempts.
    #[non_exhaustive]
    Park {
        /// How long no relay may claim it.
        after: Duration,
        /// The reason shown until then.
        failure: Failure,
    },
}

impl Verdict {
    /// The attempt failed, and the entry is due again after this long.
    #[must_use]
    pub const fn retry(after: Duration, failure: Failure) -> Self {
        Self::Retry { after, failure }
    }

    /// The entry is given up.
    #[must_use]
    pub const fn dead(failure: Failure) -> Self {
        Self::Dead { failure }
    }

    /// The entry is given back unharmed, with a reason if there is one to show.
    #[must_use]
    pub fn release(failure: impl Into<Option<Failure>>) -> Self {
        Self::Release { failure: failure.into() }
    }

    /// It is too early for the entry: it is due after this long, with a fresh budget of attempts.
    #[must_use]
    pub const fn park(after: Duration, failure: Failure) -> Self {
        Self::Park { after, failure }
    }
}

/// The verdict on one claimed entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The proof of the claim.
    pub held: Held,
    /// What to record.
    pub verdict: Verdict,
}

/// Whether delivered entries are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// They are kept until retention purges them.
    #[default]
    UntilPurged,
    /// They are deleted when they are settled (`retention.delivered = "0s"`).
    No,
}

/// A batch of verdicts. They are independent of each other: one fenced entry does not affect the others.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// The name of the relay that settles, for the audit trail.
    pub owner: String,
    /// What to record.
    pub settlements: Vec<Settlement>,
    /// Whether delivered entries are kept.
    pub keep: Keep,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// The answer to a settle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Settled {
    /// Entries that were changed.
    pub accepted: u64,
    /// Claims whose entries are now owned by another relay, settled or gone. Nothing was changed for them.
    pub fenced: Vec<Held>,
}

/// Which leases a reap treats as expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leases {
    /// Leases that have ended.
    #[default]
    Ended,
    /// Also leases that begin further in the future than they are long, because the database's clock was set back
    /// since. To find them, the store looks at every entry of the route that is not due yet.
    Impossible,
}

/// A request to return the entries of expired leases.
#[derive(Clone, Debug)]
pub struct ReapRequest {
    /// The route. `None`: all routes.
    pub route: Option<RouteName>,
    /// The most entries to handle.
    pub limit: u32,
    /// Attempts allowed for an entry that sets no limit itself. `None`: bury nothing.
    pub max_attempts: Option<u32>,
    /// Which leases to treat as expired.
    pub leases: Leases,
    /// Whether the reap includes the steps of sagas. Their limit of attempts is that of the relay that has their
    /// handlers.
    pub steps: Steps,
    /// The name of the relay or operator that reaps, for the audit trail.
    pub owner: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl ReapRequest {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a batch or number of attempts out of range.
    pub fn check(&self) -> Result<()> {
        check_batch(self.limit)?;
        self.max_attempts.map_or(Ok(()), check_attempts)
    }
}

/// An entry that died, for hooks and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The event's id.
    pub event_id: EventId,
    /// The route.
    pub route: RouteName,
    /// The event type.
    pub event_type: String,
    /// How many attempts it had.
    pub attempts: u32,
    /// The last failure.
    pub failure: Failure,
}

/// What a reap found and, unless it was a dry run, did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Reaped {
    /// Expired leases that were found, up to the limit.
    pub stale: u64,
    /// How many of these were returned to the queue.
    pub released: u64,
    /// Entries that were buried because their attempts were spent. Their deaths are audited in the same step.
    pub dead: Vec<Death>,
    /// Whether suspects may be waiting, from this reap or an earlier one.
    pub suspects: bool,
    /// How many relays read the route by lanes. While there are any, a claim by rows gets nothing.
    pub lane_sessions: u32,
}

impl Reaped {
    /// Adds the result of a reap of lane sessions.
    pub fn with_sessions(mut self, sessions: Self) -> Self {
        self.stale += sessions.stale;
        self.released += sessions.released;
        self.dead.extend(sessions.dead);
        self.lane_sessions = sessions.lane_sessions;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(change: impl FnOnce(&mut ClaimRequest)) -> Result<()> {
        let mut request = ClaimRequest {
            route: RouteName::new("orders")?,
            limit: 1,
            lease: Duration::from_secs(1),
            owner: "w".into(),
            max_attempts: 1,
            order: ClaimOrder::Staged,
            company: Company::Open,
            steps: Steps::Leave,
            now: None,
        };
        change(&mut request);
        request.check()
    }

    #[test]
    fn what_no_store_can_mean_is_refused() {
        for (refused, refused_with) in [
            (claim(|request| request.limit = BATCH_MAX + 1), "the batch is 10001; at most 10000"),
            (claim(|request| request.lease = Duration::ZERO), "lease is 0s; it must be longer than zero"),
            (claim(|request| request.lease = LEASE_MAX + Duration::from_nanos(1)), "at most 24 hours"),
            (claim(|request| request.max_attempts = 0), "max_attempts is 0; it must be 1 to"),
            (claim(|request| request.max_attempts = ATTEMPTS_MAX + 1), "it must be 1 to"),
            (claim(|request| request.owner = String::new()), "owner must not be empty"),
        ] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains(refused_with), "{error}");
        }
    }

    #[test]
    fn what_is_at_the_bound_is_accepted() {
        claim(|request| request.limit = 0).unwrap();
        claim(|request| request.limit = BATCH_MAX).unwrap();
        claim(|request| request.lease = LEASE_MAX).unwrap();
        claim(|request| request.lease = Duration::from_nanos(1)).unwrap();
        claim(|request| request.max_attempts = ATTEMPTS_MAX).unwrap();
    }
}
