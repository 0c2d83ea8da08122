//! `[admin]`: the page, the API and health, served by `relay` and by `dashboard`.

use std::net::SocketAddr;

use pillarbox_core::health::{self, ProblemKind};
use pillarbox_dashboard::{DashboardOptions, Token, TraceUrl};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::value::Positive;
use crate::checkup::Limits;

/// Where the page is served if nobody names another address.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:8025";

/// The admin server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminConfig {
    listen: Option<Listen>,
    token: Option<Secret>,
    viewer_token: Option<Secret>,
    #[serde(default)]
    allow_actions: bool,
    #[serde(default)]
    behind_proxy: bool,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    hosts: Vec<String>,
    unready: Option<Vec<Cause>>,
    max_age: Option<Positive>,
    unrelayed_after: Option<Positive>,
    max_transaction_age: Option<Positive>,
    trace_url: Option<Traces>,
}

/// An address and a port.
#[derive(Clone, Copy, Debug)]
struct Listen(SocketAddr);

/// A token of at least 32 characters.
#[derive(Clone, Debug)]
struct Secret(Token);

/// Where traces are looked at.
#[derive(Clone, Debug)]
struct Traces(TraceUrl);

/// The name of a problem.
#[derive(Clone, Copy, Debug)]
struct Cause(ProblemKind);

impl AdminConfig {
    /// The address to listen on, if the file names one.
    pub(crate) fn listen(&self) -> Option<SocketAddr> {
        self.listen.map(|listen| listen.0)
    }

    /// The token of operators.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_ref().map(|token| &token.0)
    }

    /// The token of viewers.
    pub(crate) fn viewer_token(&self) -> Option<&Token> {
        self.viewer_token.as_ref().map(|token| &token.0)
    }

    /// Whether everybody may act where no token is needed.
    pub(crate) fn allow_actions(&self) -> bool {
        self.allow_actions
    }

    /// Whether a proxy in front of the server brings TLS.
    pub(crate) fn behind_proxy(&self) -> bool {
        self.behind_proxy
    }

    /// From when on the doctor calls something a problem.
    pub(crate) fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            due_age: self.max_age.map_or(default.due_age, |age| age.0),
            transaction_age: self.max_transaction_age.map_or(default.transaction_age, |age| age.0),
        }
    }

    /// How long entries may wait.
    pub(crate) fn waits(&self) -> health::Limits {
        let default = health::Limits::default();
        health::Limits {
            max_age: self.max_age.map_or(default.max_age, |age| age.0),
            unrelayed_after: self.unrelayed_after.map_or(default.unrelayed_after, |age| age.0),
        }
    }

    /// Puts the other settings into options.
    pub(crate) fn apply(&self, options: &mut DashboardOptions) {
        options.prefix = self.prefix.clone();
        options.hosts = self.hosts.clone();
        if let Some(unready) = &self.unready {
            options.unready = unready.iter().map(|cause| cause.0).collect();
        }
        options.trace_url = self.trace_url.as_ref().map(|traces| traces.0.clone());
        options.limits = self.waits();
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| {
            D::Error::custom(format!(
                "{text:?} is not an address with a port; write for example \"{LISTEN_DEFAULT}\""
            ))
        })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Token::new(String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Traces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TraceUrl::new(String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}
