//! Events: what an application stages.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::limits::{
    ATTEMPTS_MAX, DELAY_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX,
};
use crate::name::check_name;
use crate::time::Timestamp;

/// The content type of an event that sets none.
pub const CONTENT_TYPE_DEFAULT: &str = "application/json";
/// The priority of an event that sets none. Lower goes first.
pub const PRIORITY_DEFAULT: i16 = 100;

/// The identity of an event. It is the event's idempotency key everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub Uuid);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for EventId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| Error::invalid(format!("{text:?} is not an event id: a UUID is expected")))
    }
}

/// Headers of an event: a small map of strings, sorted by name.
pub type Headers = BTreeMap<String, String>;

/// An event to stage: type, payload, and the context that travels with it.
///
/// ```
/// use pillarbox_core::Event;
/// # fn main() -> pillarbox_core::Result<()> {
/// let event = Event::json("order.placed", &serde_json::json!({"id": 7}))?.key("o-7").header("shop", "north");
/// assert_eq!(event.payload, br#"{"id":7}"#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The idempotency key. Default: a fresh UUID v7 at staging.
    pub id: Option<EventId>,
    /// The event type, 1 to 255 characters, such as `order.placed`.
    pub event_type: String,
    /// Opaque bytes. They are never rewritten.
    pub payload: Vec<u8>,
    /// The content type of the payload. Default: [`CONTENT_TYPE_DEFAULT`].
    pub content_type: String,
    /// The ordering key, typically the aggregate's id. Default: none.
    pub key: Option<String>,
    /// The headers. Default: none.
    pub headers: Headers,
    /// The tenant. Default: none.
    pub tenant: Option<String>,
    /// The correlation id: what the event belongs to across services. Default: none.
    pub correlation_id: Option<String>,
    /// The causation id: what caused the event. Default: none.
    pub causation_id: Option<String>,
    /// The execution id: the run that staged the event. Default: none.
    pub execution_id: Option<String>,
    /// When the event happened in the business. Default: none, and the time of staging counts.
    pub occurred_at: Option<Timestamp>,
    /// The priority, for unordered routes only. Lower goes first. Default: [`PRIORITY_DEFAULT`].
    pub priority: i16,
    /// The saga or completion group. Default: none.
    pub group_id: Option<String>,
    /// How long no relay may claim the event, counted from staging by the database's clock. Default: none.
    pub delay: Option<Duration>,
    /// Attempts allowed for this one entry. Default: the route's policy.
    pub max_attempts: Option<u32>,
}

impl Event {
    /// An event with these bytes as payload.
    pub fn new(event_type: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            id: None,
            event_type: event_type.into(),
            payload: payload.into(),
            content_type: CONTENT_TYPE_DEFAULT.into(),
            key: None,
            headers: Headers::new(),
            tenant: None,
            correlation_id: None,
            causation_id: None,
            execution_id: None,
            occurred_at: None,
            priority: PRIORITY_DEFAULT,
            group_id: None,
            delay: None,
            max_attempts: None,
        }
    }

    /// An event whose payload is this value as JSON.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(event_type: impl Into<String>, payload: &T) -> Result<Self> {
        let payload = serde_json::to_vec(payload)
            .map_err(|error| Error::invalid("the payload cannot be written as JSON").with_source(error))?;
        Ok(Self::new(event_type, payload))
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the ordering key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets the correlation id.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets the causation id.
    #[must_use]
    pub fn causation_id(mut self, id: impl Into<String>) -> Self {
        self.causation_id = Some(id.into());
        self
    }

    /// Sets the execution id.
    #[must_use]
    pub fn execution_id(mut self, id: impl Into<String>) -> Self {
        self.execution_id = Some(id.into());
        self
    }

    /// Sets when the event happened in the business.
    #[must_use]
    pub fn occurred_at(mut self, at: Timestamp) -> Self {
        self.occurred_at = Some(at);
        self
    }

    /// Sets the priority. Lower goes first.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the saga or completion group.
    #[must_use]
    pub fn group_id(mut self, group: impl Into<String>) -> Self {
        self.group_id = Some(group.into());
        self
    }

    /// Sets how long no relay may claim the event.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets the attempts allowed for this one entry.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Refuses an event with a value out of range, before anything is written.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge), naming the field.
    pub fn check(&self, limits: &EventLimits) -> Result<()> {
        check_name("type", &self.event_type)?;
        check_name("content type", &self.content_type)?;
        for (what, text) in [
            ("key", &self.key),
            ("tenant", &self.tenant),
            ("correlation id", &self.correlation_id),
            ("causation id", &self.causation_id),
            ("execution id", &self.execution_id),
            ("group id", &self.group_id),
        ] {
            if let Some(text) = text {
                check_name(what, text)?;
            }
        }
        if self.payload.len() > limits.payload_bytes {
            return Err(Error::too_large(format!(
                "payload has {} bytes; at most {} are allowed",
                self.payload.len(),
                limits.payload_bytes
            )));
        }
        self.check_headers()?;
        if self.delay.is_some_and(|delay| delay > DELAY_MAX) {
            return Err(Error::invalid(format!(
                "delay must be at most {} days",
                DELAY_MAX.as_secs() / 86_400
            )));
        }
        if self.max_attempts.is_some_and(|attempts| attempts == 0 || attempts > ATTEMPTS_MAX) {
            return Err(Error::invalid(format!("max_attempts must be 1 to {ATTEMPTS_MAX}")));
        }
        Ok(())
    }

    /// Refuses an event that an ordered route cannot take. A delay would hold back all later events of the same
    /// key.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an event with a key and a delay.
    pub fn check_ordered(&self) -> Result<()> {
        if self.key.is_some() && self.delay.is_some_and(|delay| delay > Duration::ZERO) {
            return Err(Error::invalid(
                "an event with a key on an ordered route cannot have a delay: later events of the key would \
                 wait for it. Leave out the delay or the key, or stage the event on an unordered route",
            ));
        }
        Ok(())
    }

    fn check_headers(&self) -> Result<()> {
        if self.headers.len() > HEADERS_MAX {
            return Err(Error::too_large(format!(
                "there are {} headers; at most {HEADERS_MAX} are allowed",
                self.headers.len()
            )));
        }
        for (name, value) in &self.headers {
            check_name("header name", name)?;
            if value.len() > HEADER_VALUE_BYTES_MAX {
                return Err(Error::too_large(format!(
                    "header {name:?} has {} bytes; at most {HEADER_VALUE_BYTES_MAX} are allowed",
                    value.len()
                )));
            }
            if value.contains('\0') {
                return Err(Error::invalid(format!("header {name:?} must not contain a NUL")));
            }
        }
        Ok(())
    }
}

