//! An event as it arrives from a broker, decoded from its envelope.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::entry::Fence;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CONTENT_TYPE_DEFAULT, Event, EventId, Headers};
use crate::hlc::Hlc;
use crate::limits::{HEADER_VALUE_BYTES_MAX, HEADERS_MAX, PAYLOAD_BYTES_MAX};
use crate::name::check_name;
use crate::payload::{PayloadError, read_json};
use crate::time::Timestamp;

/// The attributes of a CloudEvent by their bare names, as the binding of a transport has read them.
pub type Attributes = BTreeMap<String, String>;

/// An event that arrived, with its context. The payload is bytes until [`json`](Received::json) reads it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Received<T = Vec<u8>> {
    /// The idempotency key.
    pub event_id: EventId,
    /// The event type.
    pub event_type: String,
    /// The source of the event.
    pub source: String,
    /// The ordering key.
    pub key: Option<String>,
    /// The payload as it was staged, byte for byte.
    pub payload: T,
    /// The content type of the payload.
    pub content_type: String,
    /// The producer's own headers, and `traceparent`.
    pub headers: Headers,
    /// When the event happened.
    pub occurred_at: Option<Timestamp>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The correlation id: what the event belongs to across services.
    pub correlation_id: Option<String>,
    /// The causation id: what caused the event.
    pub causation_id: Option<String>,
    /// The execution id: the run that staged the event.
    pub execution_id: Option<String>,
    /// The producer's clock stamp.
    pub hlc: Option<Hlc>,
    /// The lane that the event was published from, as `route/number`, and the fence of that lane's owner. Set on
    /// ordered routes.
    pub lane: Option<(String, Fence)>,
}

impl Received {
    /// Decodes a message that arrived. Attributes beyond the known ones become headers.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when an attribute that must be there is missing or malformed, and
    /// [`TooLarge`](ErrorKind::TooLarge) when a limit is passed. The text names the attribute, never its value.
    pub fn decode(mut attributes: Attributes, mut headers: Headers, payload: Vec<u8>) -> Result<Self> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Error::too_large(format!(
                "the payload has {} bytes; at most {PAYLOAD_BYTES_MAX} are read",
                payload.len()
            )));
        }
        if attributes.remove("specversion").is_none_or(|version| !version.starts_with("1.")) {
            return Err(corrupt("specversion is missing or not 1.x"));
        }
        let key = Self::key_of(&attributes).map(ToOwned::to_owned);
        let id = attributes.remove("id").ok_or_else(|| corrupt("id is missing"))?;
        let event_id = EventId(Uuid::try_parse(&id).map_err(|_| corrupt("id is not a UUID"))?);
        let event_type = attributes.remove("type").ok_or_else(|| corrupt("type is missing"))?;
        check_name("type", &event_type)?;
        let source = attributes.remove("source").ok_or_else(|| corrupt("source is missing"))?;
        attributes.remove("subject");
        attributes.remove("partitionkey");
        let lane = match (attributes.remove("pillarboxlane"), attributes.remove("pillarboxfence")) {
            (Some(lane), Some(fence)) => {
                let fence = fence.parse().map_err(|_| corrupt("pillarboxfence is not a number"))?;
                Some((lane, Fence(fence)))
            }
            _ => None,
        };
        let hlc = attributes.remove("pillarboxhlc").map(|text| text.parse()).transpose();
        let occurred_at = attributes.remove("time").map(|text| text.parse()).transpose();
        let known = Self {
            event_id,
            event_type,
            source,
            key,
            payload,
            content_type: attributes.remove("datacontenttype").unwrap_or_else(|| CONTENT_TYPE_DEFAULT.into()),
            headers: Headers::new(),
            occurred_at: occurred_at.map_err(|_| corrupt("time is not RFC 3339"))?,
            tenant: attributes.remove("tenantid"),
            correlation_id: attributes.remove("correlationid"),
            causation_id: attributes.remove("causationid"),
            execution_id: attributes.remove("executionid"),
            hlc: hlc.map_err(|_| corrupt("pillarboxhlc is malformed"))?,
            lane,
        };
        attributes.remove("pillarboxseq");
        headers.extend(attributes);
        if headers.len() > HEADERS_MAX {
            return Err(Error::too_large(format!(
                "the message has {} headers; at most {HEADERS_MAX} are read",
                headers.len()
            )));
        }
        if headers.values().any(|value| value.len() > HEADER_VALUE_BYTES_MAX) {
            return Err(Error::too_large(format!(
                "a header has more than {HEADER_VALUE_BYTES_MAX} bytes, which is the limit"
            )));
        }
        Ok(Self { headers, ..known })
    }

    /// The ordering key that [`decode`](Self::decode) reads from these attributes, also if the rest cannot be decoded.
    #[must_use]
    pub fn key_of(attributes: &Attributes) -> Option<&str> {
        let partition_key =
            || attributes.get("partitionkey").filter(|key| Some(*key) != attributes.get("id"));
        attributes.get("subject").or_else(partition_key).map(String::as_str)
    }

    /// The same event with its payload decoded from JSON as this type.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when the payload has another shape. The text says where and does not quote it;
    /// the source is a [`PayloadError`], for which `?` in a handler rejects the message.
    ///
    /// ```
    /// use pillarbox_core::{Attributes, Headers, Received};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Order { id: u32 }
    ///
    /// let attributes = [
    ///     ("specversion", "1.0"),
    ///     ("id", "01932c07-a9f0-7000-8000-000000000001"),
    ///     ("type", "order.placed"),
    ///     ("source", "/shop"),
    /// ];
    /// let attributes: Attributes = attributes.map(|(name, value)| (name.into(), value.into())).into();
    /// let received = Received::decode(attributes, Headers::new(), br#"{"id":7}"#.to_vec())?;
    /// assert_eq!(received.json::<Order>()?.payload.id, 7);
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    pub fn json<T: DeserializeOwned>(self) -> Result<Received<T>> {
        let payload = read_json(&self.payload).map_err(PayloadError::into_error)?;
        Ok(Received {
            payload,
            event_id: self.event_id,
            event_type: self.event_type,
            source: self.source,
            key: self.key,
            content_type: self.content_type,
            headers: self.headers,
            occurred_at: self.occurred_at,
            tenant: self.tenant,
            correlation_id: self.correlation_id,
            causation_id: self.causation_id,
            execution_id: self.execution_id,
            hlc: self.hlc,
            lane: self.lane,
        })
    }
}

