//! Which entries are asked for: by parameters, or by a sentence such as `route:mail status:dead since:2h`.

use pillarbox_core::port::Filter;
use pillarbox_core::{FailureKind, RouteName, Timestamp, check_name, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::Refusal;

/// Entries of one page if nobody asks for another number.
pub(crate) const PAGE_DEFAULT: u32 = 50;
/// The most entries of one page.
pub(crate) const PAGE_MAX: u32 = 500;
/// The longest sentence, in bytes.
const SENTENCE_BYTES_MAX: usize = 2_000;

/// Which entries are asked for. Every parameter that is set narrows them.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct EntriesQuery {
    /// The route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    /// `pending`, `in_flight`, `retrying`, `blocked`, `delivered`, `dead` or `discarded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
    /// The event type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) event_type: Option<String>,
    /// The ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The last error: a kind such as `failed`, or a kind and a code such as `failed/timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Ended, or else staged, at this time or later: RFC 3339, or how long ago, such as `2h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// Ended, or else staged, before this time: RFC 3339, or how long ago, such as `2h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    /// The cursor of the next page, from the answer before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
    /// The most entries of the page, 1 to 500. Default: 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    #[param(minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u32>,
}

impl EntriesQuery {
    /// The filter of the store.
    pub(crate) fn filter(&self, now: Timestamp) -> Result<Filter, Refusal> {
        let mut filter = Filter::default().limit(self.limit()?);
        if let Some(route) = given(&self.route) {
            filter = filter.route(RouteName::new(route)?);
        }
        if let Some(status) = given(&self.status) {
            filter.status = Some(status.parse()?);
        }
        if let Some(event_type) = given(&self.event_type) {
            check_name("type", event_type)?;
            filter = filter.event_type(event_type);
        }
        if let Some(key) = given(&self.key) {
            check_name("key", key)?;
            filter = filter.key(key);
        }
        if let Some(tenant) = given(&self.tenant) {
            check_name("tenant", tenant)?;
            filter = filter.tenant(tenant);
        }
        if let Some(error) = given(&self.error) {
            let (kind, code) = error.split_once('/').map_or((error, None), |(kind, code)| (kind, Some(code)));
            filter = filter.error(kind.parse::<FailureKind>()?);
            if let Some(code) = code.filter(|code| !code.is_empty()) {
                check_name("error", code)?;
                filter = filter.error_code(code);
            }
        }
        if let Some(since) = given(&self.since) {
            filter = filter.since(time(since, now)?);
        }
        if let Some(until) = given(&self.until) {
            filter = filter.until(time(until, now)?);
        }
        if let Some(cursor) = given(&self.cursor) {
            let seq = cursor.parse().map_err(|_| Refusal::bad("the cursor is not one of this API"))?;
            filter = filter.after(seq);
        }
        Ok(filter)
    }

    fn limit(&self) -> Result<u32, Refusal> {
        match self.limit {
            None => Ok(PAGE_DEFAULT),
            Some(limit @ 1..=PAGE_MAX) => Ok(limit),
            Some(limit) => Err(Refusal::bad(format!("the limit is {limit}; it may be 1 to {PAGE_MAX}"))),
        }
    }

    /// The sentence that means the same.
    pub(crate) fn sentence(&self) -> String {
        let parts = [
            ("route", &self.route),
            ("status", &self.status),
            ("type", &self.event_type),
            ("key", &self.key),
            ("tenant", &self.tenant),
            ("error", &self.error),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let part = |(name, value): (&str, &Option<String>)| {
            let value = given(value)?;
            let is_plain = !value.contains([' ', '"']);
            Some(if is_plain {
                format!("{name}:{value}")
            } else {
                format!("{name}:\"{}\"", value.replace('"', "\\\""))
            })
        };
        parts.into_iter().filter_map(part).collect::<Vec<_>>().join(" ")
    }

    /// The query of a link.
    pub(crate) fn link(&self) -> String {
        link(&[
            ("route", &self.route),
            ("status", &self.status),
            ("type", &self.event_type),
            ("key", &self.key),
            ("tenant", &self.tenant),
            ("error", &self.error),
            ("since", &self.since),
            ("until", &self.until),
            ("cursor", &self.cursor),
        ])
    }
}

/// The query of a link: the parameters that are given.
pub(super) fn link(parts: &[(&str, &Option<String>)]) -> String {
    let part = |(name, value): &(&str, &Option<String>)| {
        Some(format!("{name}={}", crate::security::urlencode(given(value)?)))
    };
    parts.iter().filter_map(part).collect::<Vec<_>>().join("&")
}

pub(super) fn given(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|value| !value.is_empty())
}

