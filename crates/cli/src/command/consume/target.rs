//! Who applies the events: a child process, or a webhook.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Error, Received, Result};
use pillarbox_engine::sink::HandlerError;

use super::children::Children;
use super::webhook::Hooks;
use crate::destination::{Destination, Webhook};
use crate::fault::Fault;

/// What `--to` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `exec:COMMAND`: the rest is for the shell.
    Exec(String),
    /// `http(s)://…`.
    Hook { url: String, shown: Destination },
}

impl Target {
    /// Checks the rest of the settings and makes ready. Nothing runs yet.
    pub(super) fn hands(&self, webhook: Webhook, timeout: Duration) -> Result<Arc<Hands>, Fault> {
        Ok(Arc::new(match self {
            Self::Exec(command) => Hands::Children(Children::new(command, timeout)),
            Self::Hook { url, shown } => {
                webhook.check(shown).map_err(|error| Fault::usage(format!("--to: {error}")))?;
                Hands::Hooks(Hooks::new(url, webhook))
            }
        }))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(command) => write!(f, "exec:{command}"),
            Self::Hook { shown, .. } => shown.fmt(f),
        }
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(command) = text.strip_prefix("exec:") {
            if command.trim().is_empty() || command.contains('\0') {
                return Err(Error::invalid("exec: needs a command, for example exec:'python3 billing.py'"));
            }
            return Ok(Self::Exec(command.to_owned()));
        }
        match text.parse::<Destination>() {
            Ok(shown @ Destination::Http(_)) => Ok(Self::Hook { url: text.to_owned(), shown }),
            _ => Err(Error::invalid("a consumer hands events to exec:COMMAND, http://… or https://…")),
        }
    }
}

/// Hands events over and says what became of them.
pub(super) enum Hands {
    Children(Children),
    Hooks(Hooks),
}

impl Hands {
    pub(super) async fn hand_over(&self, event: Received) -> Result<(), HandlerError> {
        match self {
            Self::Children(children) => children.hand_over(&event).await,
            Self::Hooks(hooks) => hooks.hand_over(event).await,
        }
    }

    /// Ends the children.
    pub(super) async fn close(&self) {
        if let Self::Children(children) = self {
            children.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_command_or_a_webhook() {
        assert_eq!("exec:python3 b.py".parse::<Target>().unwrap(), Target::Exec("python3 b.py".into()));
        let hook: Target = "https://app:canary@example.org/hook".parse().unwrap();
        assert!(!hook.to_string().contains("canary"), "{hook}");
        for text in ["exec:", "exec: ", "file:x", "amqp://h/%2f?queue=q", "b.py"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("exec:"), "{text}: {error}");
        }
    }
}