impl<T> Received<T> {
    /// Marks an event as a consequence of this one. It gets the same correlation id, and this event as its cause.
    /// If the new event already has either id, that id stays.
    #[must_use]
    pub fn causes(&self, mut event: Event) -> Event {
        event.correlation_id = event.correlation_id.or_else(|| self.correlation_id.clone());
        event.causation_id = event.causation_id.or_else(|| Some(self.event_id.to_string()));
        event
    }
}

fn corrupt(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("not an event: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        [
            ("specversion", "1.0"),
            ("id", "018f3c2e-0000-7000-8000-000000000001"),
            ("type", "order.placed"),
            ("source", "shop"),
            ("partitionkey", "018f3c2e-0000-7000-8000-000000000001"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn refused(change: impl FnOnce(&mut Attributes), why: &str) {
        let mut changed = attributes();
        change(&mut changed);
        let error = Received::decode(changed, Headers::new(), Vec::new()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn what_must_be_there_is_asked_for_by_name() {
        refused(|attributes| drop(attributes.remove("id")), "id is missing");
        refused(|attributes| drop(attributes.insert("id".into(), "canary".into())), "id is not a UUID");
        refused(|attributes| drop(attributes.remove("type")), "type is missing");
        refused(|attributes| drop(attributes.remove("source")), "source is missing");
        refused(|attributes| drop(attributes.insert("specversion".into(), "2.0".into())), "specversion");
        refused(|attributes| drop(attributes.insert("time".into(), "noon".into())), "time");
        refused(|attributes| drop(attributes.insert("pillarboxhlc".into(), "x".into())), "pillarboxhlc");
        refused(
            |attributes| attributes.extend((0..65).map(|n| (format!("h{n}"), String::new()))),
            "65 headers",
        );
    }

    #[test]
    fn what_is_over_a_limit_is_refused_with_that_limit() {
        let decode = |headers, payload| Received::decode(attributes(), headers, payload);
        assert!(decode(Headers::new(), vec![0; PAYLOAD_BYTES_MAX]).is_ok());
        let header = |bytes| Headers::from([("shop".to_owned(), "n".repeat(bytes))]);
        assert!(decode(header(HEADER_VALUE_BYTES_MAX), Vec::new()).is_ok());
        let too_large = [
            (Headers::new(), vec![0; PAYLOAD_BYTES_MAX + 1], "the payload has 67108865 bytes"),
            (header(HEADER_VALUE_BYTES_MAX + 1), Vec::new(), "a header has more than"),
        ];
        for (headers, payload, why) in too_large {
            let error = decode(headers, payload).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn the_key_is_known_before_the_rest_is_decoded() {
        let of = |pairs: &[(&str, &str)]| {
            let all = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Received::key_of(&all.collect()).map(str::to_owned)
        };
        assert_eq!(of(&[("subject", "o-1"), ("partitionkey", "p")]).as_deref(), Some("o-1"));
        assert_eq!(of(&[("partitionkey", "p"), ("id", "x")]).as_deref(), Some("p"));
        assert_eq!(of(&[("partitionkey", "x"), ("id", "x")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_event_without_a_key_has_none_although_it_has_a_partition_key() {
        let received = Received::decode(attributes(), Headers::new(), b"7".to_vec()).unwrap();
        assert_eq!(received.key, None);
        assert_eq!(received.clone().json::<u32>().unwrap().payload, 7);
        assert!(received.json::<String>().is_err());
    }

    #[test]
    fn attributes_beyond_the_known_ones_become_headers() {
        let mut more = attributes();
        more.insert("shop".into(), "north".into());
        more.insert("subject".into(), "o-1".into());
        let received = Received::decode(more, Headers::new(), Vec::new()).unwrap();
        assert_eq!(received.headers["shop"], "north");
        assert_eq!(received.key.as_deref(), Some("o-1"));
    }

    #[test]
    fn what_follows_keeps_the_correlation_and_names_its_cause() {
        let mut more = attributes();
        more.insert("correlationid".into(), "order-7".into());
        more.insert("causationid".into(), "click".into());
        let received = Received::decode(more, Headers::new(), Vec::new()).unwrap();
        let event = received.causes(Event::new("invoice.sent", "{}"));
        assert_eq!(event.correlation_id.as_deref(), Some("order-7"));
        assert_eq!(event.causation_id, Some(received.event_id.to_string()));
        let own = received.causes(Event::new("invoice.sent", "{}").correlation_id("c").causation_id("d"));
        assert_eq!((own.correlation_id.as_deref(), own.causation_id.as_deref()), (Some("c"), Some("d")));
    }
}
