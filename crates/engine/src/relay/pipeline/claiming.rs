//! Claiming: when, how much, and what happens to what was claimed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::AbortHandle;
use pillarbox_core::port::{Claim, ClaimRequest, Company, Death, Undecodable, Verdict};
use pillarbox_core::{Entry, ErrorKind, Result};
use tokio::time::Instant;

use crate::circuit::Allowance;
use crate::feed::Conclusion;
use crate::observe::StoreCall;
use crate::options::RelayOptions;
use crate::poll::Poll;

use super::super::batch::{Batch, Delivery, deliver};
use super::super::window::Window;
use super::{Asked, Completion, Pipeline, Until, bounded};

/// When to claim next, and how much.
pub(super) struct Claims {
    /// One is under way.
    pub(super) under_way: bool,
    /// An event was staged since the last claim was sent, and that claim may not have seen it.
    pub(super) woken: bool,
    pub(super) at: Instant,
    /// The last claim found nothing while entries were in flight: ask again once they are settled.
    when_idle: bool,
    /// No claim is wanted any more.
    pub(super) enough: bool,
    /// How many entries may still be claimed; `None`: any number.
    pub(super) left: Option<u64>,
    /// A claim got all that it asked for, and the next one will want as much.
    prepare_wanted: bool,
    preparing: bool,
    pub(super) poll: Poll,
    window: Window,
}

impl Claims {
    pub(super) fn new(options: &RelayOptions, until: Until, now: Instant) -> Self {
        let window = match until {
            Until::Once => Window::full(options.batch, options.in_flight_bytes_max),
            Until::Drained | Until::Stopped => Window::growing(options.batch, options.in_flight_bytes_max),
        };
        Self {
            under_way: false,
            woken: false,
            at: now,
            when_idle: false,
            enough: false,
            left: None,
            prepare_wanted: false,
            preparing: false,
            poll: Poll::new(options.poll_min, options.poll_max),
            window,
        }
    }
}

