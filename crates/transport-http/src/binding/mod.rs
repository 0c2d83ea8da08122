//! CloudEvents over HTTP, binary mode: attributes are `ce-` headers, `datacontenttype` is `Content-Type`, the body is
//! the payload byte for byte.
//!
//! A caller's header becomes the extension attribute `ce-NAME` where CloudEvents allows its name (lower-case letters
//! and digits). All others travel in the one attribute `ce-pillarboxheaders`, a JSON object: no event can set a header
//! that means something to HTTP, such as `Host` or `Transfer-Encoding`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use pillarbox_core::{Attributes, Envelope, Error, ErrorKind, Headers, Outcome, Result};

/// What marks an attribute among headers.
const PREFIX: &str = "ce-";
/// The attribute for headers whose names CloudEvents does not allow.
const OTHER_HEADERS: &str = "pillarboxheaders";
const TRACEPARENT: &str = "traceparent";

/// The headers of an envelope.
///
/// # Errors
/// Rejected when the content type cannot stand in a header: it is the one value that HTTP does not let us encode.
pub(crate) fn to_headers(envelope: &Envelope<'_>) -> Result<HeaderMap, Outcome> {
    let mut headers = HeaderMap::with_capacity(24);
    for (name, value) in envelope.attributes() {
        if name == "datacontenttype" {
            let sendable = Some(&value).filter(|value| value.is_ascii());
            let value = sendable.and_then(|value| HeaderValue::from_str(value).ok()).ok_or_else(|| {
                Outcome::rejected("invalid_content_type", "the content type cannot be sent as a header")
            })?;
            headers.insert(CONTENT_TYPE, value);
            continue;
        }
        if name == TRACEPARENT
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            // Where tracing looks for it, beside `ce-traceparent` where CloudEvents does.
            headers.insert(TRACEPARENT, value);
        }
        put(&mut headers, name, &value);
    }
    let mut other = BTreeMap::new();
    for (name, value) in envelope.headers() {
        if is_attribute_name(name) {
            put(&mut headers, name, value);
        } else {
            other.insert(name, value);
        }
    }
    if !other.is_empty()
        && let Ok(json) = serde_json::to_string(&other)
    {
        put(&mut headers, OTHER_HEADERS, &json);
    }
    Ok(headers)
}

/// The headers of the attributes that an envelope can have, read once: they are most of the work on a small event.
static NAMES: [(&str, HeaderName); 16] = [
    ("specversion", HeaderName::from_static("ce-specversion")),
    ("id", HeaderName::from_static("ce-id")),
    ("source", HeaderName::from_static("ce-source")),
    ("type", HeaderName::from_static("ce-type")),
    ("time", HeaderName::from_static("ce-time")),
    ("subject", HeaderName::from_static("ce-subject")),
    ("partitionkey", HeaderName::from_static("ce-partitionkey")),
    (TRACEPARENT, HeaderName::from_static("ce-traceparent")),
    ("correlationid", HeaderName::from_static("ce-correlationid")),
    ("causationid", HeaderName::from_static("ce-causationid")),
    ("tenantid", HeaderName::from_static("ce-tenantid")),
    ("executionid", HeaderName::from_static("ce-executionid")),
    ("pillarboxhlc", HeaderName::from_static("ce-pillarboxhlc")),
    ("pillarboxseq", HeaderName::from_static("ce-pillarboxseq")),
    ("pillarboxlane", HeaderName::from_static("ce-pillarboxlane")),
    ("pillarboxfence", HeaderName::from_static("ce-pillarboxfence")),
];

fn put(headers: &mut HeaderMap, attribute: &str, value: &str) {
    let name = match NAMES.iter().find(|(known, _)| *known == attribute) {
        Some((_, name)) => Ok(name.clone()),
        None => HeaderName::from_bytes([PREFIX, attribute].concat().as_bytes()),
    };
    let value = HeaderValue::from_str(&encode(value));
    // Both are made of characters that a header may have.
    if let (Ok(name), Ok(value)) = (name, value) {
        headers.entry(name).or_insert(value);
    }
}

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The attributes and headers of a request in binary mode, as they were before they became headers.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) when an attribute is given twice or cannot be read, and
/// [`Unsupported`](ErrorKind::Unsupported) in structured or batched mode.
pub(crate) fn from_headers(headers: &HeaderMap) -> Result<(Attributes, Headers)> {
    let mut attributes = Attributes::new();
    for (name, value) in headers {
        let Some(attribute) = name.as_str().strip_prefix(PREFIX) else { continue };
        let text = decode(value.as_bytes()).ok_or_else(|| corrupt(name.as_str(), "cannot be read"))?;
        if attributes.insert(attribute.to_owned(), text).is_some() {
            return Err(corrupt(name.as_str(), "is given twice"));
        }
    }
    if let Some(content_type) = headers.get(CONTENT_TYPE) {
        let text = content_type.to_str().map_err(|_| corrupt("content-type", "cannot be read"))?;
        if text.trim_start().to_ascii_lowercase().starts_with("application/cloudevents") {
            let error =
                Error::new(ErrorKind::Unsupported, "only CloudEvents in binary mode are accepted here");
            return Err(error);
        }
        attributes.insert("datacontenttype".into(), text.into());
    }
    let mut other: Headers = match attributes.remove(OTHER_HEADERS) {
        Some(json) => serde_json::from_str(&json)
            .map_err(|_| corrupt("ce-pillarboxheaders", "is not a JSON object of strings"))?,
        None => Headers::new(),
    };
    if let Some(trace) = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()) {
        other.entry(TRACEPARENT.into()).or_insert_with(|| trace.into());
    }
    Ok((attributes, other))
}

fn corrupt(header: &str, why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("not an event: the header {header} {why}"))
}

/// Percent-encodes what the binding asks for: blanks, quotes, percent signs and all beyond printable ASCII.
fn encode(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b'"' && byte != b'%';
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

/// The other way, once. Older senders put values in quotes, with backslashes before quotes and backslashes.
fn decode(value: &[u8]) -> Option<String> {
    let unquoted: Vec<u8> = match value {
        [b'"', inner @ .., b'"'] => {
            let mut escaped = false;
            let keep = |byte: &u8| {
                escaped = *byte == b'\\' && !escaped;
                !escaped
            };
            inner.iter().copied().filter(keep).collect()
        }
        plain => plain.to_vec(),
    };
    let mut bytes = Vec::with_capacity(unquoted.len());
    let mut rest = unquoted.as_slice();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%'
            && let [high, low, after @ ..] = after
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            bytes.push(u8::try_from(high * 16 + low).ok()?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
