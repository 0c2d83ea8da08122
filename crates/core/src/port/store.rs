//! The relay's side of the outbox: claim, extend, settle, reap.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

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
/// Every operation is one atomic step of the database, and safe to call again: what was already done is
/// reported as fenced and changes nothing. A store that leases lanes implements that beside this trait.
#[async_trait]
pub trait Store: Send + Sync {
    /// Takes due entries of a route under a lease; the claim is the attempt.
    ///
    /// Two callers never hold one entry under a live lease. An entry whose lease has expired, or whose attempts are
    /// spent, is not handed out: [`reap`](Self::reap) returns the one and buries the other. While a relay reads the
    /// route by lanes nothing is. A store may go on from where its last claim ended and find
    /// what came before that a little later; it brings nothing only if nothing is due.
    async fn claim(&self, request: ClaimRequest) -> Result<Claim>;

    /// Prolongs leases that are still held.
    async fn extend(&self, request: ExtendRequest) -> Result<Extended>;

    /// Records what came of claimed entries, the whole batch at once.
    async fn settle(&self, request: SettleRequest) -> Result<Settled>;

    /// Returns expired leases to the queue, and buries what has no attempts left. Sessions of lanes whose lease has
    /// expired are buried too, so that a route can be changed from lanes to rows.
    async fn reap(&self, request: ReapRequest) -> Result<Reaped>;

    /// How many sagas of a route have not ended, up to [`OPEN_SAGAS_MAX`](crate::limits::OPEN_SAGAS_MAX): a relay that
    /// leaves their steps alone says so. Default: none, as in a store that keeps no sagas.
    async fn open_sagas(&self, _route: &RouteName) -> Result<u64> {
        Ok(0)
    }

    /// What retention of a relay on this store purges. Default: nothing, and the table grows until somebody purges it.
    fn purging(&self) -> Option<Purging> {
        None
    }
}

/// Whoever shares one passes it on as it is.
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

/// Which due entry is the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimOrder {
    /// By priority, then by the order of staging.
    #[default]
    Staged,
    /// By clock stamp, those without one last, then by staging time, then by the order of staging.
    Causal,
}

impl ClaimOrder {
    /// Puts entries in this order, the oldest first.
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

/// Which entries a claim wants, by what expired leases say of them. See [`company`](crate::company).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// Entries that are no suspects.
    #[default]
    Open,
    /// Suspects that are accused equally often, the least accused ones, and as many as may be together.
    Suspects {
        /// How many entries the caller has in flight already.
        beside: u32,
    },
}

/// Whether steps of sagas are meant, beside other entries.
///
/// Only a relay that knows sagas may have them: what it settles moves their saga. Delivered by another one, they would be
/// gone and their saga would never know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    /// They are left alone: whoever asks knows no sagas.
    #[default]
    Leave,
    /// They are taken as any other entry.
    Take,
}

/// A wish for due entries.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Of which route.
    pub route: RouteName,
    /// At most this many. Zero gives nothing.
    pub limit: u32,
    /// How long nobody else may claim them.
    pub lease: Duration,
    /// Who claims, for people. Ownership is the fence.
    pub owner: String,
    /// Attempts allowed where the entry does not say.
    pub max_attempts: u32,
    /// Which are the oldest.
    pub order: ClaimOrder,
    /// Suspects or others.
    pub company: Company,
    /// Whether steps of sagas are taken too.
    pub steps: Steps,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl ClaimRequest {
    /// Refuses what no store can mean, so that no database error has to.
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
        return Err(Error::invalid(format!("a batch of {limit}; at most {BATCH_MAX} entries are allowed")));
    }
    Ok(())
}

/// Refuses a lease of zero or over [`LEASE_MAX`].
pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() || lease > LEASE_MAX {
        return Err(Error::invalid(format!(
            "a lease must be longer than zero and at most {} hours",
            LEASE_MAX.as_secs() / 3600
        )));
    }
    Ok(())
}

/// Refuses zero attempts or more than [`ATTEMPTS_MAX`].
pub(crate) fn check_attempts(attempts: u32) -> Result<()> {
    if attempts == 0 || attempts > ATTEMPTS_MAX {
        return Err(Error::invalid(format!("max_attempts must be 1 to {ATTEMPTS_MAX}")));
    }
    Ok(())
}

/// What a claim took.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Claim {
    /// Entries as they are after the claim, oldest first.
    pub entries: Vec<Entry>,
    /// Rows that were claimed and cannot be read as entries; the caller settles them as dead.
    pub undecodable: Vec<Undecodable>,
    /// Suspects are due and were left where they are: they may go in a company of so many at most. A store that would
    /// have to look for them says so only when it is asked for suspects.
    pub suspects: Option<u32>,
}

