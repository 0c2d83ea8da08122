//! The CloudEvents NATS binding in binary mode: attributes are `ce-` headers, the payload is the body.

use std::borrow::Cow;
use std::str::FromStr;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use pillarbox_core::{Attributes, Envelope, Headers};

/// How the binding marks attributes among headers.
const ATTRIBUTE_PREFIX: &str = "ce-";
/// Headers that the server itself reads, such as `Nats-Rollup`, which deletes messages: never the caller's to set.
const SERVER_PREFIX: &str = "nats-";
/// Holds the caller's headers that cannot be NATS headers, as a JSON object.
const OTHER_HEADERS: &str = "pillarboxheaders";

/// The headers of a message. The event id is the `Nats-Msg-Id`, never the key: a stream drops what it takes for a
/// repetition, and two events of one key are none.
pub(crate) fn headers(envelope: &Envelope<'_>, expected_stream: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut other = Headers::new();
    for (name, value) in envelope.headers() {
        match plain(name, value) {
            Some((name, value)) => headers.insert(name, value),
            None => drop(other.insert(name.to_owned(), value.to_owned())),
        }
    }
    for (name, value) in envelope.attributes() {
        if name == "id" {
            headers.insert(async_nats::header::NATS_MESSAGE_ID, &*value);
        }
        headers.insert(attribute(name), encode(value).into_owned());
    }
    if !other.is_empty() {
        // A map of texts is always JSON.
        let json = serde_json::to_string(&other).unwrap_or_default();
        headers.insert(attribute(OTHER_HEADERS), encode(json.into()).into_owned());
    }
    if let Some(stream) = expected_stream {
        headers.insert(async_nats::header::NATS_EXPECTED_STREAM, stream);
    }
    headers
}

/// How many bytes headers have on the wire.
pub(crate) fn bytes(headers: &HeaderMap) -> usize {
    let of_value = |name: &str, value: &HeaderValue| name.len() + value.as_str().len() + ": \r\n".len();
    let of_header = |(name, values): (&HeaderName, &Vec<HeaderValue>)| {
        let name: &str = name.as_ref();
        values.iter().map(|value| of_value(name, value)).sum::<usize>()
    };
    "NATS/1.0\r\n\r\n".len() + headers.iter().map(of_header).sum::<usize>()
}

fn attribute(name: &str) -> String {
    [ATTRIBUTE_PREFIX, name].concat()
}

/// A caller's header as it is, if NATS can carry it and nobody would take it for something else.
fn plain(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let lower = name.to_ascii_lowercase();
    // Blanks around a value are lost on the way, and a control character may break the framing.
    if lower.starts_with(SERVER_PREFIX)
        || lower.starts_with(ATTRIBUTE_PREFIX)
        || value.trim() != value
        || value.contains(char::is_control)
    {
        return None;
    }
    Some((HeaderName::from_str(name).ok()?, HeaderValue::from_str(value).ok()?))
}

/// Reads attributes and headers back. A message whose attributes are malformed has none, and so is no event.
pub(crate) fn read(received: &HeaderMap) -> (Attributes, Headers) {
    let (mut attributes, mut headers) = (Attributes::new(), Headers::new());
    for (name, values) in received.iter() {
        let name: &str = name.as_ref();
        let value = values.first().map_or("", HeaderValue::as_str);
        let lower = name.to_ascii_lowercase();
        match lower.strip_prefix(ATTRIBUTE_PREFIX) {
            Some(attribute) => match decode(value) {
                Some(value) => drop(attributes.insert(attribute.to_owned(), value)),
                None => {
                    tracing::warn!(header = name, "not an event: this header is not percent-encoded UTF-8");
                    return (Attributes::new(), Headers::new());
                }
            },
            None if lower.starts_with(SERVER_PREFIX) => {}
            None => drop(headers.insert(name.to_owned(), value.to_owned())),
        }
    }
    if let Some(json) = attributes.remove(OTHER_HEADERS) {
        match serde_json::from_str::<Headers>(&json) {
            Ok(other) => headers.extend(other),
            // Not ours: kept as what it is, an attribute.
            Err(_) => drop(attributes.insert(OTHER_HEADERS.to_owned(), json)),
        }
    }
    (attributes, headers)
}

/// Percent-encodes what the binding says: blanks, double quotes, percent signs and all but printable ASCII.
fn encode(value: Cow<'_, str>) -> Cow<'_, str> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let is_plain = |byte: u8| matches!(byte, 0x21..=0x7E) && !matches!(byte, b'"' | b'%');
    if value.bytes().all(is_plain) {
        return value;
    }
    let mut encoded = String::with_capacity(value.len() + 16);
    for byte in value.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(HEX[usize::from(byte >> 4)]));
            encoded.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    encoded.into()
}

