//! One route: where it delivers to and how.

use std::time::Duration;

use pillarbox_core::port::{ClaimOrder, Keep};
use pillarbox_core::{Backoff, Jitter};
use pillarbox_engine::{OnDead, RelayOptions};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::value::{Count, Multiplier, Period, Positive};
use crate::destination::{Destination, Secret, Webhook};

/// A route as the file says it, already checked as a whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Raw")]
pub struct RouteConfig {
    /// Where it delivers to.
    pub to: Destination,
    /// What goes with it where it is a webhook.
    pub webhook: Webhook,
    /// Whether the entries of one key follow each other: it is read by lanes.
    pub ordered: bool,
    /// Whether nobody has said if they do.
    order_unset: bool,
    options: RelayOptions,
}

impl RouteConfig {
    /// A route with the default policy.
    pub fn new(to: Destination) -> Self {
        Self {
            to,
            webhook: Webhook::default(),
            ordered: false,
            order_unset: true,
            options: RelayOptions::default(),
        }
    }

    /// The relay's policy; delivered entries are deleted at once when retention keeps them for no time.
    pub fn options(&self, retention_delivered: Duration) -> RelayOptions {
        let mut options = self.options.clone();
        options.keep = if retention_delivered.is_zero() { Keep::No } else { Keep::UntilPurged };
        // Each request ends by itself, and those that wait for their turn must not count as unanswered.
        if matches!(self.to, Destination::Http(_)) {
            options.publish_timeout = None;
        }
        options
    }

    /// Whether its order is the default, and nobody has chosen it.
    pub fn has_no_order_set(&self) -> bool {
        self.order_unset
    }

    /// Whether it claims by clock stamp.
    pub fn causal_order(&self) -> bool {
        self.options.order == ClaimOrder::Causal
    }
}

/// The keys of `[routes.NAME]`. What is left out has the default of [`RelayOptions::broker`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    to: Destination,
    order: Option<Order>,
    relays_max: Option<Count<1, 64>>,
    in_flight_per_key: Option<Count<1, 10_000>>,
    on_dead: Option<DeadHead>,
    max_attempts: Option<Count<1, 1_000_000>>,
    #[serde(default)]
    backoff: BackoffConfig,
    lease: Option<Positive>,
    batch: Option<Count<1, 10_000>>,
    #[serde(default)]
    causal_order: bool,
    in_flight_max: Option<Count<1, 1_000_000>>,
    publish_timeout: Option<Positive>,
    grace: Option<Period>,
    poll_min: Option<Positive>,
    poll_max: Option<Positive>,
    reap_interval: Option<Positive>,
    #[serde(default)]
    allow_private: bool,
    #[serde(default)]
    allow_http: bool,
    ports: Option<Ports>,
    #[serde(default)]
    secret: Secrets,
}

/// `ports`: which ones the URL of a webhook may name.
struct Ports(Vec<u16>);

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ports = Vec::<Count<1, 65_535>>::deserialize(deserializer)?;
        if ports.is_empty() {
            return Err(D::Error::custom(
                "the list of ports is empty; leave the key out to allow 443 and 80",
            ));
        }
        Ok(Self(ports.into_iter().filter_map(|port| u16::try_from(port.0).ok()).collect()))
    }
}

/// `secret`: the key that signs webhooks, or several while they are being changed.
#[derive(Default)]
struct Secrets(Vec<Secret>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Keys {
            One(String),
            Many(Vec<String>),
        }
        let keys = match Keys::deserialize(deserializer)? {
            Keys::One(key) => vec![key],
            Keys::Many(keys) => keys,
        };
        keys.iter().map(|key| key.parse().map_err(D::Error::custom)).collect::<Result<_, _>>().map(Self)
    }
}

/// `order`: whether entries of one key follow each other.
#[derive(Clone, Copy, Debug)]
enum Order {
    None,
    Key,
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "none" => Ok(Self::None),
            "key" => Ok(Self::Key),
            other => Err(D::Error::custom(format!("{other:?} is not an order; write \"key\" or \"none\""))),
        }
    }
}

/// `on_dead`: what a dead entry does to the entries of its key behind it.
#[derive(Clone, Copy, Debug)]
struct DeadHead(OnDead);