pub(super) fn time(text: &str, now: Timestamp) -> Result<Timestamp, Refusal> {
    match parse_duration(text) {
        Ok(ago) => Ok(now.saturating_sub(ago)),
        Err(_) => Ok(text.parse().map_err(|_| {
            Refusal::bad(format!(
                "{:?} is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 2h",
                text.chars().take(40).collect::<String>()
            ))
        })?),
    }
}

/// Reads a sentence such as `route:mail status:dead key:"a b"`. A word without a name is an event id, or else a type.
pub(crate) fn parse_sentence(sentence: &str) -> Result<EntriesQuery, Refusal> {
    if sentence.len() > SENTENCE_BYTES_MAX {
        return Err(Refusal::bad(format!("the filter is longer than {SENTENCE_BYTES_MAX} bytes")));
    }
    let mut query = EntriesQuery::default();
    for word in words(sentence) {
        let (name, value) = word.split_once(':').unwrap_or(("type", &word));
        let field = match name {
            "route" => &mut query.route,
            "status" => &mut query.status,
            "type" => &mut query.event_type,
            "key" => &mut query.key,
            "tenant" => &mut query.tenant,
            "error" => &mut query.error,
            "since" => &mut query.since,
            "until" => &mut query.until,
            _ => {
                return Err(Refusal::bad(format!(
                    "{:?} is not a filter; write route:, status:, type:, key:, tenant:, error:, since: or until:",
                    name.chars().take(40).collect::<String>()
                )));
            }
        };
        *field = Some(value.to_owned());
    }
    Ok(query)
}

/// The words of a sentence; quotes keep spaces.
fn words(sentence: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut escaped) = (Vec::new(), String::new(), false, false);
    for c in sentence.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                word.push(c);
            }
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use pillarbox_core::{Standing, Status};

    use super::*;

    #[test]
    fn a_sentence_is_read_and_written() {
        let text = r#"route:mail status:dead type:invoice.sent key:"a b" error:failed/timeout since:2h"#;
        let query = parse_sentence(text).unwrap();
        assert_eq!(query.sentence(), text);
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let filter = query.filter(now).unwrap();
        assert_eq!(filter.status, Some(Standing::Is(Status::Dead)));
        assert_eq!(filter.key.as_deref(), Some("a b"));
        assert_eq!(filter.error_begins().as_deref(), Some("failed/timeout: "));
        assert_eq!(filter.since.unwrap().to_string(), "2026-01-31T10:00:00Z");
        assert_eq!(parse_sentence("order.placed").unwrap().event_type.as_deref(), Some("order.placed"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        let now = Timestamp::MIN;
        assert!(parse_sentence("rout:x").unwrap_err().message.contains("route:"));
        for (name, value) in
            [("status", "gone"), ("error", "bad"), ("since", "soon"), ("cursor", "x"), ("route", "\u{7}")]
        {
            let query: EntriesQuery = serde_json::from_value(serde_json::json!({ name: value })).unwrap();
            assert!(query.filter(now).is_err(), "{name}");
        }
        let limit = |limit| EntriesQuery { limit: Some(limit), ..EntriesQuery::default() }.filter(now);
        assert!(limit(0).is_err() && limit(501).is_err() && limit(500).is_ok());
    }
}
