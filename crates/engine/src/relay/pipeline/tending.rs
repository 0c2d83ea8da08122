//! Tending what is in flight: renewing leases, stopping in time, and reaping what others left behind.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::{Effect, ExtendRequest, Extended, Leases, ReapRequest, Reaped};
use pillarbox_core::{Held, Result, format_duration};
use tokio::time::Instant;

use crate::observe::StoreCall;

use super::super::batch::BatchId;
use super::{Completion, Pipeline, REAP_LIMIT, Until, bounded};

/// Twice the time that a slow but living store gets to answer a renewal, where the lease allows it.
const RENEWAL_MIN: Duration = Duration::from_secs(4);
/// How often leases that no clock allows are looked for: that goes through everything that is not due yet.
const IMPOSSIBLE_INTERVAL: Duration = Duration::from_secs(30);
/// How often a relay looks whether its route has sagas that it leaves alone, at most.
const SAGAS_ASKED_EVERY: Duration = Duration::from_secs(10);

/// When leases are prolonged, and when what others left is looked for.
pub(super) struct Tends {
    pub(super) extending: bool,
    pub(super) extend_at: Instant,
    pub(super) reaping: bool,
    pub(super) reap_at: Instant,
    pub(super) reaped_once: bool,
    /// When leases that the database's clock has made impossible are looked for again.
    impossible_at: Instant,
    /// The last reap found relays that read the route by lanes.
    beside_lanes: bool,
    /// When to look for sagas that this relay leaves alone; `None`: it has told of them.
    sagas_asked_at: Option<Instant>,
}

impl Tends {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            extending: false,
            extend_at: now,
            reaping: false,
            reap_at: now,
            reaped_once: false,
            impossible_at: now,
            beside_lanes: false,
            sagas_asked_at: Some(now),
        }
    }
}

