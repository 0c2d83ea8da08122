//! Who is logged in on the page. A session is a random number in a cookie; the token itself is in no cookie.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use pillarbox_core::Timestamp;
use uuid::Uuid;

use crate::options::Role;

/// The name of the cookie.
pub(crate) const COOKIE: &str = "pillarbox_session";
/// How long a session lasts.
pub(crate) const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Sessions that are remembered. The oldest ends when one more begins.
const SESSIONS_MAX: usize = 1_000;

/// Someone who is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) role: Role,
    /// The name in the audit trail.
    pub(crate) name: String,
    pub(crate) until: Timestamp,
}

/// The sessions of this process. A restart ends them.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    /// Begins a session and returns the value of its cookie.
    pub(crate) fn begin(&self, role: Role, name: String, now: Timestamp) -> String {
        // Each of the two has 122 random bits of the operating system.
        let id = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.until > now);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| session.until).map(|(id, _)| id.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(id.clone(), Session { role, name, until: now.saturating_add(LIFETIME) });
        id
    }

    /// The session of this cookie.
    pub(crate) fn find(&self, id: &str, now: Timestamp) -> Option<Session> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).filter(|session| session.until > now).cloned()
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// The value of our cookie.
pub(crate) fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_itself_and_by_hand() {
        let (sessions, now) = (Sessions::default(), Timestamp::MIN);
        let id = sessions.begin(Role::Operator, "ana".into(), now);
        assert_eq!(id.len(), 64);
        assert_eq!(sessions.find(&id, now).unwrap().name, "ana");
        assert_eq!(sessions.find(&id, now.saturating_add(LIFETIME)), None);
        sessions.end(&id);
        assert_eq!(sessions.find(&id, now), None);
    }

    #[test]
    fn sessions_are_bounded() {
        let (sessions, now) = (Sessions::default(), Timestamp::MIN);
        let first = sessions.begin(Role::Viewer, "a".into(), now);
        let later = now.saturating_add(Duration::from_secs(1));
        let ids: Vec<_> =
            (0..SESSIONS_MAX).map(|_| sessions.begin(Role::Viewer, "b".into(), later)).collect();
        assert_eq!(sessions.find(&first, later), None);
        assert!(ids.iter().all(|id| sessions.find(id, later).is_some()));
    }
}
