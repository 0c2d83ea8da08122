//! The settings of a dashboard.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pillarbox_core::health::{Limits, ProblemKind};
use pillarbox_core::port::{RelaySeen, RouteCounts, SagaCounts};
use pillarbox_core::{Error, Result, RouteName, check_name, setters};
use subtle::ConstantTimeEq as _;

use crate::findings::Findings;
use crate::sampler::Snapshot;
use crate::trace::TraceUrl;

/// The shortest token that is accepted, in bytes: 128 bits in hexadecimal.
const TOKEN_BYTES_MIN: usize = 32;
/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 512;
/// The longest path prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 200;
/// The most names of hosts.
const HOSTS_MAX: usize = 64;

/// What a user of the page or the API may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at everything, payloads included, and change nothing.
    #[default]
    Viewer,
    /// Change entries, routes and sagas too.
    Operator,
}

impl Role {
    /// The name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// A secret that a client shows. It is compared in constant time, and never printed.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// A token of 32 to 512 characters without spaces.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) for another one; the message does not repeat it.
    pub fn new(token: impl Into<String>) -> Result<Self> {
        let token = token.into();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || token.len() < TOKEN_BYTES_MIN || token.len() > TOKEN_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters without spaces; \
                 `openssl rand -hex 32` makes a good one"
            )));
        }
        Ok(Self(token.into()))
    }

    /// Whether a client showed this token. The time does not depend on where they differ.
    pub(crate) fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// Who may do what.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everybody who reaches the server has this role. Only for the loopback address.
    Everybody(Role),
    /// A request with a token has its role. A request without one is refused.
    Tokens {
        /// May look and act.
        operator: Option<Token>,
        /// May look.
        viewer: Option<Token>,
    },
}

impl Access {
    /// Whether a token is needed.
    #[must_use]
    pub const fn needs_token(&self) -> bool {
        matches!(self, Self::Tokens { .. })
    }

    /// The role of a client that shows this token.
    pub(crate) fn role_of(&self, shown: &str) -> Option<Role> {
        let Self::Tokens { operator, viewer } = self else { return None };
        let is = |token: &Option<Token>| token.as_ref().is_some_and(|token| token.is(shown));
        // Both are compared in every case.
        match (is(operator), is(viewer)) {
            (true, _) => Some(Role::Operator),
            (false, true) => Some(Role::Viewer),
            (false, false) => None,
        }
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::Everybody(Role::Viewer)
    }
}

/// What a route's page says about its configuration: pairs of a name and a value, secrets masked.
pub type RouteFacts = Vec<(String, String)>;

/// What the last look at the store has shown, for metrics.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sampled<'a> {
    /// Counts per route. Configured routes without entries are in it, with zeros.
    pub routes: &'a [RouteCounts],
    /// Counts of sagas.
    pub sagas: &'a SagaCounts,
    /// The relays that were seen, in any process.
    pub relays: &'a [RelaySeen],
    /// Events per second that each consumer accepted in the last ten seconds, in any process. Consumers that accepted
    /// something in the last fifteen minutes are in it.
    pub accepted: &'a BTreeMap<String, f64>,
}

impl<'a> Sampled<'a> {
    pub(crate) fn new(
        routes: &'a [RouteCounts],
        snapshot: &'a Snapshot,
        accepted: &'a BTreeMap<String, f64>,
    ) -> Self {
        Self { routes, sagas: &snapshot.sagas, relays: &snapshot.relays, accepted }
    }
}

/// The formats of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics, with exemplars. For scrapers that ask for it, as Prometheus does.
    OpenMetrics,
    /// The older text of Prometheus.
    Plain,
}

/// Writes metrics in this format. It gets what the last look has shown, or `None` if the store cannot be read.
pub type Encode = dyn for<'a> Fn(Option<Sampled<'a>>, MetricsFormat) -> String + Send + Sync;

