//! Names of destinations with placeholders for fields of an entry: `orders.{type}`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::name::RouteName;

/// A text with the placeholders `{type}`, `{key}` and `{route}`, checked when it is parsed. `{{` and `}}` are plain
/// braces.
///
/// ```
/// let template: pillarbox_core::Template = "orders.{type}".parse()?;
/// assert!("orders.{tpye}".parse::<pillarbox_core::Template>().is_err());
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Type,
    Key,
    Route,
}

impl Template {
    /// The text for an entry. If the entry has no key, `{key}` becomes empty.
    #[must_use]
    pub fn render<'a>(&'a self, entry: &'a Entry) -> Cow<'a, str> {
        if let [Part::Text(text)] = self.parts.as_slice() {
            return Cow::Borrowed(text);
        }
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Type => entry.event_type.as_str(),
            Part::Key => entry.key.as_deref().unwrap_or(""),
            Part::Route => entry.route.as_str(),
        });
        Cow::Owned(parts.collect())
    }

    /// Like [`render`](Self::render), but the values of the entry pass through `encode`. Use it where a key must
    /// not mean more than itself, such as in the path of a URL.
    #[must_use]
    pub fn render_with<'a>(&self, entry: &'a Entry, encode: impl Fn(&'a str) -> Cow<'a, str>) -> String {
        let mut rendered = String::with_capacity(self.text.len());
        for part in &self.parts {
            let brought = match part {
                Part::Text(text) => {
                    rendered.push_str(text);
                    continue;
                }
                Part::Type => entry.event_type.as_str(),
                Part::Key => entry.key.as_deref().unwrap_or(""),
                Part::Route => entry.route.as_str(),
            };
            rendered.push_str(&encode(brought));
        }
        rendered
    }

    /// The same template with `{route}` filled in, for the entries of one route.
    #[must_use]
    pub fn of_route(&self, route: &RouteName) -> Self {
        let mut parts: Vec<Part> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text.as_str(),
                Part::Route => route.as_str(),
                Part::Type | Part::Key => {
                    parts.push(part.clone());
                    continue;
                }
            };
            match parts.last_mut() {
                Some(Part::Text(before)) => before.push_str(text),
                _ => parts.push(Part::Text(text.to_owned())),
            }
        }
        Self { text: self.text.clone(), parts }
    }

    /// The text before the first placeholder. Every rendered text begins with it.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// The text, if the template has no placeholders and so is the same for every entry.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl FromStr for Template {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |what: &str| {
            Error::invalid(format!(
                "{what} in {text:?}; the known placeholders are {{type}}, {{key}} and {{route}}"
            ))
        };
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(refuse("a } without its {"));
            }
            let (name, after) = rest.split_once('}').ok_or_else(|| refuse("a { without its }"))?;
            let part = match name {
                "type" => Part::Type,
                "key" => Part::Key,
                "route" => Part::Route,
                other => return Err(refuse(&format!("unknown placeholder {{{other}}}"))),
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(part);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventId, RouteName, Timestamp};

    fn entry(key: Option<&str>) -> Entry {
        let route = RouteName::new("orders").unwrap();
        let entry = Entry::new(1, EventId(uuid::Uuid::nil()), route, "order.placed", Timestamp::MIN);
        Entry { key: key.map(Into::into), ..entry }
    }

    fn check(template: &str, rendered: &str) {
        let template: Template = template.parse().unwrap();
        assert_eq!(template.render(&entry(Some("o-1"))), rendered);
    }

    #[test]
    fn places_are_filled_and_braces_can_be_plain() {
        check("", "");
        check("plain", "plain");
        check("{route}.{type}.{key}", "orders.order.placed.o-1");
        check("a{{b}}{key}", "a{b}o-1");
        assert_eq!("x{key}".parse::<Template>().unwrap().render(&entry(None)), "x");
    }

    #[test]
    fn only_what_the_entry_brings_is_encoded() {
        let template: Template = "/o/{key}".parse().unwrap();
        assert_eq!(
            template.render_with(&entry(Some("a/b")), |text| text.replace('/', "%2F").into()),
            "/o/a%2Fb"
        );
    }

    #[test]
    fn what_is_unknown_or_open_is_refused_with_what_is_known() {
        for text in ["{tpye}", "{", "}", "a{type", "{}", "{key}}"] {
            let error = text.parse::<Template>().unwrap_err();
            assert!(error.to_string().contains("{route}"), "{error}");
        }
    }

    #[test]
    fn a_route_is_filled_in_before_there_is_an_entry() {
        let of_route = |text: &str| {
            let template: Template = text.parse().unwrap();
            template.of_route(&RouteName::new("orders").unwrap())
        };
        assert_eq!(of_route("a.{route}.b").constant(), Some("a.orders.b"));
        let rest = of_route("{route}.{type}.{route}");
        assert_eq!((rest.constant(), rest.prefix()), (None, "orders."));
        assert_eq!(rest.render(&entry(None)), "orders.order.placed.orders");
        assert_eq!(of_route("{key}").prefix(), "");
    }

    #[test]
    fn a_constant_is_known_as_one() {
        assert_eq!("plain".parse::<Template>().unwrap().constant(), Some("plain"));
        assert_eq!("{key}".parse::<Template>().unwrap().constant(), None);
    }
}
