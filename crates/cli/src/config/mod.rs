//! The configuration file: TOML with `${VAR}`, refused as a whole when anything in it is wrong.

mod admin;
mod expand;
mod load;
mod log;
mod mark;
mod reference;
mod route;
mod secret;
mod show;
mod trace;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use pillarbox_core::{RouteName, redact_url};
use serde::Deserialize;

pub(crate) use admin::{AdminConfig, LISTEN_DEFAULT};
pub(crate) use load::load;
pub(crate) use log::{LogConfig, LogFormat};
pub(crate) use mark::Marks;
pub(crate) use reference::page;
pub use route::RouteConfig;
pub(crate) use show::Shown;
pub(crate) use trace::{TraceConfig, TraceRelation};

use value::{Name, Period, Positive};

/// The file that is read when none is named.
pub(crate) const FILE_DEFAULT: &str = "pillarbox.toml";
/// The database when nobody names one.
pub(crate) const DATABASE_DEFAULT: &str = "sqlite://pillarbox.db";
/// How long delivered entries stay when the file does not say.
const RETENTION_DELIVERED: Duration = Duration::from_secs(24 * 3600);
/// How long inbox rows stay when the file does not say.
const RETENTION_INBOX: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long ended sagas stay when the file does not say.
const RETENTION_SAGAS: Duration = Duration::from_secs(30 * 24 * 3600);

/// Everything that a file may say. Checked when loaded, so nothing in it fails at run time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// `[database]`
    #[serde(default)]
    pub(crate) database: DatabaseConfig,
    /// `[routes.NAME]`
    #[serde(default)]
    pub(crate) routes: BTreeMap<RouteName, RouteConfig>,
    /// `[retention]`
    #[serde(default)]
    pub(crate) retention: RetentionConfig,
    /// `[log]`
    #[serde(default)]
    pub(crate) log: LogConfig,
    /// `[trace]`
    #[serde(default)]
    pub(crate) trace: TraceConfig,
    /// What each part of the file says, to be compared with another reading of it.
    #[serde(skip)]
    pub(crate) marks: Marks,
    /// `[admin]`
    pub(crate) admin: Option<AdminConfig>,
}

impl Config {
    /// Whether any route claims by clock stamp, which needs an index of its own.
    pub(crate) fn causal_order(&self) -> bool {
        self.routes.values().any(RouteConfig::causal_order)
    }
}

/// Where the outbox is.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DatabaseConfig {
    /// `sqlite://`, `postgres://`, `mysql://`, `mariadb://` or `mongodb://`. Default: `DATABASE_URL`, then
    /// `sqlite://pillarbox.db`.
    pub(crate) url: Option<String>,
    /// How the names of the tables begin. Default: `pillarbox`.
    pub(crate) prefix: Option<Name>,
    /// The schema of the tables, PostgreSQL only. Default: the connection's own.
    pub(crate) schema: Option<Name>,
    /// Whether plain text to a database on another machine is allowed. Default: false.
    #[serde(default)]
    pub(crate) insecure: bool,
}

// A URL carries a password more often than not.
impl std::fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseConfig")
            .field("url", &self.url.as_deref().map(redact_url))
            .field("prefix", &self.prefix)
            .field("schema", &self.schema)
            .field("insecure", &self.insecure)
            .finish()
    }
}

/// How long what is done stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionConfig {
    delivered: Option<Period>,
    inbox: Option<Positive>,
    sagas: Option<Period>,
}

impl RetentionConfig {
    /// How long delivered entries stay. Zero: they are deleted as they are settled. Default: a day.
    pub(crate) fn delivered(&self) -> Duration {
        self.delivered.map_or(RETENTION_DELIVERED, |period| period.0)
    }

    /// How long inbox rows stay; never zero, because what is forgotten is applied again. Default: 30 days.
    pub(crate) fn inbox(&self) -> Duration {
        self.inbox.map_or(RETENTION_INBOX, |period| period.0)
    }

    /// How long sagas stay that have completed or were compensated. Default: 30 days.
    pub(crate) fn sagas(&self) -> Duration {
        self.sagas.map_or(RETENTION_SAGAS, |period| period.0)
    }
}
