//! W3C trace contexts: what stands in `traceparent` and `tracestate`, as OpenTelemetry's types.

use std::str::FromStr as _;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use pillarbox_host::{Creation, TraceContext};

/// The context of a span, as text.
pub(crate) fn write(span: &SpanContext) -> TraceContext {
    // Other flags than this one have no meaning in version 00.
    let sampled = u8::from(span.is_sampled());
    TraceContext::new(format!("00-{:032x}-{:016x}-{sampled:02x}", span.trace_id(), span.span_id()))
        .tracestate(span.trace_state().header())
}

/// The stored context of an event. `None`: what is stored is no context.
pub(crate) fn read(creation: Creation<'_>) -> Option<SpanContext> {
    parse(creation.traceparent, creation.tracestate)
}

/// Reads a context. Any producer may have written it: what does not follow the rule is no context. A `tracestate` that
/// cannot be read is left out, as the rule says.
pub(crate) fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<SpanContext> {
    let mut parts = traceparent.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may add parts, version 00 has four.
    let version = hex(version, 2)?;
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let trace = TraceId::from_hex(hex(trace, 32)?).ok()?;
    let span = SpanId::from_hex(hex(span, 16)?).ok()?;
    let flags = u8::from_str_radix(hex(flags, 2)?, 16).ok()?;
    let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let state = tracestate.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    Some(SpanContext::new(trace, span, flags, true, state)).filter(SpanContext::is_valid)
}

/// This many lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<&str> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    Some(text).filter(|text| text.len() == digits && text.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn check(traceparent: &str, is_context: bool) {
        assert_eq!(parse(traceparent, None).is_some(), is_context, "{traceparent:?}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (flags, state) in [("01", Some("shop=a,other=b")), ("00", None)] {
            let text = format!("00-{TRACE}-{SPAN}-{flags}");
            let context = parse(&text, state).unwrap();
            assert!(context.is_remote());
            let written = write(&context);
            assert_eq!((written.traceparent, written.tracestate.as_deref()), (text, state));
        }
    }

    #[test]
    fn what_is_no_context_is_not_taken_for_one() {
        check(&format!("00-{TRACE}-{SPAN}-01"), true);
        check(&format!("cc-{TRACE}-{SPAN}-01-later"), true);
        check(&format!("00-{TRACE}-{SPAN}-01-later"), false);
        check(&format!("ff-{TRACE}-{SPAN}-01"), false);
        check(&format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false);
        check(&format!("00-{}-{SPAN}-01", "0".repeat(32)), false);
        check(&format!("00-{TRACE}-{}-01", "0".repeat(16)), false);
        check(&format!("00-{TRACE}-{SPAN}"), false);
        check(&format!("00-{TRACE}-+0f067aa0ba902b7-01"), false);
        check("canary", false);
        check("", false);
    }

    #[test]
    fn a_tracestate_that_cannot_be_read_is_left_out() {
        let context = parse(&format!("00-{TRACE}-{SPAN}-01"), Some("no state")).unwrap();
        assert_eq!(context.trace_state().header(), "");
    }
}
