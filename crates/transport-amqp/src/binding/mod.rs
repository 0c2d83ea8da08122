//! Between an envelope and an AMQP message: the CloudEvents AMQP binding in binary mode.
//!
//! Attributes are headers with a prefix, by default `cloudEvents:`, `datacontenttype` is the `content-type` property,
//! the payload is the body, byte for byte. The caller's headers stand beside them under their own names.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use pillarbox_core::{Attributes, Entry, Envelope, Headers, Outcome, Timestamp};

use crate::options::HeaderPrefix;

const CONTENT_TYPE: &str = "datacontenttype";
/// How often a quorum queue delivered a message before this time.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Where in its stream a message stands.
const STREAM_OFFSET: &str = "x-stream-offset";
/// RabbitMQ reads addresses from these and closes the channel over a text in them.
const OF_THE_BROKER: [&str; 2] = ["CC", "BCC"];

const PERSISTENT: u8 = 2;
/// Bytes of a header frame beyond the names and values of the headers and properties that we count: the frame
/// itself, flags, sizes, delivery mode, timestamp, with room to spare.
const FRAME_BYTES_RESERVED: usize = 256;

/// The properties of an entry's message; what no message can carry is the outcome of that entry.
///
/// Properties and headers must fit one frame of `frame_bytes_max`: a broker ends the connection over a larger one,
/// and with it every other message under way.
pub(crate) fn write(
    entry: &Entry,
    source: &str,
    prefix: HeaderPrefix,
    frame_bytes_max: usize,
) -> Result<BasicProperties, Outcome> {
    let prefix = prefix.as_str();
    let envelope = Envelope::of(entry, source);
    let mut headers = FieldTable::default();
    let mut bytes = FRAME_BYTES_RESERVED + entry.event_type.len() + entry.content_type.len();
    let mut add = |name: String, value: &str| -> Result<(), Outcome> {
        bytes += 1 + name.len() + 5 + value.len();
        headers.insert(short("header_name_too_long", "header name", name)?, text(value));
        Ok(())
    };
    for (name, value) in envelope.attributes() {
        if name != CONTENT_TYPE {
            add(format!("{prefix}{name}"), &value)?;
        }
    }
    for (name, value) in envelope.headers() {
        if OF_THE_BROKER.contains(&name) {
            let text =
                format!("RabbitMQ reads the header {name} as routing keys. Give the header another name");
            return Err(Outcome::rejected("reserved_header", text));
        }
        add(name.to_owned(), value)?;
    }
    if bytes > frame_bytes_max {
        let text =
            format!("the headers have about {bytes} bytes; at most {frame_bytes_max} fit into one frame");
        return Err(Outcome::rejected("headers_too_large", text));
    }
    let at = entry.occurred_at.unwrap_or(entry.created_at);
    let mut properties = BasicProperties::default()
        .with_content_type(short("content_type_too_long", "content type", entry.content_type.clone())?)
        .with_message_id(short("id_too_long", "event id", entry.event_id.to_string())?)
        .with_delivery_mode(PERSISTENT)
        .with_timestamp(u64::try_from(at.as_micros()).unwrap_or(0) / 1_000_000)
        .with_headers(headers);
    // A convenience for people and tools; a type too long for it still travels as the attribute.
    if let Ok(event_type) = ShortString::try_new(entry.event_type.clone()) {
        properties = properties.with_type(event_type);
    }
    Ok(properties)
}

/// A text of at most 255 bytes, as the protocol has it for names.
pub(crate) fn short(code: &str, what: &str, text: String) -> Result<ShortString, Outcome> {
    ShortString::try_new(text)
        .map_err(|error| Outcome::rejected(code, format!("the {what} is too long for AMQP: {error}")))
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}

/// Attributes and headers of a message that arrived. The prefix shows which headers are attributes: the one
/// that
/// `specversion` has, out of those that are `expected`; values that are no texts, numbers or times are left out.
pub(crate) fn read(properties: &BasicProperties, expected: Option<HeaderPrefix>) -> (Attributes, Headers) {
    let (mut attributes, mut headers) = (Attributes::new(), Headers::new());
    let table = properties.headers().as_ref().map(FieldTable::inner);
    let known = HeaderPrefix::ALL.into_iter().filter(|known| expected.is_none_or(|prefix| prefix == *known));
    let prefix = known.map(HeaderPrefix::as_str).find(|prefix| {
        table.is_some_and(|table| table.contains_key(format!("{prefix}specversion").as_str()))
    });
    for (name, value) in table.into_iter().flatten() {
        let attribute = prefix.and_then(|prefix| name.as_str().strip_prefix(prefix));
        let Some(value) = read_text(attribute, value) else { continue };
        match attribute {
            Some(attribute) => attributes.insert(attribute.to_owned(), value),
            None if name.as_str() == DELIVERY_COUNT => None,
            None => headers.insert(name.as_str().to_owned(), value),
        };
    }
    if let Some(content_type) = properties.content_type() {
        attributes.insert(CONTENT_TYPE.to_owned(), content_type.as_str().to_owned());
    }
    (attributes, headers)
}

fn read_text(attribute: Option<&str>, value: &AMQPValue) -> Option<String> {
    if let (Some("time"), Some(number)) = (attribute, whole(value)) {
        // The binding allows a time as a number too, in milliseconds.
        return Timestamp::from_micros(number.checked_mul(1000)?).map(|at| at.to_string());
    }
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok().map(str::to_owned),
        AMQPValue::ShortString(text) => Some(text.as_str().to_owned()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        AMQPValue::Timestamp(seconds) => {
            let micros = i64::try_from(*seconds).ok()?.checked_mul(1_000_000)?;
            Timestamp::from_micros(micros).map(|at| at.to_string())
        }
        other => whole(other).map(|number| number.to_string()),
    }
}

fn whole(value: &AMQPValue) -> Option<i64> {
    Some(match value {
        AMQPValue::ShortShortInt(number) => (*number).into(),
        AMQPValue::ShortShortUInt(number) => (*number).into(),
        AMQPValue::ShortInt(number) => (*number).into(),
        AMQPValue::ShortUInt(number) => (*number).into(),
        AMQPValue::LongInt(number) => (*number).into(),
        AMQPValue::LongUInt(number) => (*number).into(),
        AMQPValue::LongLongInt(number) => *number,
        _ => return None,
    })
}

/// How often the broker has delivered a message, counting this time, where it says so.
pub(crate) fn delivery_count(properties: &BasicProperties) -> Option<u32> {
    let before = properties.headers().as_ref()?.inner().get(DELIVERY_COUNT).and_then(whole)?;
    u32::try_from(before.checked_add(1)?).ok()
}

/// Where in its stream a message stands; none that comes from a queue of another kind.
pub(crate) fn stream_offset(properties: &BasicProperties) -> Option<u64> {
    let offset = properties.headers().as_ref()?.inner().get(STREAM_OFFSET).and_then(whole)?;
    u64::try_from(offset).ok()
}

/// The arguments of a consumer that begins there in a stream: `first`, or `last`, which is its last chunk.
pub(crate) fn from(offset: &str) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert(STREAM_OFFSET.into(), text(offset));
    arguments
}

/// The arguments of a stream.
pub(crate) fn of_a_stream() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("stream"));
    arguments
}

#[cfg(test)]
mod tests;
