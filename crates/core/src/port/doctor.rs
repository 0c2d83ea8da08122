//! What an examination of a database finds, and what each store tells for it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::name::RouteName;
use crate::time::Timestamp;

/// A database as its doctor sees it. Nothing here changes anything.
///
/// A store tells facts where every database has them, and they are judged once, in
/// [`diagnose`](crate::diagnose). What only one database has, the store judges itself.
#[async_trait]
pub trait Doctor: Send + Sync {
    /// The time by the database's clock.
    async fn now(&self) -> Result<Timestamp>;

    /// The connections that the server allows and has. `None`: there is no server.
    async fn connections(&self) -> Result<Option<Connections>>;

    /// Open transactions that are at least this old, the oldest first, at most
    /// [`TRANSACTIONS_TOLD_MAX`](crate::limits::TRANSACTIONS_TOLD_MAX).
    async fn transactions(&self, older_than: Duration) -> Result<Vec<OpenTransaction>>;

    /// What only this database has: rights, indexes, plans, vacuum, the pooler.
    async fn examine(&self, depth: Depth) -> Result<Vec<Finding>>;
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Doctor + ?Sized> Doctor for Arc<T> {
    async fn now(&self) -> Result<Timestamp> {
        (**self).now().await
    }

    async fn connections(&self) -> Result<Option<Connections>> {
        (**self).connections().await
    }

    async fn transactions(&self, older_than: Duration) -> Result<Vec<OpenTransaction>> {
        (**self).transactions(older_than).await
    }

    async fn examine(&self, depth: Depth) -> Result<Vec<Finding>> {
        (**self).examine(depth).await
    }
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What a relay looks at when it starts: a few quick questions.
    Start,
    /// Everything.
    Full,
}

/// The connections of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// The most that clients may have.
    pub max: u64,
    /// How many there are.
    pub used: u64,
    /// The most that this process may open.
    pub ours_max: u64,
}

/// A transaction that is open for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// How long it has been open.
    pub age: Duration,
    /// Its holder: process, user and program, as far as the database tells. Never the text of a statement.
    pub holder: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The check found nothing wrong.
    Ok,
    /// Something is not as it should be, but nothing stands still because of it.
    Warning,
    /// Deliveries stand still, or will.
    Problem,
}

impl Severity {
    /// The name in JSON and in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One result of an examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check, such as `clock` or `plans`.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The route, if it concerns one.
    pub route: Option<RouteName>,
    /// What was found.
    pub reason: String,
    /// What to do. Empty if nothing is to be done.
    pub next: String,
}

impl Finding {
    /// A check that found nothing wrong.
    #[must_use]
    pub fn ok(check: &'static str, reason: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, route: None, reason: reason.into(), next: String::new() }
    }

    /// Something that is not as it should be.
    #[must_use]
    pub fn warning(check: &'static str, reason: impl Into<String>, next: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, next: next.into(), ..Self::ok(check, reason) }
    }

    /// Something that stops deliveries, or will.
    #[must_use]
    pub fn problem(check: &'static str, reason: impl Into<String>, next: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, next: next.into(), ..Self::ok(check, reason) }
    }

    /// The findings of a check. If the check could not be made, that is the finding.
    pub fn made(check: &'static str, findings: Result<Vec<Self>>) -> Vec<Self> {
        findings.unwrap_or_else(|error| vec![Self::unmade(check, &error)])
    }

    /// A check that could not be made.
    #[must_use]
    pub fn unmade(check: &'static str, error: &Error) -> Self {
        let next = match error.kind() {
            ErrorKind::Denied => {
                "Run this command as a user that may ask for it, or give this one the right."
            }
            _ => "Mend what the reason says, and run this command again.",
        };
        Self::warning(check, format!("this could not be examined: {error}"), next)
    }

    /// Sets the route.
    #[must_use]
    pub fn of(mut self, route: &RouteName) -> Self {
        self.route = Some(route.clone());
        self
    }
}