/// Limits of events that an outbox may set lower or higher.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EventLimits {
    /// Largest payload in bytes. Default: [`PAYLOAD_BYTES_DEFAULT`].
    pub payload_bytes: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { payload_bytes: PAYLOAD_BYTES_DEFAULT }
    }
}

impl EventLimits {
    /// Sets the largest payload, at most [`PAYLOAD_BYTES_MAX`].
    #[must_use]
    pub fn payload_bytes(mut self, bytes: usize) -> Self {
        self.payload_bytes = bytes.min(PAYLOAD_BYTES_MAX);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(Event) -> Event, refused_with: &str) {
        let event = change(Event::new("t", b"{}".to_vec()));
        let error = event.check(&EventLimits::default().payload_bytes(10)).unwrap_err();
        assert!(error.to_string().contains(refused_with), "{error}");
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        let long = "x".repeat(256);
        check(|event| Event { event_type: String::new(), ..event }, "type must not be empty");
        check(|event| Event { event_type: long.clone(), ..event }, "type has 256 characters");
        check(|event| event.key(""), "key must not be empty");
        check(|event| event.key(long.clone()), "key has 256");
        check(|event| event.tenant(""), "tenant");
        check(|event| event.correlation_id(long.clone()), "correlation id");
        check(|event| event.content_type(""), "content type");
        check(|event| Event { payload: vec![0; 11], ..event }, "payload has 11 bytes; at most 10");
        check(|event| event.header("", "v"), "header name must not be empty");
        check(|event| event.header("h", "v".repeat(4097)), "header \"h\" has 4097 bytes");
        check(|event| event.header("h", "a\0b"), "NUL");
        check(|event| (0..65).fold(event, |event, n| event.header(format!("h{n}"), "")), "65 headers");
        check(|event| event.delay(DELAY_MAX + Duration::from_secs(1)), "delay");
        check(|event| event.max_attempts(0), "max_attempts must be 1");
    }

    #[test]
    fn what_is_at_the_bound_is_accepted() {
        let event = Event::new("t".repeat(255), vec![0; 10])
            .key("k".repeat(255))
            .header("h", "v".repeat(4096))
            .delay(DELAY_MAX)
            .max_attempts(1);
        event.check(&EventLimits::default().payload_bytes(10)).unwrap();
    }

    #[test]
    fn small_json_values_stay_themselves() {
        for (value, text) in [
            (serde_json::json!(0), "0"),
            (serde_json::json!([]), "[]"),
            (serde_json::json!(""), "\"\""),
            (serde_json::json!(null), "null"),
        ] {
            assert_eq!(Event::json("t", &value).unwrap().payload, text.as_bytes());
        }
    }
}
