//! Why a command did not do what it was asked, and the exit code that says so to scripts.

use pillarbox_core::{Error, ErrorKind};

/// The end of a command that is not plain success.
#[derive(Debug)]
pub enum Fault {
    /// It failed: exit 1.
    Failed(String),
    /// It failed, and the same may work later: exit 1.
    Unavailable(String),
    /// The command line or the configuration is wrong: exit 2.
    Usage(String),
    /// It worked, and what it found is not healthy: exit 3.
    Unhealthy(String),
    /// The tables are not as this program needs them: exit 4.
    Schema(String),
    /// Whoever read stdout has seen enough (`| head`): a quiet exit 0.
    PipeClosed,
}

impl Fault {
    /// The command line or the configuration is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// It failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// The exit code of DESIGN.md section 8.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::PipeClosed => 0,
            Self::Failed(_) | Self::Unavailable(_) => 1,
            Self::Usage(_) => 2,
            Self::Unhealthy(_) => 3,
            Self::Schema(_) => 4,
        }
    }

    /// What to tell the user, if anything.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Failed(message)
            | Self::Unavailable(message)
            | Self::Usage(message)
            | Self::Unhealthy(message)
            | Self::Schema(message) => Some(message),
            Self::PipeClosed => None,
        }
    }

    /// Puts what was being done in front of the message.
    pub fn context(self, doing: &str) -> Self {
        self.map(|message| format!("{doing}: {message}"))
    }

    /// Says behind the message what that means.
    pub fn and(self, so: &str) -> Self {
        self.map(|message| format!("{message}; {so}"))
    }

    fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(change(message)),
            Self::Unavailable(message) => Self::Unavailable(change(message)),
            Self::Usage(message) => Self::Usage(change(message)),
            Self::Unhealthy(message) => Self::Unhealthy(change(message)),
            Self::Schema(message) => Self::Schema(change(message)),
            Self::PipeClosed => Self::PipeClosed,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::TooLarge => Self::Usage(message),
            ErrorKind::Schema => Self::Schema(message),
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ReadOnly => Self::Unavailable(message),
            ErrorKind::Contention => Self::Unavailable(format!(
                "{message}. Another transaction was in the way; run the command again"
            )),
            _ => Self::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_the_documented_exit_code() {
        for (kind, code) in [
            (ErrorKind::Invalid, 2),
            (ErrorKind::TooLarge, 2),
            (ErrorKind::Schema, 4),
            (ErrorKind::NotFound, 1),
            (ErrorKind::Unavailable, 1),
            (ErrorKind::Denied, 1),
            (ErrorKind::Internal, 1),
        ] {
            assert_eq!(Fault::from(Error::new(kind, "x")).exit_code(), code, "{}", kind.as_str());
        }
        assert_eq!(Fault::Unhealthy("x".into()).exit_code(), 3);
        assert_eq!(Fault::PipeClosed.exit_code(), 0);
    }

    #[test]
    fn context_keeps_the_exit_code() {
        let fault = Fault::Schema("gone".into()).context("line 3");
        assert_eq!((fault.exit_code(), fault.message()), (4, Some("line 3: gone")));
    }
}