impl Pipeline<'_> {
    /// Whether a claim is still wanted at all.
    pub(super) fn may_claim(&self) -> bool {
        !self.claims.under_way && !self.claims.enough && self.fatal.is_none() && self.grace_end.is_none()
    }

    fn room(&self) -> u32 {
        let room = self.claims.window.next(
            self.flight.places.len(),
            self.relay.options.in_flight_max,
            self.flight.bytes,
        );
        self.claims.left.map_or(room, |left| room.min(u32::try_from(left).unwrap_or(u32::MAX)))
    }

    /// When the next claim is to be sent, as things are; `None`: something else must happen first.
    pub(super) fn claim_wanted_at(&self, now: Instant) -> Option<Instant> {
        let idle = self.flight.places.is_empty();
        // The first claim waits for the first reap: an expired entry whose attempts are spent must be buried
        // before anybody counts what is due.
        if !self.may_claim() || !self.tends.reaped_once || (self.claims.when_idle && !idle) {
            return None;
        }
        self.suspects.next(self.flight.places.len())?;
        match self.circuit.allowance(now) {
            Allowance::Any if self.room() == 0 => None,
            Allowance::Any
                if self.claims.window.is_open(self.flight.places.len(), self.relay.options.in_flight_max) =>
            {
                Some(self.claims.at)
            }
            // A few free places are not worth a call each time that one more is freed. But they are taken in the end:
            // entries that take long must not hold back the others.
            Allowance::Any => Some(self.claims.at + self.relay.options.poll_max / 10),
            // One probe at a time: nothing else may be in flight.
            Allowance::Probe(_) => idle.then_some(self.claims.at),
            Allowance::Wait(at) => Some(self.claims.at.max(at)),
        }
    }

    pub(super) fn start_claim(&mut self, now: Instant) {
        if self.until != Until::Stopped && matches!(self.circuit.allowance(now), Allowance::Wait(_)) {
            // A drain does not wait out an outage: the entries are released, and the next run probes.
            self.claims.enough = true;
        }
        self.suspects.give_up_waiting(now, self.relay.options.lease);
        if self.claim_wanted_at(now).is_none_or(|at| now < at) {
            return;
        }
        let Some(company) = self.suspects.next(self.flight.places.len()) else { return };
        let idle = self.flight.places.is_empty();
        let limit = match self.circuit.allowance(now) {
            Allowance::Probe(most) => most.min(self.room().max(1)),
            Allowance::Any | Allowance::Wait(_) => self.room(),
        };
        self.claims.under_way = true;
        self.claims.woken = false;
        self.claims.when_idle = false;
        let feed = Arc::clone(&self.relay.feed);
        let options = &self.relay.options;
        let request = ClaimRequest {
            route: self.relay.route.clone(),
            limit,
            lease: options.lease,
            owner: self.relay.owner.clone(),
            max_attempts: options.max_attempts,
            order: options.order,
            company,
            steps: self.nature.steps,
            now: None,
        };
        let asked = Asked { limit, company, idle };
        let lease = self.relay.options.lease;
        self.underway.push(Box::pin(async move {
            // The lease is counted from before the call, so that we never think it longer than it is.
            let sent = Instant::now();
            let result = bounded(lease, feed.claim(request)).await;
            Completion::Claimed { asked, sent, result }
        }));
    }

    /// Lets the feed read on while the sink is at what it handed out. Only after a claim that was filled: a
    /// relay that has little to do asks when it is time to.
    pub(super) fn start_prepare(&mut self) {
        if !self.claims.prepare_wanted
            || self.claims.preparing
            || self.claims.enough
            || self.fatal.is_some()
            || self.until == Until::Once
        {
            return;
        }
        self.claims.prepare_wanted = false;
        self.claims.preparing = true;
        let feed = Arc::clone(&self.relay.feed);
        let limit = usize::try_from(self.relay.options.batch).unwrap_or(usize::MAX);
        let lease = self.relay.options.lease;
        self.underway
            .push(Box::pin(async move { Completion::Prepared(bounded(lease, feed.prepare(limit)).await) }));
    }

    /// A failure is no more than lost time: the next claim asks again, and says what is wrong.
    pub(super) fn on_prepared(&mut self, result: Result<()>) {
        self.claims.preparing = false;
        if let Err(error) = result {
            tracing::debug!(route = %self.relay.route, %error, "reading ahead failed");
        }
    }

    pub(super) fn on_claimed(&mut self, asked: Asked, sent: Instant, result: Result<Claim>) {
        self.claims.under_way = false;
        let claim = match result {
            Ok(claim) => claim,
            Err(error) => {
                self.claims.at = Instant::now() + self.store_failed(StoreCall::Claim, error);
                return;
            }
        };
        self.store_failures = 0;
        self.suspects.claimed(asked.company, &claim, Instant::now());
        self.relay.observer.tell(|observer| observer.claimed(&claim.entries, sent.elapsed()));
        let taken = claim.entries.len() + claim.undecodable.len();
        self.tally.claimed += u64::try_from(taken).unwrap_or(u64::MAX);
        if let Some(left) = &mut self.claims.left {
            *left = left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
            self.claims.enough |= *left == 0;
        }
        if asked.company == Company::Open {
            let lacking = usize::try_from(asked.limit).unwrap_or(usize::MAX).saturating_sub(taken);
            self.claims.prepare_wanted = self.relay.feed.is_worth_preparing(lacking);
            self.claims.window.claimed(asked.limit, &claim.entries);
        }
        for row in claim.undecodable {
            self.bury_undecodable(row, sent);
        }
        if !claim.entries.is_empty() {
            self.start_delivery(claim.entries, sent);
        }
        match asked.company {
            // Nothing to say about anybody else.
            Company::Suspects { .. } if taken == 0 => self.claims.at = Instant::now(),
            Company::Open if taken == 0 && self.suspects.are_expected() => self.claims.at = Instant::now(),
            _ if self.until == Until::Once => self.claims.enough = true,
            Company::Suspects { .. } => self.claims.at = Instant::now(),
            Company::Open if taken > 0 => {
                self.claims.poll.found();
                self.claims.at = Instant::now() + self.rest_after(taken, asked.limit);
            }
            Company::Open => self.on_nothing_due(asked.idle),
        }
    }

    /// How long to wait after a claim that took something. One that was far from filled has left nothing behind, and to ask
    /// again at once would cost the database as much as the claim itself; retries alone fill half of one. A drain asks at
    /// once: it is to end.
    fn rest_after(&self, taken: usize, asked: u32) -> Duration {
        let far_from_filled = taken < usize::try_from(asked / 2).unwrap_or(usize::MAX);
        if far_from_filled && self.until == Until::Stopped && !self.claims.woken {
            self.relay.options.poll_min
        } else {
            Duration::ZERO
        }
    }

    /// Where an entry waits for the one before it, what was just confirmed or settled may have let `enough` go.
    pub(super) fn claim_followers(&mut self, enough: usize, now: Instant) {
        // A store that fails gets the wait that it needs.
        if self.store_failures == 0 && self.relay.feed.has_followers(enough) {
            self.claims.when_idle = false;
            self.claims.at = now;
        }
    }

    /// Hands out the entries that waited behind entries that the destination has. A few are not worth a
    /// batch, unless there is little else: then they go when the others are settled.
    pub(super) fn follow_confirmed(&mut self, now: Instant) {
        if self.settles.confirmed.is_empty() {
            return;
        }
        self.relay.feed.confirmed(&self.settles.confirmed);
        self.settles.confirmed.clear();
        let batch = usize::try_from(self.relay.options.batch).unwrap_or(usize::MAX);
        self.claim_followers((self.flight.places.len() / 4).clamp(1, (batch / 2).max(1)), now);
    }

    fn on_nothing_due(&mut self, idle: bool) {
        match (self.until, idle) {
            (Until::Drained, true) => self.claims.enough = true,
            // What is in flight may come back as due: look once more when it has settled.
            (Until::Drained, false) => self.claims.when_idle = true,
            _ if self.claims.woken => self.claims.at = Instant::now(),
            _ => {
                let random = self.random();
                self.claims.at = Instant::now() + self.claims.poll.empty(random);
            }
        }
    }

    /// A row that no sink will see is in flight all the same until its verdict is recorded.
    fn bury_undecodable(&mut self, row: Undecodable, sent: Instant) {
        let Undecodable { held, event_id, failure } = row;
        tracing::warn!(
            route = %self.relay.route, seq = held.seq, %failure,
            "a stored entry cannot be read, so it is marked dead"
        );
        let death = event_id.map(|event_id| Death {
            event_id,
            route: self.relay.route.clone(),
            event_type: String::new(),
            attempts: 1,
            failure: failure.clone(),
        });
        let batch = self.batch(Vec::new(), sent);
        self.flight.add_undecodable(held, batch, death);
        self.conclude(Conclusion { held, verdict: Verdict::dead(failure), step: None });
    }

    fn batch(&mut self, entries: Vec<Entry>, sent: Instant) -> Batch {
        let options = &self.relay.options;
        if self.flight.places.is_empty() {
            self.tends.extend_at = sent + options.renew_interval();
        }
        Batch {
            open: vec![true; entries.len()],
            unsettled: entries.len(),
            bytes: entries.iter().map(|entry| entry.payload.len()).sum(),
            lease_end: sent + options.lease,
            deadline: options.publish_timeout.map(|timeout| Instant::now() + timeout),
            started: Instant::now(),
            delivering: None,
            release_rest: false,
            entries: Arc::new(entries),
        }
    }

    fn start_delivery(&mut self, entries: Vec<Entry>, sent: Instant) {
        let batch = self.batch(entries, sent);
        let id = self.flight.add(batch);
        self.note_probe(id);
        if self.grace_end.is_some() {
            // The claim was under way when the shutdown came: give back the entries that were not begun.
            self.release_open(id);
            return;
        }
        let Some(batch) = self.flight.batches.get_mut(&id) else { return };
        let (abort, registration) = AbortHandle::new_pair();
        batch.delivering = Some(abort);
        let delivery = Delivery {
            sink: Arc::clone(&self.relay.sink),
            batch: id,
            entries: Arc::clone(&batch.entries),
            reports: self.reports.clone(),
            traces: self.relay.traces.clone(),
        };
        self.underway.push(Box::pin(async move {
            let ended = deliver(delivery, registration).await;
            Completion::Delivered { batch: id, ended }
        }));
    }

    /// Notes a failed call to the store and says how long to wait before the next one.
    pub(super) fn store_failed(&mut self, call: StoreCall, error: pillarbox_core::Error) -> Duration {
        let doing = call.as_str();
        self.relay.observer.tell(|observer| observer.store_failed(call));
        self.store_failures = self.store_failures.saturating_add(1);
        let beyond_waiting =
            matches!(error.kind(), ErrorKind::Schema | ErrorKind::Invalid | ErrorKind::Unsupported);
        // A one-shot run waits only for contention: its caller waits for the answer.
        let out_of_patience = self.until != Until::Stopped
            && (error.kind() != ErrorKind::Contention || self.store_failures > super::STORE_FAILURES_MAX);
        tracing::warn!(
            route = %self.relay.route, %error, failures = self.store_failures,
            "the call to the store failed: {doing}"
        );
        let text = error.to_string();
        self.relay.shared.update(|state| state.stalled = Some(text));
        if (beyond_waiting || out_of_patience) && self.fatal.is_none() {
            self.fatal = Some(error.context(doing));
        }
        let doubling = 1_u32 << self.store_failures.saturating_sub(1).min(16);
        super::STORE_RETRY_MIN.saturating_mul(doubling).min(super::STORE_RETRY_MAX)
    }
}
