//! The message: its body is one CloudEvents JSON object (structured mode). SQS allows ten attributes of a message, which
//! is fewer than an event has, and takes no bytes in a body that are not text.

use std::collections::BTreeMap;

use aws_sdk_sqs::types::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillarbox_core::{Attributes, Entry, Envelope, Headers};
use serde_json::value::RawValue;

/// Longest id of a group, in characters.
const GROUP_CHARS_MAX: usize = 128;
/// Holds headers whose names CloudEvents does not allow, as a JSON object.
const OTHER_HEADERS: &str = "pillarboxheaders";
/// The last character that every server takes as it is. SQS takes no U+FFFE and U+FFFF, and some servers none above them.
const TAKEN_MAX: char = '\u{fffd}';

/// The body of an entry's message.
pub(crate) fn body(entry: &Entry, source: &str) -> String {
    let line = Envelope::of(entry, source).to_json_line();
    let mut text = String::from_utf8(line)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.chars().any(|c| c > TAKEN_MAX) {
        text = escaped(&text);
    }
    text
}

/// JSON with other characters as escapes. They stand in texts only, so that it means the same.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if c > TAKEN_MAX {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

/// The id of an entry's group in a FIFO queue: its key, or the event's id. A key that cannot be an id is hashed.
pub(crate) fn group(entry: &Entry) -> String {
    let Some(key) = &entry.key else { return entry.event_id.to_string() };
    if !key.is_empty() && key.len() <= GROUP_CHARS_MAX && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return key.clone();
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    digest.as_ref().iter().fold("sha256-".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// What a message holds.
pub(crate) struct Content {
    pub(crate) attributes: Attributes,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// Reads a message. One that is no CloudEvents JSON object has no attributes, and keeps its body.
pub(crate) fn read(message: &mut Message) -> Content {
    let text = message.body.take().unwrap_or_default();
    let mut headers = Headers::new();
    for (name, value) in message.message_attributes.take().into_iter().flatten() {
        // Headers are texts. The type of an attribute says whether it holds bytes.
        let value = value.string_value.or_else(|| Some(STANDARD.encode(value.binary_value?)));
        headers.extend(value.map(|value| (name, value)));
    }
    match structured(&text) {
        Some((attributes, others, body)) => {
            headers.extend(others);
            Content { attributes, headers, body }
        }
        None => Content { attributes: Attributes::new(), headers, body: text.into_bytes() },
    }
}

/// Attributes, headers and data of a CloudEvents JSON object. `None`: it is none.
fn structured(text: &str) -> Option<(Attributes, Headers, Vec<u8>)> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
    fields.contains_key("specversion").then_some(())?;
    let data = fields.remove("data");
    let encoded = fields.remove("data_base64").and_then(|value| string(&value));
    let others = fields.remove(OTHER_HEADERS).and_then(|value| string(&value));
    let mut attributes = Attributes::new();
    for (name, value) in fields {
        match value.get() {
            "null" => {}
            other => drop(attributes.insert(name, string(&value).unwrap_or_else(|| other.to_owned()))),
        }
    }
    let headers = match others {
        None => Headers::new(),
        Some(others) => serde_json::from_str(&others).ok()?,
    };
    let body = match (encoded, data) {
        (Some(encoded), _) => STANDARD.decode(encoded).ok()?,
        (None, None) => Vec::new(),
        (None, Some(data)) if is_json(attributes.get("datacontenttype")) => data.get().as_bytes().to_vec(),
        // A text of another type is the text itself.
        (None, Some(data)) => string(&data).unwrap_or_else(|| data.get().to_owned()).into_bytes(),
    };
    Some((attributes, headers, body))
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

fn is_json(content_type: Option<&String>) -> bool {
    let Some(content_type) = content_type else { return true };
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type == "text/json" || media_type.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::primitives::Blob;
    use aws_sdk_sqs::types::MessageAttributeValue;
    use pillarbox_conformance::delivery::entry;
    use pillarbox_core::{Event, Received};

    use super::*;

    fn back(body: &str) -> Content {
        read(&mut Message::builder().body(body).build())
    }

    #[test]
    fn an_event_arrives_as_it_was_sent() {
        let payloads: [&[u8]; 4] =
            [b"{\"a\":1.50,\"b\":[]}", b"", &[0, 255, 13, 10], b"12345678901234567890123"];
        for payload in payloads {
            let event = Event::new("order.placed", payload)
                .key("k \u{ffff}\u{1}")
                .header("X-Odd", "1\n")
                .header("shop", "n");
            let sent = entry(event);
            let body = body(&sent, "/shop");
            assert!(body.chars().all(|c| (' '..='\u{fffd}').contains(&c)), "{body:?}");
            let Content { attributes, headers, body } = back(&body);
            let received = Received::decode(attributes, headers, body).unwrap();
            assert_eq!((received.payload, received.key), (sent.payload, sent.key));
            assert_eq!((received.headers, received.event_id), (sent.headers, sent.event_id));
        }
    }

    #[test]
    fn characters_that_not_every_server_takes_are_escaped_and_mean_the_same() {
        let payload = "{\"a\":\"\u{ffff} \u{1f600} \u{fffd}\"}";
        let body = body(&entry(Event::new("order.placed", payload)), "/shop");
        assert!(body.contains("\\uffff \\ud83d\\ude00 \u{fffd}"), "{body}");
        let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
        assert_eq!(json(&back(&body).body), json(payload.as_bytes()));
    }

    #[test]
    fn what_is_no_event_keeps_its_body() {
        for text in [
            "hello",
            "",
            "[]",
            "{}",
            "{\"a\":1}",
            "{\"specversion\":\"1.0\",\"data_base64\":\"%\"}",
            "null",
            "7",
        ] {
            let content = back(text);
            assert_eq!((content.attributes.len(), content.body.as_slice()), (0, text.as_bytes()));
            assert!(Received::decode(content.attributes, content.headers, content.body).is_err());
        }
    }

    #[test]
    fn attributes_of_others_are_headers_and_their_bytes_are_base64() {
        let of = |kind: &str| MessageAttributeValue::builder().data_type(kind);
        let attributes = [
            ("shop", of("String").string_value("north")),
            ("weight", of("Number.kg").string_value("7")),
            ("seal", of("Binary.png").binary_value(Blob::new([0, 0xff, 13]))),
            ("nothing", of("Binary")),
        ];
        let message = attributes.into_iter().fold(Message::builder().body("{}"), |message, (name, value)| {
            message.message_attributes(name, value.build().unwrap())
        });
        let headers = read(&mut message.build()).headers;
        let expected = [("seal", "AP8N"), ("shop", "north"), ("weight", "7")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn an_event_of_somebody_else_is_read() {
        let content = back(
            "{\"specversion\":\"1.0\",\"id\":\"x\",\"count\":7,\"none\":null,\"datacontenttype\":\"text/plain\",\"data\":\"a\\n\"}",
        );
        assert_eq!((content.attributes["count"].as_str(), content.attributes.get("none")), ("7", None));
        assert_eq!(content.body, b"a\n");
        let json = back("{\"specversion\":\"1.0\",\"data\": { \"a\" : 1.0 } }");
        assert_eq!(json.body, b"{ \"a\" : 1.0 }");
    }

    #[test]
    fn a_group_is_the_key_or_the_events_id_or_a_hash() {
        let of = |key: &str| group(&entry(Event::new("t", "{}").key(key)));
        assert_eq!(of("o-1!/:~"), "o-1!/:~");
        assert!(of("o 1").starts_with("sha256-") && of("o 1") != of("o 2") && of("o 1").len() == 71);
        assert_eq!(of(&"k".repeat(128)).len(), 128);
        assert!(of(&"k".repeat(129)).starts_with("sha256-") && of("\u{fc}").starts_with("sha256-"));
        let keyless = entry(Event::new("t", "{}"));
        assert_eq!(group(&keyless), keyless.event_id.to_string());
    }
}