/// The metrics of this process.
#[derive(Clone)]
pub struct Metrics(pub Arc<Encode>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// The settings of a dashboard.
///
/// ```
/// use pillarbox_dashboard::{Access, DashboardOptions, Role};
///
/// let options = DashboardOptions::default().title("shop").prefix("/ops/outbox");
/// options.access(Access::Everybody(Role::Operator)).check()?;
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct DashboardOptions {
    /// What the page calls the database. It must hold no secret. Default: `outbox`.
    pub title: String,
    /// The path under which clients see the server, such as `/pillarbox`. Requests are accepted with and without it,
    /// so a reverse proxy may strip it or not. Default: empty.
    pub prefix: String,
    /// Names that clients may ask for in the `Host` header, besides `localhost` and addresses. Default: none.
    pub hosts: Vec<String>,
    /// Who may do what. Default: everybody may look.
    pub access: Access,
    /// The name in the audit trail for changes by users who give none. Default: `dashboard`.
    pub actor: String,
    /// Whether clients reach the server through TLS, so that cookies are only sent over it. Default: false.
    pub secure: bool,
    /// Whether a reverse proxy that is trusted stands in front of the server. Then wrong tokens are counted by the last
    /// address in `X-Forwarded-For`, which the proxy appends. Default: false, and they are counted by the peer of the
    /// connection.
    pub behind_proxy: bool,
    /// The problems for which `/readyz` answers 503. Default: [`ProblemKind::STOPPING`].
    pub unready: Vec<ProblemKind>,
    /// How long entries may wait: 5 minutes, and 15 seconds while no relay runs on one of `routes`.
    pub limits: Limits,
    /// Routes that are configured, with what their pages say. They are shown without entries too, and a relay should
    /// run on each of them all the time. [`Dashboard::set_routes`](crate::Dashboard::set_routes) changes them later.
    /// Default: none.
    pub routes: BTreeMap<RouteName, RouteFacts>,
    /// What `/metrics` answers. Default: none, and `/metrics` is not found.
    pub metrics: Option<Metrics>,
    /// Where an event's story leads for the trace that staged the event. Default: none, and it leads nowhere.
    pub trace_url: Option<TraceUrl>,
    /// What the view of the doctor shows. Default: none, and there is no such view.
    pub findings: Option<Arc<dyn Findings>>,
}

impl Default for DashboardOptions {
    fn default() -> Self {
        Self {
            title: "outbox".into(),
            prefix: String::new(),
            hosts: Vec::new(),
            access: Access::default(),
            actor: "dashboard".into(),
            secure: false,
            behind_proxy: false,
            unready: ProblemKind::STOPPING.to_vec(),
            limits: Limits::default(),
            routes: BTreeMap::new(),
            metrics: None,
            trace_url: None,
            findings: None,
        }
    }
}

setters! {
    impl DashboardOptions {
        /// Sets what the page calls the database.
        title: String as into;
        /// Sets the path under which clients see the server.
        prefix: String as into;
        /// Sets the names that clients may ask for in the `Host` header.
        hosts: Vec<String> as into;
        /// Sets who may do what.
        access: Access;
        /// Sets the name in the audit trail for changes by users who give none.
        actor: String as into;
        /// Sets whether clients reach the server through TLS.
        secure: bool;
        /// Sets whether a reverse proxy that is trusted stands in front of the server.
        behind_proxy: bool;
        /// Sets the problems for which `/readyz` answers 503.
        unready: Vec<ProblemKind> as into;
        /// Sets how long entries may wait.
        limits: Limits;
        /// Sets the routes that are configured.
        routes: BTreeMap<RouteName, RouteFacts> as into;
        /// Sets what `/metrics` answers.
        metrics: Metrics as some;
        /// Sets where an event's story leads for the trace that staged the event.
        trace_url: TraceUrl as some;
        /// Sets what the view of the doctor shows.
        findings: Arc<dyn Findings> as some;
    }
}

impl DashboardOptions {
    /// Refuses settings that cannot work.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) with the setting and what it may be.
    pub fn check(&self) -> Result<()> {
        let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '~');
        let is_prefix = self.prefix.is_empty()
            || (self.prefix.starts_with('/')
                && !self.prefix.ends_with('/')
                && !self.prefix.contains("//")
                && !self.prefix.contains("..")
                && self.prefix.len() <= PREFIX_BYTES_MAX
                && self.prefix.chars().all(is_path));
        if !is_prefix {
            return Err(Error::invalid(
                "the path prefix begins with a slash, does not end with one, and has letters, digits, dots, \
                 dashes and slashes, for example /pillarbox",
            ));
        }
        if self.hosts.len() > HOSTS_MAX || self.hosts.iter().any(|host| !is_host(host)) {
            return Err(Error::invalid(format!(
                "hosts are at most {HOSTS_MAX} names without scheme, port and path, for example \
                 ops.example.com"
            )));
        }
        if matches!(&self.access, Access::Tokens { operator: None, viewer: None }) {
            return Err(Error::invalid("a token is needed: without one, nobody could look"));
        }
        check_name("actor", &self.actor)
    }
}

fn is_host(host: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !host.is_empty() && host.len() <= 253 && host.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_token_is_refused_and_none_is_printed() {
        let error = Token::new("hunter2").unwrap_err();
        assert!(error.message().contains("openssl rand") && !error.message().contains("hunter2"));
        assert!(Token::new(format!("{} ", "a".repeat(40))).is_err());
        let token = Token::new("canary-".repeat(8)).unwrap();
        assert_eq!(format!("{token:?}"), "Token(***)");
        assert!(token.is(&"canary-".repeat(8)) && !token.is("canary-"));
    }

    #[test]
    fn each_token_has_its_role() {
        let token = |c: &str| Token::new(c.repeat(40)).unwrap();
        let access = Access::Tokens { operator: Some(token("a")), viewer: Some(token("b")) };
        assert_eq!(access.role_of(&"a".repeat(40)), Some(Role::Operator));
        assert_eq!(access.role_of(&"b".repeat(40)), Some(Role::Viewer));
        assert_eq!(access.role_of(&"c".repeat(40)), None);
        assert_eq!(Access::Everybody(Role::Operator).role_of(""), None);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let plain = DashboardOptions::default;
        assert!(plain().check().is_ok());
        assert!(plain().prefix("/a/b").check().is_ok());
        for prefix in ["a", "/", "/a/", "/a//b", "/../a", "/a?b", "/a b"] {
            assert!(plain().prefix(prefix).check().is_err(), "{prefix}");
        }
        assert!(plain().hosts(["https://a".to_owned()]).check().is_err());
        assert!(plain().hosts(["a:80".to_owned()]).check().is_err());
        assert!(plain().access(Access::Tokens { operator: None, viewer: None }).check().is_err());
    }
}
