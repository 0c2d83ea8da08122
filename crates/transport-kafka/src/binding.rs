//! The CloudEvents binding for Kafka in binary mode: attributes are headers `ce_NAME`, the content type is the header
//! `content-type`, the partition key is the record's key, and the payload is the record's value.

use krafka::producer::Record;
use pillarbox_core::{Attributes, Entry, Envelope, Headers};

/// How the binding marks attributes among headers.
const ATTRIBUTE_PREFIX: &str = "ce_";
/// The header of the attribute that the binding writes without the prefix.
const CONTENT_TYPE_HEADER: &str = "content-type";
const CONTENT_TYPE: &str = "datacontenttype";

/// The record of an entry.
pub(crate) fn record(entry: &Entry, source: &str, topic: &str) -> Record {
    let envelope = Envelope::of(entry, source);
    let key = entry.key.clone().unwrap_or_else(|| entry.event_id.to_string());
    let mut record = Record::new(topic, entry.payload.clone()).key(key);
    for (name, value) in envelope.attributes() {
        let header = if name == CONTENT_TYPE { CONTENT_TYPE_HEADER.into() } else { attribute(name) };
        record = record.header(header, value.into_owned());
    }
    for (name, value) in envelope.headers() {
        // The envelope leaves out names that a reader would take for attributes.
        record = record.header(name, value.to_owned());
    }
    record
}

/// Reads attributes and headers back. A null header counts as none, and a value that is not UTF-8 is read with
/// replacement characters.
pub(crate) fn read(received: &krafka::Headers) -> (Attributes, Headers) {
    let (mut attributes, mut headers) = (Attributes::new(), Headers::new());
    for (name, value) in received {
        let Some(value) = value else { continue };
        let value = String::from_utf8_lossy(value).into_owned();
        // A header may be there twice. The first one counts, so that nobody can add another id behind ours.
        if name.eq_ignore_ascii_case(CONTENT_TYPE_HEADER) {
            attributes.entry(CONTENT_TYPE.to_owned()).or_insert(value);
        } else if let Some(name) = name.strip_prefix(ATTRIBUTE_PREFIX).filter(|name| is_attribute(name)) {
            attributes.entry(name.to_owned()).or_insert(value);
        } else {
            headers.entry(name.clone()).or_insert(value);
        }
    }
    (attributes, headers)
}

fn attribute(name: &str) -> String {
    [ATTRIBUTE_PREFIX, name].concat()
}

fn is_attribute(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_core::{Event, Received, RouteName};
    use pillarbox_testkit::sample_entry;

    fn entry(event: Event) -> Entry {
        sample_entry(RouteName::new("orders").unwrap(), event)
    }

    fn header<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
        let found = record.headers.iter().find(|(header, _)| header == name);
        found.and_then(|(_, value)| std::str::from_utf8(value.as_ref()?).ok())
    }

    #[test]
    fn attributes_are_headers_with_the_prefix_of_the_binding() {
        let entry = entry(Event::new("order.placed", "{}").key("k").header("shop", "north"));
        let record = record(&entry, "/shop", "orders");
        assert_eq!(header(&record, "ce_specversion"), Some("1.0"));
        assert_eq!(header(&record, "ce_id"), Some(entry.event_id.to_string().as_str()));
        assert_eq!(header(&record, "ce_type"), Some("order.placed"));
        assert_eq!(header(&record, "ce_subject"), Some("k"));
        assert_eq!(header(&record, "shop"), Some("north"));
        assert_eq!(header(&record, "content-type"), Some("application/json"));
        assert_eq!(header(&record, "ce_datacontenttype"), None);
        assert_eq!((record.topic.as_str(), record.key_str()), ("orders", Some("k")));
    }

    #[test]
    fn an_entry_without_a_key_has_its_id_as_key() {
        let entry = entry(Event::new("order.placed", "{}"));
        assert_eq!(record(&entry, "s", "t").key_str(), Some(entry.event_id.to_string().as_str()));
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let event = Event::new("order.placed", vec![0xff, 0, 13, 10])
            .key(" \u{fc}\u{7}\u{ffff}")
            .tenant("acme")
            .header("shop", "north")
            .header("traceparent", "00-ab-cd-01")
            .header("X Region", "two\nlines \u{85}")
            .header("", "")
            .header("CE_x", "not an attribute");
        let entry = entry(event);
        let record = record(&entry, "/shop", "t");
        let (attributes, headers) = read(&record.headers);
        let received = Received::decode(attributes, headers, record.value.unwrap().into()).unwrap();
        assert_eq!(received.headers, entry.headers);
        assert_eq!((received.event_id, received.payload), (entry.event_id, entry.payload));
        assert_eq!((received.key, received.tenant), (entry.key, entry.tenant));
    }

    #[test]
    fn what_others_wrote_is_no_event_or_stays_what_it_is() {
        let foreign = Record::new("t", "").null_header("ce_id").header("ce_type", &b"\xff"[..]);
        let foreign = foreign.header("ce_Up", "x");
        let (attributes, headers) = read(&foreign.headers);
        assert_eq!(attributes.get("id"), None);
        assert_eq!(attributes["type"], "\u{fffd}");
        assert_eq!(headers["ce_Up"], "x");
        let twice = Record::new("t", "").header("ce_id", "first").header("ce_id", "second");
        assert_eq!(read(&twice.headers).0["id"], "first");
    }
}
