//! The CloudEvents binding for MQTT 5 in binary mode: attributes are user properties under their own names, the
//! content type is the message's, and the payload is the message.

use pillarbox_core::{Attributes, Envelope, Headers};
use rumqttc::PublishProperties;

/// The attribute that MQTT has a property for.
const CONTENT_TYPE: &str = "datacontenttype";
/// Holds headers that MQTT cannot carry as they are, as a JSON object.
const OTHER_HEADERS: &str = "pillarboxheaders";
/// Holds attributes that MQTT cannot carry as they are, as a JSON object.
const OTHER_ATTRIBUTES: &str = "pillarboxattributes";

/// The properties of a message.
pub(crate) fn properties(envelope: &Envelope<'_>) -> PublishProperties {
    let mut properties = PublishProperties::default();
    let (mut other_attributes, mut other_headers) = (Attributes::new(), Headers::new());
    for (name, value) in envelope.attributes() {
        if !is_text(&value) {
            other_attributes.insert(name.to_owned(), value.into_owned());
        } else if name == CONTENT_TYPE {
            properties.content_type = Some(value.into_owned());
        } else {
            properties.user_properties.push((name.to_owned(), value.into_owned()));
        }
    }
    for (name, value) in envelope.headers() {
        if is_text(name) && is_text(value) {
            properties.user_properties.push((name.to_owned(), value.to_owned()));
        } else {
            other_headers.insert(name.to_owned(), value.to_owned());
        }
    }
    for (name, others) in [(OTHER_ATTRIBUTES, other_attributes), (OTHER_HEADERS, other_headers)] {
        if !others.is_empty() {
            properties.user_properties.push((name.to_owned(), json(&others)));
        }
    }
    properties
}

/// Reads attributes and headers back. A name that cannot be an attribute's is a header; what is left of the attributes
/// once an event is decoded becomes headers too.
pub(crate) fn read(properties: Option<PublishProperties>) -> (Attributes, Headers) {
    let (mut attributes, mut headers) = (Attributes::new(), Headers::new());
    let PublishProperties { user_properties, content_type, .. } = properties.unwrap_or_default();
    for (name, value) in user_properties {
        if is_attribute(&name) {
            // A property may be there twice. The first one counts, so that nobody can add another id behind ours.
            attributes.entry(name).or_insert(value);
        } else {
            headers.entry(name).or_insert(value);
        }
    }
    if let Some(content_type) = content_type {
        attributes.insert(CONTENT_TYPE.to_owned(), content_type);
    }
    if let Some(others) = take(&mut attributes, OTHER_ATTRIBUTES) {
        attributes.extend(others);
    }
    if let Some(others) = take(&mut attributes, OTHER_HEADERS) {
        headers.extend(others);
    }
    (attributes, headers)
}

/// Takes an attribute that is a JSON object of texts. Anything else is not ours, and stays what it is.
fn take(attributes: &mut Attributes, name: &str) -> Option<Attributes> {
    let others = serde_json::from_str(attributes.get(name)?).ok()?;
    attributes.remove(name);
    Some(others)
}

fn is_attribute(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Whether a text may be in a packet. A server may end the connection because of a control character.
fn is_text(text: &str) -> bool {
    text.len() <= usize::from(u16::MAX) && !text.contains(is_forbidden)
}

/// A control character, or a code point that is no character.
pub(crate) fn is_forbidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

/// A JSON object in which every character that a packet may not have is escaped.
fn json(texts: &Attributes) -> String {
    // A map of texts is always JSON.
    let plain = serde_json::to_string(texts).unwrap_or_default();
    let mut escaped = String::with_capacity(plain.len());
    for c in plain.chars() {
        if is_forbidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_core::{Entry, Event, Received, RouteName};
    use pillarbox_testkit::sample_entry;

    fn entry(event: Event) -> Entry {
        sample_entry(RouteName::new("orders").unwrap(), event)
    }

    fn property<'a>(properties: &'a PublishProperties, name: &str) -> Option<&'a str> {
        let found = properties.user_properties.iter().find(|(property, _)| property == name);
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn attributes_are_user_properties_under_their_own_names() {
        let entry = entry(Event::new("order.placed", "{}").key("k").header("shop", "north"));
        let properties = properties(&Envelope::of(&entry, "/shop"));
        assert_eq!(property(&properties, "specversion"), Some("1.0"));
        assert_eq!(property(&properties, "id"), Some(entry.event_id.to_string().as_str()));
        assert_eq!(property(&properties, "type"), Some("order.placed"));
        assert_eq!(property(&properties, "subject"), Some("k"));
        assert_eq!(property(&properties, "shop"), Some("north"));
        assert_eq!(properties.content_type.as_deref(), Some("application/json"));
        assert_eq!(property(&properties, "datacontenttype"), None);
    }

    #[test]
    fn everything_comes_back_as_it_was() {
        let event = Event::new("order.placed", vec![0xff, 0, 13, 10])
            .key(" \u{fc}\u{7}\u{ffff}\u{1fffe}")
            .tenant("acme")
            .header("shop", "north")
            .header("traceparent", "00-ab-cd-01")
            .header("X Region", "two\nlines \u{85}")
            .header("", "")
            .header("Up\u{0}", "%41");
        let entry = entry(event);
        let properties = properties(&Envelope::of(&entry, "/shop"));
        for (name, value) in &properties.user_properties {
            assert!(!name.contains(is_forbidden) && !value.contains(is_forbidden), "{name:?} {value:?}");
        }
        let (attributes, headers) = read(Some(properties));
        let received = Received::decode(attributes, headers, entry.payload.clone()).unwrap();
        assert_eq!(received.headers, entry.headers);
        assert_eq!((received.event_id, received.payload), (entry.event_id, entry.payload));
        assert_eq!((received.key, received.tenant), (entry.key, entry.tenant));
    }

    #[test]
    fn the_first_of_two_properties_counts() {
        let user_properties = ["first", "second"].map(|value| ("id".to_owned(), value.to_owned())).to_vec();
        let twice = PublishProperties { user_properties, ..PublishProperties::default() };
        assert_eq!(read(Some(twice)).0["id"], "first");
    }

    #[test]
    fn what_others_wrote_is_no_event_or_stays_what_it_is() {
        assert_eq!(read(None), Default::default());
        let user_properties = vec![("pillarboxheaders".to_owned(), "not JSON".to_owned())];
        let foreign = PublishProperties { user_properties, ..PublishProperties::default() };
        assert_eq!(read(Some(foreign)).0["pillarboxheaders"], "not JSON");
    }
}
