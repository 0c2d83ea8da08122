//! The policy of one route.

use std::time::Duration;

use pillarbox_core::limits::{ATTEMPTS_MAX, BATCH_MAX, LEASE_MAX};
use pillarbox_core::port::{ClaimOrder, Keep, LANES};
use pillarbox_core::{Backoff, Error, OnDead, Result, format_duration};

/// How a relay treats its route. Every field has a default; [`RelayOptions::broker`] is the default.
///
/// ```
/// use std::time::Duration;
/// use pillarbox_engine::RelayOptions;
///
/// let options = RelayOptions::broker().max_attempts(10).lease(Duration::from_secs(60));
/// options.check()?;
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RelayOptions {
    /// How many attempts an entry has, unless the entry itself sets a number. Default: 5 for brokers, 8 for
    /// handlers.
    pub max_attempts: u32,
    /// The wait between attempts. Default: [`Backoff::BROKER`] or [`Backoff::HANDLER`].
    pub backoff: Backoff,
    /// How long a claim protects an entry. The relay renews the lease while it delivers the entry. Default:
    /// 30 s for brokers, 5 min for handlers.
    pub lease: Duration,
    /// The largest number of entries that one claim takes. Default: 500.
    pub batch: u32,
    /// The largest number of entries that are claimed and not yet settled. Default: 2,000.
    pub in_flight_max: u32,
    /// The most payload bytes that are claimed and not yet settled. The relay estimates them from the
    /// payloads that it has seen. Default: 32 MiB.
    pub in_flight_bytes_max: usize,
    /// The order in which due entries are claimed. Default: by staging.
    pub order: ClaimOrder,
    /// How long one delivery may take before its outcome counts as unknown. Default: 20 s for brokers. None
    /// for handlers: their lease is renewed for as long as they run.
    pub publish_timeout: Option<Duration>,
    /// How long deliveries may go on after the shutdown was requested. Default: 10 s.
    pub grace: Duration,
    /// The shortest wait after an empty claim. Default: 5 ms.
    pub poll_min: Duration,
    /// The longest wait after empty claims. Default: 1 s.
    pub poll_max: Duration,
    /// How often the relay looks for expired leases of other relays. Default: 10 s for brokers, 30 s for
    /// handlers.
    pub reap_interval: Duration,
    /// The wait before the relay tries a destination that is down again. Default: 500 ms doubling to 30 s.
    pub circuit: Backoff,
    /// What happens to an entry when it is delivered. Default: it stays until retention deletes it.
    pub keep: Keep,
    /// How many entries of one key can be under way together, 1 to 10,000. With more than one, a key is faster at a
    /// destination that takes one entry after the other, such as a webhook or a queue of RabbitMQ. **But the order of a
    /// key is then no longer promised**: if one of them fails, those behind it may have arrived, and the failed one comes
    /// after them. A destination that handles several at once, such as a webhook's receiver, may mix them up even
    /// without a failure. A sink with [`ordered_prefix`](pillarbox_core::port::SinkCapabilities::ordered_prefix) needs
    /// no such setting and ignores it. Only by lanes. Default: 1.
    pub in_flight_per_key: u32,
    /// How many relays can share the route at the same time, 1 to 64. Further relays stand by. If the running
    /// relays have different values, the lowest applies to all. Only by lanes. Default: 64.
    pub relays_max: u8,
    /// What happens to the later entries of a key when one of its entries is dead. Only by lanes. Default:
    /// they wait for an operator.
    pub on_dead: OnDead,
}

pillarbox_core::setters! {
impl RelayOptions {
    /// Sets [`max_attempts`](Self#structfield.max_attempts).
    max_attempts: u32;
    /// Sets [`backoff`](Self#structfield.backoff).
    backoff: Backoff;
    /// Sets [`lease`](Self#structfield.lease).
    lease: Duration;
    /// Sets [`batch`](Self#structfield.batch).
    batch: u32;
    /// Sets [`in_flight_max`](Self#structfield.in_flight_max).
    in_flight_max: u32;
    /// Sets [`in_flight_bytes_max`](Self#structfield.in_flight_bytes_max).
    in_flight_bytes_max: usize;
    /// Sets [`order`](Self#structfield.order).
    order: ClaimOrder;
    /// Sets [`publish_timeout`](Self#structfield.publish_timeout).
    publish_timeout: Option<Duration>;
    /// Sets [`grace`](Self#structfield.grace).
    grace: Duration;
    /// Sets [`poll_min`](Self#structfield.poll_min).
    poll_min: Duration;
    /// Sets [`poll_max`](Self#structfield.poll_max).
    poll_max: Duration;
    /// Sets [`reap_interval`](Self#structfield.reap_interval).
    reap_interval: Duration;
    /// Sets [`circuit`](Self#structfield.circuit).
    circuit: Backoff;
    /// Sets [`keep`](Self#structfield.keep).
    keep: Keep;
    /// Sets [`in_flight_per_key`](Self#structfield.in_flight_per_key).
    in_flight_per_key: u32;
    /// Sets [`relays_max`](Self#structfield.relays_max).
    relays_max: u8;
    /// Sets [`on_dead`](Self#structfield.on_dead).
    on_dead: OnDead;
}
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self::broker()
    }
}

