//! The way from an event's story to its trace.

use std::fmt;

use pillarbox_core::{Error, Result};

/// What stands for the id of a trace.
const PLACEHOLDER: &str = "{trace_id}";
/// The longest template, in bytes.
const TEMPLATE_BYTES_MAX: usize = 2_000;

/// The address of a trace in the program that shows traces: `https://traces.example.com/trace/{trace_id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceUrl(String);

impl TraceUrl {
    /// An `http` or `https` address with `{trace_id}` once, behind the name of the host. Everybody who may look sees
    /// it, so a user or password in it is refused.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) for another text; the message does not repeat it.
    pub fn new(template: impl Into<String>) -> Result<Self> {
        let template = template.into();
        let rest = template.strip_prefix("https://").or_else(|| template.strip_prefix("http://"));
        let is_plain = template.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>\\^`".contains(&byte));
        let (host, path) = rest.and_then(|rest| rest.split_once('/')).unwrap_or_default();
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let has_one_placeholder = path.matches(PLACEHOLDER).count() == 1
            && !path.replace(PLACEHOLDER, "").contains(['{', '}', '|']);
        let is_good = is_plain && !host.is_empty() && host.chars().all(is_host) && has_one_placeholder;
        if !is_good || template.len() > TEMPLATE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the address of traces begins with https:// or http://, has {PLACEHOLDER} once in its path or query, \
                 no user and no password, and at most {TEMPLATE_BYTES_MAX} bytes, for example \
                 https://traces.example.com/trace/{PLACEHOLDER}"
            )));
        }
        Ok(Self(template))
    }

    /// The address of the trace of a W3C context, if the text is one.
    pub(crate) fn of(&self, traceparent: &str) -> Option<String> {
        let mut parts = traceparent.trim().split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_id = trace.len() == 32 && is_hex(trace) && trace.bytes().any(|byte| byte != b'0');
        (version.len() == 2 && is_hex(version) && is_id).then(|| self.0.replace(PLACEHOLDER, trace))
    }
}

impl fmt::Display for TraceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_trace_is_found_by_the_id_of_its_context() {
        let url = TraceUrl::new("https://traces.example.com/explore?id={trace_id}&org=1").unwrap();
        let wanted = format!("https://traces.example.com/explore?id={TRACE}&org=1");
        assert_eq!(url.of(&format!("00-{TRACE}-00f067aa0ba902b7-01")), Some(wanted));
        let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        for text in ["", "00-ab-cd-01", "00", zeros.as_str(), "00-../../x-1-01", &TRACE.to_uppercase()] {
            assert_eq!(url.of(text), None, "{text}");
        }
        assert_eq!(url.of(&format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase())), None);
    }

    #[test]
    fn an_address_that_leads_nowhere_or_tells_a_secret_is_refused() {
        for good in ["http://localhost:16686/trace/{trace_id}", "https://[::1]:3000/{trace_id}"] {
            assert_eq!(TraceUrl::new(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "traces/{trace_id}",
            "javascript:alert('{trace_id}')",
            "https://{trace_id}.example.com/",
            "https:///{trace_id}",
            "https://traces.example.com/",
            "https://traces.example.com/{trace}",
            "https://traces.example.com/{trace_id}/{trace_id}",
            "https://traces.example.com/{trace_id}/{x}",
            "https://traces.example.com/ {trace_id}",
            "https://traces.example.com/\"{trace_id}",
            "https://ana:hunter2@traces.example.com/{trace_id}",
        ] {
            let error = TraceUrl::new(bad).unwrap_err();
            assert!(error.message().contains("{trace_id} once"), "{bad}: {error}");
            assert!(!error.message().contains("hunter2"), "{error}");
        }
        assert!(TraceUrl::new(format!("https://a/{}{{trace_id}}", "x".repeat(2_000))).is_err());
    }
}
