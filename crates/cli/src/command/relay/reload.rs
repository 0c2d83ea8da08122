//! Reading the configuration again, and what differs in it.

use std::fmt;
use std::path::PathBuf;

use pillarbox_core::RouteName;

use super::RelayArgs;
use super::plan::{self, Routes};
use crate::config::{self, Config};

/// How the configuration is read again.
pub(super) struct Reloader {
    file: Option<PathBuf>,
    args: RelayArgs,
}

/// What was read.
pub(super) struct Read {
    pub(super) config: Config,
    pub(super) routes: Routes,
    /// What should be said about it.
    pub(super) notes: Vec<String>,
}

impl Reloader {
    pub(super) fn new(file: Option<PathBuf>, args: RelayArgs) -> Self {
        Self { file, args }
    }

    /// Reads the file. An error is a text that says why nothing changed.
    pub(super) fn read(&self, now: &Config) -> Result<Read, String> {
        let Some(file) = &self.file else {
            return Err("This relay was started without a configuration file".to_owned());
        };
        let words = |fault: crate::fault::Fault| fault.message().unwrap_or_default().to_owned();
        let loaded = config::load(file).map_err(words)?;
        let (config, mut notes) = (loaded.config, loaded.warnings);
        if now.marks.differs_in(&config.marks, "database") {
            return Err("[database] has changed, which takes a restart of the relay".to_owned());
        }
        for table in ["log", "trace", "admin"] {
            if now.marks.differs_in(&config.marks, table) {
                notes.push(format!(
                    "[{table}] has changed, which takes effect when the relay is started again"
                ));
            }
        }
        let args = &self.args;
        let routes =
            plan::routes(&args.routes, args.to.clone(), args.allow_private, &config).map_err(words)?;
        Ok(Read { config, routes, notes })
    }
}

/// Which routes differ between two readings of the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: Vec<RouteName>,
    pub(super) changed: Vec<RouteName>,
    pub(super) removed: Vec<RouteName>,
    unchanged: usize,
    pub(super) retention: bool,
}

impl Changes {
    pub(super) fn between(before: (&Config, &Routes), after: (&Config, &Routes)) -> Self {
        let retention = before.0.marks.differs_in(&after.0.marks, "retention");
        // Whether delivered entries are deleted at once is a setting of every relay.
        let keeps = |config: &Config| !config.retention.delivered().is_zero();
        let all_differ = keeps(before.0) != keeps(after.0);
        let mut changes = Self { retention, ..Self::default() };
        for route in after.1.keys() {
            if !before.1.contains_key(route) {
                changes.added.push(route.clone());
            } else if all_differ || before.0.marks.route(route) != after.0.marks.route(route) {
                changes.changed.push(route.clone());
            } else {
                changes.unchanged += 1;
            }
        }
        changes.removed = before.1.keys().filter(|route| !after.1.contains_key(*route)).cloned().collect();
        changes
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, routes) in [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)]
        {
            if !routes.is_empty() {
                let names: Vec<_> = routes.iter().map(RouteName::as_str).collect();
                write!(f, "{what} {}; ", names.join(", "))?;
            }
        }
        write!(f, "{} routes unchanged", self.unchanged)
    }
}
