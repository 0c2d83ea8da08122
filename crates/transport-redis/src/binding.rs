//! Our binding of CloudEvents to an entry of a Redis stream: `ce-…` attributes, `h-…` headers, `data`.

use pillarbox_core::{Attributes, Envelope, Headers};
use redis::Cmd;

const ATTRIBUTE_PREFIX: &str = "ce-";
const HEADER_PREFIX: &str = "h-";
const DATA: &str = "data";

/// The fields of an entry, as Redis gives them.
pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Adds the fields of an event to a command.
pub(crate) fn write(envelope: &Envelope<'_>, command: &mut Cmd) {
    for (name, value) in envelope.attributes() {
        command.arg([ATTRIBUTE_PREFIX, name].concat()).arg(&*value);
    }
    for (name, value) in envelope.headers() {
        command.arg([HEADER_PREFIX, name].concat()).arg(value);
    }
    command.arg(DATA).arg(envelope.data());
}

/// Reads attributes, headers and payload back. An entry with a malformed attribute has none, and so is no event; a
/// field that is not ours is left out.
pub(crate) fn read(fields: Fields) -> (Attributes, Headers, Vec<u8>) {
    let (mut attributes, mut headers, mut data) = (Attributes::new(), Headers::new(), Vec::new());
    let mut malformed = false;
    for (name, value) in fields {
        if name == DATA.as_bytes() {
            data = value;
            continue;
        }
        let (Ok(name), Ok(value)) = (String::from_utf8(name), String::from_utf8(value)) else {
            malformed = true;
            continue;
        };
        if let Some(name) = name.strip_prefix(ATTRIBUTE_PREFIX) {
            attributes.insert(name.to_owned(), value);
        } else if let Some(name) = name.strip_prefix(HEADER_PREFIX) {
            headers.insert(name.to_owned(), value);
        }
    }
    if malformed {
        tracing::warn!("not an event: a field is not UTF-8");
        attributes.clear();
    }
    (attributes, headers, data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_core::{Entry, Event, Received, RouteName};
    use pillarbox_testkit::sample_entry;

    fn entry(event: Event) -> Entry {
        sample_entry(RouteName::new("orders").unwrap(), event)
    }

    fn fields(entry: &Entry) -> Fields {
        let mut command = Cmd::new();
        write(&Envelope::of(entry, "/shop"), &mut command);
        let arguments: Vec<Vec<u8>> = command
            .args_iter()
            .map(|argument| match argument {
                redis::Arg::Simple(bytes) => bytes.to_vec(),
                _ => panic!("another kind of argument"),
            })
            .collect();
        arguments.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a [u8]> {
        fields.iter().find(|(field, _)| field == name.as_bytes()).map(|(_, value)| value.as_slice())
    }

    #[test]
    fn attributes_headers_and_payload_are_fields() {
        let entry = entry(Event::new("order.placed", vec![0xff, 0]).key("k").header("shop", "north"));
        let fields = fields(&entry);
        assert_eq!(field(&fields, "ce-specversion"), Some(&b"1.0"[..]));
        assert_eq!(field(&fields, "ce-id"), Some(entry.event_id.to_string().as_bytes()));
        assert_eq!(field(&fields, "ce-type"), Some(&b"order.placed"[..]));
        assert_eq!(field(&fields, "ce-subject"), Some(&b"k"[..]));
        assert_eq!(field(&fields, "h-shop"), Some(&b"north"[..]));
        assert_eq!(field(&fields, "data"), Some(&[0xff, 0][..]));
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let event = Event::new("order.placed", vec![0xff, 0, 13, 10])
            .key(" ü ")
            .tenant("acme")
            .header("shop", "north")
            .header("traceparent", "00-ab-cd-01")
            .header("X Region", "two\nlines")
            .header("ce-custom", "not an attribute")
            .header("h-", "")
            .header("data2", "%41");
        let entry = entry(event);
        let (attributes, headers, data) = read(fields(&entry));
        let received = Received::decode(attributes, headers, data).unwrap();
        assert_eq!(received.headers, entry.headers);
        assert_eq!((received.event_id, received.payload), (entry.event_id, entry.payload));
        assert_eq!((received.key, received.tenant), (entry.key, entry.tenant));
    }

    #[test]
    fn reserved_names_win() {
        let forged = entry(Event::new("t", "right").header("data", "forged").header("ce-id", "forged"));
        let (attributes, headers, data) = read(fields(&forged));
        assert_eq!(attributes["id"], forged.event_id.to_string());
        assert_eq!((headers, data), (Headers::new(), b"right".to_vec()));
    }

    #[test]
    fn what_others_wrote_is_no_event_or_is_left_out() {
        let (attributes, headers, data) = read(vec![(b"price".to_vec(), b"7".to_vec())]);
        assert!(attributes.is_empty() && headers.is_empty() && data.is_empty());
        let mut damaged = fields(&entry(Event::new("t", "")));
        damaged.push((b"ce-subject".to_vec(), vec![0xff]));
        assert!(read(damaged).0.is_empty());
    }
}
