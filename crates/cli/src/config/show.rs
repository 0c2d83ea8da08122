//! The configuration as it takes effect: defaults filled in, secrets masked.

use std::collections::BTreeMap;

use pillarbox_core::port::ClaimOrder;
use pillarbox_core::{Jitter, RouteName, format_duration, redact_url};
use pillarbox_dashboard::{DashboardOptions, RouteFacts};
use pillarbox_engine::OnDead;
use serde::Serialize;

use super::{AdminConfig, Config, RouteConfig};

const MASK: &str = "***";

/// What `config show` prints, in the keys of the file.
#[derive(Serialize)]
pub(crate) struct Shown {
    database: Database,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    routes: BTreeMap<RouteName, Route>,
    retention: Retention,
    log: Log,
    trace: Trace,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<Admin>,
}

#[derive(Serialize)]
struct Log {
    format: &'static str,
}

#[derive(Serialize)]
struct Trace {
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    relation: &'static str,
}

#[derive(Serialize)]
struct Admin {
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    viewer_token: Option<&'static str>,
    allow_actions: bool,
    behind_proxy: bool,
    prefix: String,
    hosts: Vec<String>,
    unready: Vec<&'static str>,
    max_age: String,
    unrelayed_after: String,
    max_transaction_age: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_url: Option<String>,
}

impl Admin {
    fn new(admin: &AdminConfig) -> Self {
        let mut options = DashboardOptions::default();
        admin.apply(&mut options);
        Self {
            listen: admin.listen().map(|listen| listen.to_string()),
            token: admin.token().map(|_| MASK),
            viewer_token: admin.viewer_token().map(|_| MASK),
            allow_actions: admin.allow_actions(),
            behind_proxy: admin.behind_proxy(),
            unready: options.unready.iter().map(|kind| kind.as_str()).collect(),
            max_age: format_duration(options.limits.max_age),
            unrelayed_after: format_duration(options.limits.unrelayed_after),
            max_transaction_age: format_duration(admin.limits().transaction_age),
            trace_url: options.trace_url.map(|url| url.to_string()),
            prefix: options.prefix,
            hosts: options.hosts,
        }
    }
}

#[derive(Serialize)]
struct Database {
    url: String,
    prefix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure: bool,
}

#[derive(Serialize)]
struct Route {
    to: String,
    order: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    relays_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight_per_key: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_dead: Option<&'static str>,
    max_attempts: u32,
    lease: String,
    batch: u32,
    in_flight_max: u32,
    causal_order: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    publish_timeout: Option<String>,
    grace: String,
    poll_min: String,
    poll_max: String,
    reap_interval: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    allow_private: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    allow_http: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<u16>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secret: Vec<&'static str>,
    backoff: Backoff,
}

#[derive(Serialize)]
struct Backoff {
    base: String,
    max: String,
    multiplier: f64,
    jitter: bool,
}

#[derive(Serialize)]
struct Retention {
    delivered: String,
    inbox: String,
    sagas: String,
}

impl Shown {
    /// The configuration as it takes effect on the database at `url`.
    pub(crate) fn new(config: &Config, url: &str) -> Self {
        Self {
            database: Database {
                url: redact_url(url),
                prefix: config
                    .database
                    .prefix
                    .as_ref()
                    .map_or_else(|| "pillarbox".to_owned(), |name| name.0.as_str().to_owned()),
                schema: config.database.schema.as_ref().map(|name| name.0.as_str().to_owned()),
                insecure: config.database.insecure,
            },
            routes: config
                .routes
                .iter()
                .map(|(name, route)| (name.clone(), Route::new(config, route)))
                .collect(),
            retention: Retention {
                delivered: format_duration(config.retention.delivered()),
                inbox: format_duration(config.retention.inbox()),
                sagas: format_duration(config.retention.sagas()),
            },
            log: Log { format: config.log.format.as_str() },
            trace: Trace {
                endpoint: config.trace.endpoint.as_ref().map(|endpoint| endpoint.shown()),
                relation: config.trace.relation.as_str(),
            },
            admin: config.admin.as_ref().map(Admin::new),
        }
    }
}

impl Shown {
    /// What the page of each route says about its settings.
    pub(crate) fn facts(&self) -> BTreeMap<RouteName, RouteFacts> {
        let facts = |route: &Route| {
            let backoff = format!("{} to {}", route.backoff.base, route.backoff.max);
            let facts = [
                ("destination", route.to.clone()),
                ("order", route.order.to_owned()),
                ("attempts", route.max_attempts.to_string()),
                ("backoff", backoff),
                ("lease", route.lease.clone()),
                ("batch", route.batch.to_string()),
                ("on dead", route.on_dead.unwrap_or_default().to_owned()),
            ];
            let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
            told.map(|(name, value)| (name.to_owned(), value)).collect()
        };
        self.routes.iter().map(|(name, route)| (name.clone(), facts(route))).collect()
    }
}

impl Route {
    fn new(config: &Config, route: &RouteConfig) -> Self {
        let options = route.options(config.retention.delivered());
        Self {
            to: redact_url(&route.to.to_string()),
            order: if route.ordered { "key" } else { "none" },
            relays_max: route.ordered.then_some(options.relays_max),
            in_flight_per_key: route.ordered.then_some(options.in_flight_per_key),
            on_dead: route.ordered.then_some(match options.on_dead {
                OnDead::Block => "block",
                OnDead::Skip => "skip",
            }),
            max_attempts: options.max_attempts,
            lease: format_duration(options.lease),
            batch: options.batch,
            in_flight_max: options.in_flight_max,
            causal_order: options.order == ClaimOrder::Causal,
            publish_timeout: options.publish_timeout.map(format_duration),
            grace: format_duration(options.grace),
            poll_min: format_duration(options.poll_min),
            poll_max: format_duration(options.poll_max),
            reap_interval: format_duration(options.reap_interval),
            allow_private: route.webhook.allow_private,
            allow_http: route.webhook.allow_http,
            ports: route.webhook.ports.clone(),
            secret: route.webhook.secrets.iter().map(|_| MASK).collect(),
            backoff: Backoff {
                base: format_duration(options.backoff.base()),
                max: format_duration(options.backoff.max()),
                multiplier: options.backoff.multiplier(),
                jitter: options.backoff.jitter() == Jitter::Full,
            },
        }
    }
}
