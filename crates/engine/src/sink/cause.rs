//! From an error that a handler returned with `?` to what is stored of it, and what is logged.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use pillarbox_core::{Error, Failure, FailureKind, Outcome, PayloadError};

/// Most errors of a chain that are looked at.
const LINKS_MAX: usize = 32;
/// Longest code of a failure, in bytes.
const CODE_BYTES_MAX: usize = 64;

/// What a handler's error means for its entry.
///
/// A payload of another shape, however deep in the chain, is rejected: it will not change. Everything else is tried
/// again. Stored is the type with its module path, and of two kinds of error a text that never carries data; the texts
/// of all others may, so they are for the log alone.
pub(super) fn outcome_of(type_name: &str, error: &(dyn StdError + 'static)) -> Outcome {
    let cause = chain(error);
    if let Some(payload) = links(error).find_map(|link| link.downcast_ref::<PayloadError>()) {
        let failure = Failure::new(FailureKind::Rejected, "payload", payload.to_string());
        return Outcome::Rejected(failure.caused_by(&cause));
    }
    let text = links(error).find_map(harmless).unwrap_or_default();
    let failure = Failure::new(FailureKind::Failed, code(type_name), text).caused_by(&cause);
    Outcome::Failed { failure, retry_after: None }
}

fn links<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    successors(Some(error), |&link| link.source()).take(LINKS_MAX)
}

/// The texts of all errors of a chain, outermost first. Many repeat the text of their source: it is shown once.
fn chain(error: &(dyn StdError + 'static)) -> String {
    links(error).map(ToString::to_string).fold(String::new(), |chain, text| match chain.as_str() {
        "" => text,
        before if before.contains(&text) => chain,
        before => format!("{before}: {text}"),
    })
}

/// The text of an error that never carries data.
fn harmless(error: &(dyn StdError + 'static)) -> Option<String> {
    let own = error.downcast_ref::<Error>().map(ToString::to_string);
    own.or_else(|| error.downcast_ref::<io::Error>().map(|error| error.kind().to_string()))
}

/// A type as a code: without what it is generic over, and if it is too long without its outermost modules.
fn code(type_name: &str) -> &str {
    let mut code = type_name.trim_start_matches('&').split('<').next().unwrap_or(type_name);
    while code.len() > CODE_BYTES_MAX {
        let Some((_, inner)) = code.split_once("::") else { break };
        code = inner;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_type_with_as_many_modules_as_fit() {
        assert_eq!(code("std::io::error::Error"), "std::io::error::Error");
        assert_eq!(code("alloc::boxed::Box<dyn core::error::Error>"), "alloc::boxed::Box");
        assert_eq!(code("&str"), "str");
        let long = format!("{}::inner::Error", "m".repeat(60));
        assert_eq!(code(&long), "inner::Error");
    }

    #[test]
    fn a_chain_is_told_from_the_outermost_on_and_nothing_twice() {
        let inner = io::Error::other("the disk is full");
        let own = Error::invalid("write the invoice").with_source(inner);
        assert_eq!(chain(&own), "write the invoice: the disk is full");
        assert_eq!(chain(&io::Error::other(Error::invalid("once"))), "once");
    }
}