/// A claimed row that cannot be read as an entry.
#[derive(Clone, Debug)]
pub struct Undecodable {
    /// The proof of the claim.
    pub held: Held,
    /// Which row, if that much can be read.
    pub event_id: Option<EventId>,
    /// Why, without the data.
    pub failure: Failure,
}

/// A wish to keep claimed entries for longer.
#[derive(Clone, Debug)]
pub struct ExtendRequest {
    /// Which claims.
    pub held: Vec<Held>,
    /// For how long from now.
    pub lease: Duration,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl ExtendRequest {
    /// Refuses what no store can mean.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lease out of range.
    pub fn check(&self) -> Result<()> {
        check_lease(self.lease)
    }
}

/// Which leases were prolonged. What is not in here is no longer held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Extended {
    /// Claims that somebody else owns by now, or that are settled or gone.
    pub fenced: Vec<Held>,
}

/// What to record of one claimed entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The destination confirmed it. Clears the last error.
    Delivered,
    /// It failed; due again after this long by the database's clock.
    Retry {
        /// How long nobody may claim it.
        after: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// Given up: dead, audited in the same step.
    Dead {
        /// What went wrong.
        failure: Failure,
    },
    /// Given back unharmed and due at once: the attempt does not count.
    Release {
        /// Why, if there is something to say.
        failure: Option<Failure>,
    },
    /// Not yet: pending again, due after this long by the database's clock, with a fresh budget of attempts.
    Park {
        /// How long nobody may claim it.
        after: Duration,
        /// What is shown of it meanwhile.
        failure: Failure,
    },
}

/// The verdict on one claimed entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The proof of the claim.
    pub held: Held,
    /// What to record.
    pub verdict: Verdict,
}

/// What happens to delivered entries at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// They stay until retention takes them.
    #[default]
    UntilPurged,
    /// They are deleted as they are settled (`retention.delivered = "0s"`).
    No,
}

/// A batch of verdicts. They are independent: one fenced entry does not disturb the others.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// Who settles, for the audit trail.
    pub owner: String,
    /// What to record.
    pub settlements: Vec<Settlement>,
    /// What happens to delivered entries.
    pub keep: Keep,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What a settle changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Settled {
    /// Entries that were changed.
    pub accepted: u64,
    /// Claims that somebody else owns by now, or that are settled or gone; nothing of them was changed.
    pub fenced: Vec<Held>,
}

/// Which leases a reap takes for over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leases {
    /// Those that have ended.
    #[default]
    Ended,
    /// Also those that begin later than they are long: the database's clock was set back since. To find them, everything
    /// of the route that is not due yet is looked at.
    Impossible,
}

/// A wish to return expired leases.
#[derive(Clone, Debug)]
pub struct ReapRequest {
    /// Of which route; `None`: of all.
    pub route: Option<RouteName>,
    /// At most this many.
    pub limit: u32,
    /// Attempts allowed where the entry does not say; `None`: bury nothing.
    pub max_attempts: Option<u32>,
    /// Which leases are over.
    pub leases: Leases,
    /// Whether steps of sagas are reaped too. Their attempts are those of the relay that has their handlers.
    pub steps: Steps,
    /// Who reaps, for the audit trail.
    pub owner: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl ReapRequest {
    /// Refuses what no store can mean.
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
    /// Which entry.
    pub event_id: EventId,
    /// Of which route.
    pub route: RouteName,
    /// Of which type.
    pub event_type: String,
    /// Claims that it took.
    pub attempts: u32,
    /// What went wrong last.
    pub failure: Failure,
}

/// What a reap found, and did unless it was a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Reaped {
    /// Expired leases found, within the limit.
    pub stale: u64,
    /// Of these, returned to the queue.
    pub released: u64,
    /// Entries buried because their attempts were spent; audited in the same step.
    pub dead: Vec<Death>,
    /// Entries that came back from an expired lease may be waiting, of this reap or an earlier one.
    pub suspects: bool,
    /// Relays that read the route by lanes: a claim by rows gets nothing while there are any.
    pub lane_sessions: u32,
}

impl Reaped {
    /// Adds what a reap of the sessions of lanes found.
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
            (claim(|request| request.limit = BATCH_MAX + 1), "a batch of 10001; at most 10000"),
            (claim(|request| request.lease = Duration::ZERO), "a lease must be longer than zero"),
            (claim(|request| request.lease = LEASE_MAX + Duration::from_nanos(1)), "at most 24 hours"),
            (claim(|request| request.max_attempts = 0), "max_attempts must be 1 to"),
            (claim(|request| request.max_attempts = ATTEMPTS_MAX + 1), "max_attempts must be 1 to"),
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