/// Undoes double quotes, which older producers use, and percent-encoding, once. `None` when the result is not UTF-8.
pub(crate) fn decode(value: &str) -> Option<String> {
    let value = unquote(value);
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let byte = match after {
            [high, low, behind @ ..] if *first == b'%' => hex(*high, *low).map(|byte| (byte, behind)),
            _ => None,
        };
        let (byte, behind) = byte.unwrap_or((*first, after));
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

fn unquote(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut escaped = false;
    let keep = |c: &char| {
        escaped = *c == '\\' && !escaped;
        !escaped
    };
    inner.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_core::{Entry, Event, EventId, Received, RouteName};
    use pillarbox_testkit::sample_entry;

    fn entry(event: Event) -> Entry {
        sample_entry(RouteName::new("orders").unwrap(), event)
    }

    fn sent(entry: &Entry) -> HeaderMap {
        headers(&Envelope::of(entry, "/shop"), None)
    }

    fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        headers.get(name).map(HeaderValue::as_str)
    }

    #[test]
    fn attributes_are_percent_encoded_headers() {
        let entry = entry(Event::new("order.placed", "{}").key("Euro € \"100%\" 😀"));
        let headers = sent(&entry);
        assert_eq!(text(&headers, "ce-specversion"), Some("1.0"));
        assert_eq!(text(&headers, "ce-type"), Some("order.placed"));
        assert_eq!(text(&headers, "ce-datacontenttype"), Some("application/json"));
        let encoded = "Euro%20%E2%82%AC%20%22100%25%22%20%F0%9F%98%80";
        assert_eq!(text(&headers, "ce-subject"), Some(encoded));
        assert_eq!(text(&headers, "Nats-Msg-Id"), Some(entry.event_id.to_string().as_str()));
    }

    #[test]
    fn dedup_never_uses_the_key() {
        let id = |n| EventId(uuid::Uuid::from_u128(n));
        let one = entry(Event::new("t", "").key("k").id(id(1)));
        let two = entry(Event::new("t", "").key("k").id(id(2)));
        let (one, two) = (sent(&one), sent(&two));
        assert_ne!(text(&one, "Nats-Msg-Id"), text(&two, "Nats-Msg-Id"));
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let event = Event::new("order.placed", "{}")
            .key(" ü ")
            .tenant("acme")
            .correlation_id("c")
            .header("shop", "north")
            .header("traceparent", "00-ab-cd-01")
            .header("X Region", "name with a blank")
            .header("x-line", "two\nlines")
            .header("x-blanks", " kept ")
            .header("x-empty", "")
            .header("x-percent", "%41")
            .header("Nats-Rollup", "all")
            .header("ce-custom", "not an attribute");
        let entry = entry(event);
        let headers = sent(&entry);
        assert_eq!(text(&headers, "Nats-Rollup"), None, "a caller's header must not command the server");
        assert_eq!(text(&headers, "shop"), Some("north"));
        let (attributes, others) = read(&headers);
        let received = Received::decode(attributes, others, entry.payload.clone()).unwrap();
        assert_eq!(received.headers, entry.headers);
        assert_eq!(received.event_id, entry.event_id);
        assert_eq!((received.key, received.tenant), (entry.key, entry.tenant));
    }

    #[test]
    fn the_size_of_headers_is_what_they_have_on_the_wire() {
        let mut headers = HeaderMap::new();
        assert_eq!(bytes(&headers), "NATS/1.0\r\n\r\n".len());
        headers.insert("one", "first");
        headers.append("two", "second");
        headers.append("two", "third");
        let wire = "NATS/1.0\r\none: first\r\ntwo: second\r\ntwo: third\r\n\r\n";
        assert_eq!(bytes(&headers), wire.len());
    }

    #[test]
    fn reserved_names_win() {
        let forged = entry(Event::new("t", "").header("ce-id", "forged").header("Nats-Msg-Id", "forged"));
        let headers = sent(&forged);
        let id = forged.event_id.to_string();
        assert_eq!((text(&headers, "ce-id"), text(&headers, "Nats-Msg-Id")), (Some(&*id), Some(&*id)));
    }

    #[test]
    fn the_expected_stream_is_told_only_when_named() {
        let entry = entry(Event::new("t", ""));
        assert_eq!(text(&sent(&entry), "Nats-Expected-Stream"), None);
        let named = headers(&Envelope::of(&entry, "/"), Some("ORDERS"));
        assert_eq!(text(&named, "Nats-Expected-Stream"), Some("ORDERS"));
    }

    #[test]
    fn what_others_encode_differently_is_understood() {
        for (value, expect) in [
            ("%e2%82%AC", Some("€")),
            ("%41", Some("A")),
            ("\"a b\"", Some("a b")),
            (r#""a \"b\" \\""#, Some(r#"a "b" \"#)),
            ("100%", Some("100%")),
            ("%zz%4", Some("%zz%4")),
            ("%C0%A0", None),
        ] {
            assert_eq!(decode(value).as_deref(), expect, "{value}");
        }
    }

    #[test]
    fn malformed_attributes_are_no_event() {
        let mut headers = sent(&entry(Event::new("t", "")));
        headers.insert("ce-subject", "%C0%A0");
        let (attributes, others) = read(&headers);
        assert!(Received::decode(attributes, others, vec![]).is_err());
    }

    #[test]
    fn names_of_attributes_are_read_in_any_case() {
        let mut headers = HeaderMap::new();
        headers.insert("CE-Type", "t");
        assert_eq!(read(&headers).0["type"], "t");
    }
}
