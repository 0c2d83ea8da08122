//! One line of NDJSON as an event.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillarbox_core::{Event, EventId, EventLimits, Headers, RouteName, Timestamp, parse_duration};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::output::is_json_type;

/// The fields of a line; any other is refused, so that a misspelt one is not lost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageLine<'a> {
    route: String,
    #[serde(rename = "type")]
    event_type: String,
    // The text of the line itself: numbers and the order of names stay as they were written.
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    payload_base64: Option<String>,
    key: Option<String>,
    #[serde(default)]
    headers: Headers,
    event_id: Option<String>,
    delay: Option<String>,
    content_type: Option<String>,
    tenant: Option<String>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    execution_id: Option<String>,
    occurred_at: Option<Timestamp>,
    priority: Option<i16>,
    group_id: Option<String>,
    max_attempts: Option<u32>,
}

// A payload of `null` is a payload, not a missing one.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads and checks a line.
pub(crate) fn parse(text: &str) -> Result<(RouteName, Event), Fault> {
    let line: StageLine<'_> = serde_json::from_str(text).map_err(|error| Fault::usage(error.to_string()))?;
    let route = RouteName::new(line.route.clone())?;
    let mut event = Event::new(line.event_type.clone(), payload(&line)?);
    event.content_type = line.content_type.unwrap_or(event.content_type);
    event.priority = line.priority.unwrap_or(event.priority);
    event.delay = line.delay.as_deref().map(parse_duration).transpose()?;
    event.headers = line.headers;
    event.id = line.event_id.as_deref().map(str::parse::<EventId>).transpose()?;
    event.key = line.key;
    event.tenant = line.tenant;
    event.correlation_id = line.correlation_id;
    event.causation_id = line.causation_id;
    event.execution_id = line.execution_id;
    event.occurred_at = line.occurred_at;
    event.group_id = line.group_id;
    event.max_attempts = line.max_attempts;
    event.check(&EventLimits::default())?;
    Ok((route, event))
}

fn payload(line: &StageLine<'_>) -> Result<Vec<u8>, Fault> {
    let content_type = line.content_type.as_deref().unwrap_or(pillarbox_core::CONTENT_TYPE_DEFAULT);
    match (line.payload, &line.payload_base64) {
        (Some(_), None) if !is_json_type(content_type) => Err(Fault::usage(format!(
            "payload must be JSON, but the content type is {content_type}. Use payload_base64 instead"
        ))),
        (Some(payload), None) => Ok(payload.get().as_bytes().to_vec()),
        (None, Some(text)) => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|error| Fault::usage(format!("payload_base64 is not base64: {error}")))?;
            super::super::payload::check(&bytes, content_type)?;
            Ok(bytes)
        }
        (Some(_), Some(_)) => Err(Fault::usage("payload and payload_base64 cannot be given together")),
        (None, None) => Err(Fault::usage("missing field `payload` (or `payload_base64`)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, with: &str) {
        let fault = parse(text).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        assert!(fault.message().unwrap().contains(with), "{fault:?}");
    }

    #[test]
    fn the_text_of_the_payload_is_kept() {
        let (route, event) =
            parse(r#"{"route":"r","type":"t","payload":{ "b":1.50,"a":1e400 },"delay":"5s"}"#).unwrap();
        assert_eq!(
            (route.as_str(), event.payload.as_slice()),
            ("r", br#"{ "b":1.50,"a":1e400 }"#.as_slice())
        );
        assert_eq!(event.delay, Some(std::time::Duration::from_secs(5)));
        for small in ["0", "[]", "\"\"", "null", "false"] {
            let (_, event) = parse(&format!(r#"{{"route":"r","type":"t","payload":{small}}}"#)).unwrap();
            assert_eq!(event.payload, small.as_bytes());
        }
    }

    #[test]
    fn other_bytes_come_as_base64() {
        let (_, event) =
            parse(r#"{"route":"r","type":"t","payload_base64":"AP8=","content_type":"image/png"}"#).unwrap();
        assert_eq!(event.payload, [0, 255]);
        refused(r#"{"route":"r","type":"t","payload_base64":"AP8="}"#, "not JSON");
        refused(r#"{"route":"r","type":"t","payload":1,"content_type":"image/png"}"#, "payload_base64");
        refused(
            r#"{"route":"r","type":"t","payload":1,"payload_base64":"AP8="}"#,
            "cannot be given together",
        );
        refused(r#"{"route":"r","type":"t","payload_base64":"?"}"#, "not base64");
    }

    #[test]
    fn what_is_wrong_is_named() {
        refused("nonsense", "expected");
        refused(r#"{"type":"t","payload":1}"#, "missing field `route`");
        refused(r#"{"route":"r","payload":1}"#, "missing field `type`");
        refused(r#"{"route":"r","type":"t"}"#, "`payload`");
        refused(r#"{"route":"r","type":"t","payload":1,"kee":"k"}"#, "unknown field `kee`");
        refused(r#"{"route":"","type":"t","payload":1}"#, "route must not be empty");
        refused(r#"{"route":"r","type":"","payload":1}"#, "type must not be empty");
        refused(r#"{"route":"r","type":"t","payload":1,"delay":"soon"}"#, "soon");
        refused(r#"{"route":"r","type":"t","payload":1,"event_id":"7"}"#, "\"7\" is not an event id");
        refused(r#"{"route":"r","type":"t","payload":1,"max_attempts":0}"#, "max_attempts");
    }
}