impl RelayOptions {
    /// The options for a destination that confirms in milliseconds.
    #[must_use]
    pub fn broker() -> Self {
        Self {
            max_attempts: 5,
            backoff: Backoff::BROKER,
            lease: Duration::from_secs(30),
            batch: 500,
            in_flight_max: 2_000,
            in_flight_bytes_max: 32 * 1024 * 1024,
            order: ClaimOrder::Staged,
            publish_timeout: Some(Duration::from_secs(20)),
            grace: Duration::from_secs(10),
            poll_min: Duration::from_millis(5),
            poll_max: Duration::from_secs(1),
            reap_interval: Duration::from_secs(10),
            circuit: Backoff::CIRCUIT,
            keep: Keep::UntilPurged,
            in_flight_per_key: 1,
            relays_max: LANES,
            on_dead: OnDead::default(),
        }
    }

    /// The options for handlers: functions of this process, which may run for a long time.
    #[must_use]
    pub fn handlers() -> Self {
        Self {
            max_attempts: 8,
            backoff: Backoff::HANDLER,
            lease: Duration::from_secs(5 * 60),
            publish_timeout: None,
            reap_interval: Duration::from_secs(30),
            ..Self::broker()
        }
    }

    /// Refuses values that cannot work, before anything runs.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the field.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::invalid(why));
        if self.max_attempts == 0 || self.max_attempts > ATTEMPTS_MAX {
            return refuse(format!("max_attempts is {}; it must be 1 to {ATTEMPTS_MAX}", self.max_attempts));
        }
        if self.batch == 0 || self.batch > BATCH_MAX {
            return refuse(format!("batch is {}; it must be 1 to {BATCH_MAX}", self.batch));
        }
        if self.in_flight_max < self.batch {
            return refuse(format!(
                "in_flight_max is {}; it must be at least batch, which is {}",
                self.in_flight_max, self.batch
            ));
        }
        if self.in_flight_bytes_max == 0 {
            return refuse("in_flight_bytes_max must be more than zero".into());
        }
        if self.lease.is_zero() || self.lease > LEASE_MAX {
            return refuse(format!(
                "lease is {}; it must be more than zero and at most {} h",
                format_duration(self.lease),
                LEASE_MAX.as_secs() / 3600
            ));
        }
        if self.poll_min.is_zero() || self.poll_max < self.poll_min {
            return refuse(format!(
                "poll_min is {}; it must be more than zero and at most poll_max, which is {}",
                format_duration(self.poll_min),
                format_duration(self.poll_max)
            ));
        }
        if self.in_flight_per_key == 0 || self.in_flight_per_key > BATCH_MAX {
            let told = self.in_flight_per_key;
            return refuse(format!("in_flight_per_key is {told}; it must be 1 to {BATCH_MAX}"));
        }
        if self.relays_max == 0 || self.relays_max > LANES {
            return refuse(format!("relays_max is {}; it must be 1 to {LANES}", self.relays_max));
        }
        if self.reap_interval.is_zero() {
            return refuse("reap_interval must be more than zero".into());
        }
        if self.publish_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return refuse("publish_timeout must be more than zero".into());
        }
        Ok(())
    }

    /// How long before a lease's end nothing is published under it any more.
    pub(crate) fn lease_margin(&self) -> Duration {
        self.lease / 5
    }

    /// How often leases in use are renewed.
    pub(crate) fn renew_interval(&self) -> Duration {
        self.lease / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused_when_built() {
        let check = |change: fn(&mut RelayOptions), named: &str| {
            let mut options = RelayOptions::default();
            change(&mut options);
            let error = options.check().unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        };
        check(|options| options.max_attempts = 0, "max_attempts");
        check(|options| options.batch = 0, "batch");
        check(|options| options.batch = BATCH_MAX + 1, "batch");
        check(|options| options.in_flight_max = 1, "in_flight_max");
        check(|options| options.in_flight_bytes_max = 0, "in_flight_bytes_max");
        check(|options| options.lease = Duration::ZERO, "lease");
        check(|options| options.poll_min = Duration::ZERO, "poll_min");
        check(|options| options.poll_max = Duration::ZERO, "poll_max");
        check(|options| options.reap_interval = Duration::ZERO, "reap_interval");
        check(|options| options.in_flight_per_key = 0, "in_flight_per_key");
        check(|options| options.in_flight_per_key = BATCH_MAX + 1, "in_flight_per_key");
        check(|options| options.relays_max = 0, "relays_max");
        check(|options| options.relays_max = LANES + 1, "relays_max");
        check(|options| options.publish_timeout = Some(Duration::ZERO), "publish_timeout");
        RelayOptions::broker().check().unwrap();
        RelayOptions::handlers().check().unwrap();
    }
}
