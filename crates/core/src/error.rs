//! One error type for every port. It has a kind, whether trying again may help, and a text for people.

use std::fmt;

/// The result of every fallible call of Pillarbox.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a closed set that callers can match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input breaks a rule: empty, malformed, out of range.
    Invalid,
    /// The caller's input is over a limit.
    TooLarge,
    /// The requested item does not exist.
    NotFound,
    /// The tables are missing, older, newer or damaged.
    Schema,
    /// The server cannot be reached, or went away.
    Unavailable,
    /// No answer came in time.
    Timeout,
    /// Another transaction was in the way: lock, deadlock, serialization failure, busy file.
    Contention,
    /// A transaction was not committed, because a statement in it had failed or it had ended before. The caller
    /// writes everything again in a new transaction.
    Aborted,
    /// The database accepts no writes: a standby, a read-only file, a full disk.
    ReadOnly,
    /// Credentials or rights are missing.
    Denied,
    /// Stored data cannot be decoded.
    Corrupt,
    /// The adapter does not support this.
    Unsupported,
    /// None of the above.
    Internal,
}

impl ErrorKind {
    /// The stable lower-case name, as logs and `last_error` show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::NotFound => "not_found",
            Self::Schema => "schema",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Contention => "contention",
            Self::Aborted => "aborted",
            Self::ReadOnly => "read_only",
            Self::Denied => "denied",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
        }
    }

    /// The retry class of this kind, for an adapter that does not know better.
    #[must_use]
    pub const fn retry(self) -> Retry {
        match self {
            Self::Unavailable | Self::Timeout | Self::Contention | Self::Aborted | Self::ReadOnly => {
                Retry::Later
            }
            _ => Retry::Never,
        }
    }
}

/// Whether trying the same call again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same call fails the same way.
    Never,
    /// Nothing happened; the same call may succeed later.
    Later,
    /// The answer was lost, so the call may have taken effect. Only an idempotent call may be sent again.
    Unknown,
}

/// An error of any Pillarbox call.
///
/// The message is for people. It never carries payloads, SQL parameter values or secrets.
///
/// ```
/// use pillarbox_core::{ErrorKind, RouteName};
///
/// let error = RouteName::new("").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// ```
pub struct Error {
    kind: ErrorKind,
    retry: Retry,
    code: Option<String>,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind, with the kind's own retry class.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, retry: kind.retry(), code: None, message: message.into(), source: None }
    }

    /// The caller's input breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The caller's input is over a limit.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// Overrides the kind's own retry class.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Adds the server's or library's own code, such as a SQLSTATE.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Puts a description of the failed operation in front of the message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether trying again may help.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// The server's or library's own code, if it gave one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The text for people, without kind and code.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.code {
            Some(code) => write!(f, " ({}, {code})", self.kind.as_str()),
            None => Ok(()),
        }
    }
}

// The source is left out on purpose: drivers put parameter values and connection options into theirs.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("retry", &self.retry)
            .field("code", &self.code)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_retried() {
        for (kind, retry) in [
            (ErrorKind::Invalid, Retry::Never),
            (ErrorKind::Schema, Retry::Never),
            (ErrorKind::Denied, Retry::Never),
            (ErrorKind::Unavailable, Retry::Later),
            (ErrorKind::Timeout, Retry::Later),
            (ErrorKind::Contention, Retry::Later),
            (ErrorKind::Aborted, Retry::Later),
            (ErrorKind::ReadOnly, Retry::Later),
        ] {
            assert_eq!(kind.retry(), retry, "{}", kind.as_str());
        }
    }

    #[test]
    fn debug_leaves_the_source_out() {
        let error = Error::new(ErrorKind::Internal, "insert failed")
            .with_source(std::io::Error::other("Key (email)=(canary@example.org) already exists"));
        assert!(!format!("{error:?} {error}").contains("canary"));
    }
}
