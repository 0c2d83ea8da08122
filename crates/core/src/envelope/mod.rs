//! An entry as it crosses a broker or is written to a file: CloudEvents 1.0.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::entry::Entry;

mod received_line;
#[cfg(test)]
mod tests;

/// Attribute names that only Pillarbox sets. A caller's header of such a name is never sent, even if Pillarbox does
/// not set the attribute.
const RESERVED: [&str; 16] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "subject",
    "partitionkey",
    "datacontenttype",
    "content-type",
    "data",
    "data_base64",
    "correlationid",
    "causationid",
    "tenantid",
    "executionid",
    "traceparent",
];
/// Every name with this prefix is reserved for Pillarbox too, now and later.
const RESERVED_PREFIX: &str = "pillarbox";
/// The prefixes by which brokers' bindings mark attributes among headers. A header must not pass for an attribute.
const BINDING_PREFIXES: [&str; 4] = ["ce-", "ce_", "cloudevents:", "cloudevents_"];
const TRACEPARENT: &str = "traceparent";

/// The CloudEvents 1.0 view of an entry, for binary and structured mode.
///
/// Attributes that are not set are absent, never empty. All values are texts. Stamps and sequence numbers are texts
/// too, because CloudEvents integers have 32 bits.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    entry: &'a Entry,
    source: &'a str,
}

impl<'a> Envelope<'a> {
    /// The envelope of an entry. `source` is the origin of this store's events, as a URI reference.
    #[must_use]
    pub fn of(entry: &'a Entry, source: &'a str) -> Self {
        Self { entry, source }
    }

    /// The context attributes that are set, by their CloudEvents names, `specversion` first.
    #[must_use]
    pub fn attributes(&self) -> Vec<(&'static str, Cow<'a, str>)> {
        let entry = self.entry;
        let text = |text: &'a Option<String>| text.as_deref().map(Cow::Borrowed);
        let id = entry.event_id.to_string();
        let all = [
            ("specversion", Some("1.0".into())),
            ("id", Some(id.clone().into())),
            ("source", Some(self.source.into())),
            ("type", Some(entry.event_type.as_str().into())),
            ("time", Some(entry.occurred_at.unwrap_or(entry.created_at).to_string().into())),
            ("subject", text(&entry.key)),
            ("partitionkey", text(&entry.key).or(Some(id.into()))),
            ("datacontenttype", Some(entry.content_type.as_str().into())),
            (TRACEPARENT, self.traceparent().map(Cow::Borrowed)),
            ("correlationid", text(&entry.correlation_id)),
            ("causationid", text(&entry.causation_id)),
            ("tenantid", text(&entry.tenant)),
            ("executionid", text(&entry.execution_id)),
            ("pillarboxhlc", entry.hlc.map(|hlc| hlc.to_string().into())),
            ("pillarboxseq", Some(entry.seq.to_string().into())),
            ("pillarboxlane", entry.lane.map(|lane| format!("{}/{lane}", entry.route).into())),
            ("pillarboxfence", entry.lane.map(|_| entry.fence.0.to_string().into())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The trace context, which staging stores as a header.
    fn traceparent(&self) -> Option<&'a str> {
        let found = self.entry.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT));
        found.map(|(_, value)| value.as_str())
    }

    /// The caller's headers that are sent beside the attributes: all but the reserved names.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let headers = self.entry.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        headers.filter(|(name, _)| !is_reserved(name))
    }

    /// The payload, byte for byte.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        &self.entry.payload
    }

    /// The whole envelope as one structured CloudEvents JSON object, without a line break.
    ///
    /// A JSON payload becomes `data`. Its numbers and texts are unchanged, and only the blanks between them are
    /// left out. Any other payload becomes `data_base64`.
    ///
    /// If CloudEvents allows the name of a header (lower-case letters and digits), the header becomes an extension
    /// attribute. All other headers are kept in the one attribute `pillarboxheaders`, a text that holds a JSON
    /// object.
    #[must_use]
    pub fn to_json_line(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(self.entry.payload.len() + 512);
        for (name, value) in self.attributes() {
            field(&mut line, name, &value);
        }
        finish(line, self.headers(), &self.entry.content_type, &self.entry.payload)
    }
}

/// Adds headers and payload to the attributes, and ends the object.
fn finish<'h>(
    mut line: Vec<u8>,
    headers: impl Iterator<Item = (&'h str, &'h str)>,
    content_type: &str,
    payload: &[u8],
) -> Vec<u8> {
    let (named, other): (Vec<_>, Vec<_>) = headers.partition(|(name, _)| is_attribute_name(name));
    for (name, value) in named {
        field(&mut line, name, value);
    }
    if !other.is_empty() {
        let other: BTreeMap<_, _> = other.into_iter().collect();
        field(&mut line, "pillarboxheaders", &json_text(&other));
    }
    match json_data(content_type, payload) {
        Some(data) => {
            line.extend_from_slice(b",\"data\":");
            line.extend(data);
        }
        None => field(&mut line, "data_base64", &STANDARD.encode(payload)),
    }
    line.push(b'}');
    line
}

/// The payload as compact JSON, if its content type says JSON and it is valid JSON.
fn json_data(content_type: &str, payload: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(payload).ok().filter(|_| is_json(content_type))?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    Some(without_blanks(text))
}

fn field(line: &mut Vec<u8>, name: &str, value: &str) {
    line.push(if line.is_empty() { b'{' } else { b',' });
    line.extend_from_slice(json_text(name).as_bytes());
    line.push(b':');
    line.extend_from_slice(json_text(value).as_bytes());
}

/// JSON of texts and maps of texts, which cannot fail.
fn json_text<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Valid JSON without the blanks and line breaks between its tokens. Texts hold no line breaks in JSON.
fn without_blanks(json: &str) -> Vec<u8> {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |byte: &u8| {
        let kept = in_text || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        in_text ^= *byte == b'"' && !escaped;
        escaped = in_text && *byte == b'\\' && !escaped;
        kept
    };
    json.bytes().filter(keep).collect()
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type == "text/json" || media_type.ends_with("+json")
}

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = BINDING_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
    RESERVED.contains(&bare) || bare.starts_with(RESERVED_PREFIX)
}