impl<'de> Deserialize<'de> for DeadHead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "block" => Ok(Self(OnDead::Block)),
            "skip" => Ok(Self(OnDead::Skip)),
            other => Err(D::Error::custom(format!("{other:?} is not allowed; write \"block\" or \"skip\""))),
        }
    }
}

/// `backoff`: the wait between attempts.
#[derive(Deserialize)]
#[serde(try_from = "RawBackoff")]
struct BackoffConfig(Backoff);

impl Default for BackoffConfig {
    fn default() -> Self {
        Self(Backoff::BROKER)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBackoff {
    base: Option<Positive>,
    max: Option<Positive>,
    multiplier: Option<Multiplier>,
    jitter: Option<bool>,
}

impl TryFrom<RawBackoff> for BackoffConfig {
    type Error = pillarbox_core::Error;

    fn try_from(raw: RawBackoff) -> pillarbox_core::Result<Self> {
        let default = Backoff::BROKER;
        let base = raw.base.map_or(default.base(), |base| base.0);
        // A base above the default maximum means what it says: the wait is then constant.
        let max = raw.max.map_or(default.max().max(base), |max| max.0);
        let jitter = if raw.jitter.unwrap_or(true) { Jitter::Full } else { Jitter::None };
        let multiplier = raw.multiplier.map_or(default.multiplier(), |multiplier| multiplier.0);
        Backoff::new(base, max, jitter)?.with_multiplier(multiplier).map(Self)
    }
}

impl TryFrom<Raw> for RouteConfig {
    type Error = pillarbox_core::Error;

    fn try_from(raw: Raw) -> pillarbox_core::Result<Self> {
        let mut options = RelayOptions::default();
        let set =
            |field: &mut Duration, value: Option<Positive>| *field = value.map_or(*field, |value| value.0);
        set(&mut options.lease, raw.lease);
        set(&mut options.poll_min, raw.poll_min);
        set(&mut options.poll_max, raw.poll_max);
        set(&mut options.reap_interval, raw.reap_interval);
        options.max_attempts = raw.max_attempts.map_or(options.max_attempts, |count| count.0);
        options.batch = raw.batch.map_or(options.batch, |count| count.0);
        options.in_flight_max =
            raw.in_flight_max.map_or(options.in_flight_max.max(options.batch), |count| count.0);
        options.backoff = raw.backoff.0;
        options.grace = raw.grace.map_or(options.grace, |grace| grace.0);
        options.publish_timeout = raw.publish_timeout.map(|timeout| timeout.0).or(options.publish_timeout);
        options.order = if raw.causal_order { ClaimOrder::Causal } else { ClaimOrder::Staged };
        let ordered = matches!(raw.order, Some(Order::Key));
        let by_key = [
            ("relays_max", raw.relays_max.is_some()),
            ("on_dead", raw.on_dead.is_some()),
            ("in_flight_per_key", raw.in_flight_per_key.is_some()),
        ];
        if let Some((name, _)) = by_key.iter().find(|(_, is_set)| *is_set && !ordered) {
            return Err(pillarbox_core::Error::invalid(format!(
                "{name} needs order = \"key\" on this route; add it, or remove {name}",
            )));
        }
        if ordered && raw.causal_order {
            return Err(pillarbox_core::Error::invalid(
                "order = \"key\" and causal_order cannot be used together; remove one of them",
            ));
        }
        if let Some(count) = raw.relays_max {
            options.relays_max = u8::try_from(count.0).unwrap_or(options.relays_max);
        }
        options.in_flight_per_key = raw.in_flight_per_key.map_or(options.in_flight_per_key, |count| count.0);
        options.on_dead = raw.on_dead.map_or(options.on_dead, |on_dead| on_dead.0);
        options.check()?;
        let webhook = Webhook {
            allow_private: raw.allow_private,
            allow_http: raw.allow_http,
            ports: raw.ports.map(|ports| ports.0),
            secrets: raw.secret.0,
            source: None,
        };
        webhook.check(&raw.to)?;
        Ok(Self { to: raw.to, webhook, ordered, order_unset: raw.order.is_none(), options })
    }
}