impl Pipeline<'_> {
    pub(super) fn start_extend(&mut self, now: Instant) {
        if self.tends.extending || self.flight.places.is_empty() || now < self.tends.extend_at {
            return;
        }
        let batches: Vec<BatchId> = self.flight.batches.keys().copied().collect();
        let mut held: Vec<Held> = self.flight.places.keys().copied().collect();
        held.sort_unstable();
        self.tends.extend_at = now + self.relay.options.renew_interval();
        self.tends.extending = true;
        let feed = Arc::clone(&self.relay.feed);
        let request = ExtendRequest { held: held.clone(), lease: self.relay.options.lease, now: None };
        // A renewal that gets no answer must leave time for another before deliveries are stopped.
        let lease = self.relay.options.lease;
        let patience = (lease / 3).max(RENEWAL_MIN).min(lease);
        self.underway.push(Box::pin(async move {
            let sent = Instant::now();
            let result = bounded(patience, feed.extend(request)).await;
            Completion::Extended { batches, held, sent, result }
        }));
    }

    pub(super) fn on_extended(
        &mut self,
        batches: &[BatchId],
        held: &[Held],
        sent: Instant,
        result: Result<Extended>,
    ) {
        self.tends.extending = false;
        match result {
            Ok(extended) => {
                self.store_failures = 0;
                // A batch that lost an entry keeps its old end: what is lost is refused at the settle anyway,
                // and the rest of that batch must not be published under a lease that it may not have. An entry
                // with a verdict says nothing: it is refused because its settle was faster than this answer.
                let lost: Vec<BatchId> = extended
                    .fenced
                    .iter()
                    .filter_map(|held| self.flight.places.get(held))
                    .filter(|(id, index)| {
                        self.flight.batches.get(id).is_some_and(|batch| batch.is_open(*index))
                    })
                    .map(|(id, _)| *id)
                    .collect();
                for id in batches.iter().filter(|id| !lost.contains(id)) {
                    if let Some(batch) = self.flight.batches.get_mut(id) {
                        batch.lease_end = sent + self.relay.options.lease;
                    }
                }
                if !lost.is_empty() {
                    tracing::warn!(
                        route = %self.relay.route, lost = lost.len(), of = held.len(),
                        "some leases had ended before they were renewed, so other relays may deliver these \
                         entries too. If this repeats, raise `lease` (now {})",
                        format_duration(self.relay.options.lease)
                    );
                }
            }
            Err(error) => {
                let wait = self.store_failed(StoreCall::Extend, error);
                self.tends.extend_at = Instant::now() + wait;
            }
        }
    }

    /// Stops what is past its deadline: the publish timeout, or the margin before its lease ends.
    pub(super) fn stop_overdue(&self, now: Instant) {
        let margin = self.relay.options.lease_margin();
        for batch in self.flight.batches.values().filter(|batch| batch.stop_at(margin) <= now) {
            if let Some(delivering) = &batch.delivering {
                delivering.abort();
            }
        }
    }

    pub(super) fn wants_reap(&self) -> bool {
        let again = self.until == Until::Stopped || !self.tends.reaped_once;
        again && self.grace_end.is_none() && self.fatal.is_none()
    }

    pub(super) fn start_reap(&mut self, now: Instant) {
        if self.tends.reaping || now < self.tends.reap_at || !self.wants_reap() {
            return;
        }
        self.tends.reaping = true;
        let at_work: Vec<Held> = self.flight.places.keys().copied().collect();
        let feed = Arc::clone(&self.relay.feed);
        let leases = if now >= self.tends.impossible_at { Leases::Impossible } else { Leases::Ended };
        let request = ReapRequest {
            route: Some(self.relay.route.clone()),
            limit: REAP_LIMIT,
            max_attempts: Some(self.relay.options.max_attempts),
            leases,
            steps: self.nature.steps,
            owner: self.relay.owner.clone(),
            effect: Effect::Apply,
            now: None,
        };
        let lease = self.relay.options.lease;
        if leases == Leases::Impossible {
            self.tends.impossible_at = now + IMPOSSIBLE_INTERVAL;
        }
        let asks = self.asks_for_sagas(now);
        let route = self.relay.route.clone();
        self.underway.push(Box::pin(async move {
            let result = bounded(lease, feed.reap(request, at_work)).await;
            let sagas = if asks && result.is_ok() {
                bounded(lease, feed.sagas_left_alone(&route)).await.unwrap_or(0)
            } else {
                0
            };
            Completion::Reaped { sagas, result }
        }));
    }

    /// Whether it is time to look for sagas that this relay leaves alone. Once it has told of some, never again.
    fn asks_for_sagas(&mut self, now: Instant) -> bool {
        let asks = self.tends.sagas_asked_at.is_some_and(|at| at <= now);
        if asks {
            self.tends.sagas_asked_at = Some(now + SAGAS_ASKED_EVERY);
        }
        asks
    }

    fn tell_sagas(&mut self, sagas: u64) {
        if sagas == 0 || self.tends.sagas_asked_at.is_none() {
            return;
        }
        self.tends.sagas_asked_at = None;
        let least = if sagas >= OPEN_SAGAS_MAX { "at least " } else { "" };
        tracing::warn!(
            route = %self.relay.route, sagas,
            "this relay cannot run sagas; sagas of this route that have not ended: {least}{sagas}. Their \
             steps wait until a relay with `Relay::sagas` and their handlers runs on this route"
        );
    }

    pub(super) fn on_reaped(&mut self, sagas: u64, result: Result<Reaped>) {
        self.tends.reaping = false;
        self.tell_sagas(sagas);
        match result {
            Ok(reaped) => {
                self.store_failures = 0;
                let before = self.tally;
                self.tally.reaped += reaped.released;
                if reaped.suspects {
                    self.suspects.expect();
                }
                self.tell_of_lanes(reaped.lane_sessions);
                self.tally.dead += u64::try_from(reaped.dead.len()).unwrap_or(u64::MAX);
                self.tell_deaths(&reaped.dead);
                let outcomes = self.tally.since(&before);
                self.relay.observer.tell(|observer| {
                    observer.reaped(&outcomes);
                    self.relay.feed.tell(observer);
                });
                let full = reaped.stale >= u64::from(REAP_LIMIT);
                self.tends.reaped_once |= !full;
                // A full sweep may have left some behind: go on at once.
                self.tends.reap_at = Instant::now();
                if !full {
                    self.tends.reap_at += self.relay.options.reap_interval;
                }
            }
            Err(error) => self.tends.reap_at = Instant::now() + self.store_failed(StoreCall::Reap, error),
        }
    }

    /// Says once that this relay stands by, and once that it goes on.
    fn tell_of_lanes(&mut self, sessions: u32) {
        let beside = sessions > 0;
        if beside == self.tends.beside_lanes {
            return;
        }
        self.tends.beside_lanes = beside;
        let route = &self.relay.route;
        if beside {
            tracing::warn!(
                %route, relays = sessions,
                "another relay delivers this route in order (order = \"key\"), so this relay claims nothing. \
                 It continues when that relay stops or its lease ends"
            );
        } else {
            tracing::info!(%route, "no relay delivers this route in order any more, so this relay continues");
        }
    }
}
