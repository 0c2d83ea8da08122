//! The parameters of a destination's URL, `?name=value&…`, read in the same way for every transport.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

/// Reads the pairs of a URL's query. `set` gets each name and value, and refuses a value that it cannot read.
///
/// ```
/// # use pillarbox_core::parameters;
/// let mut prefetch = 64;
/// let pairs = [("prefetch".into(), "8".into())];
/// parameters::read(pairs, &["prefetch"], |_, value| {
///     prefetch = parameters::number(value)?;
///     Ok(())
/// })?;
/// assert_eq!(prefetch, 8);
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid), naming the parameter: it is not one of `allowed`, it is given twice, or its
/// value was refused.
pub fn read<'a>(
    pairs: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
    allowed: &[&str],
    mut set: impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    let mut seen = Vec::new();
    for (name, value) in pairs {
        if !allowed.contains(&name.as_ref()) {
            let allowed = allowed.join(", ");
            return Err(Error::invalid(format!(
                "unknown parameter {name:?}; the allowed ones are {allowed}"
            )));
        }
        if seen.contains(&name) {
            return Err(Error::invalid(format!("{name}= is given twice")));
        }
        set(&name, &value).map_err(|error| error.context(format!("{name}=")))?;
        seen.push(name);
    }
    Ok(())
}

/// Writes the functions that read the URLs of a transport's sink, source and transcript.
///
/// The options have a function `read(url, allowed)`. The module has the lists `OF_SINKS`, `OF_SOURCES` and
/// `OF_TRANSCRIPTS` of the parameters that each of them may set.
#[macro_export]
macro_rules! of_urls {
    ($options:ident) => {
        impl $options {
            /// Reads the URL of a sink.
            ///
            /// # Errors
            /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong and what is allowed.
            pub fn of_sink(url: &str) -> $crate::Result<Self> {
                Self::read(url, &OF_SINKS)
            }

            /// Reads the URL of a source.
            ///
            /// # Errors
            /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong and what is allowed.
            pub fn of_source(url: &str) -> $crate::Result<Self> {
                Self::read(url, &OF_SOURCES)
            }

            /// Reads the URL of a transcript.
            ///
            /// # Errors
            /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the part that is wrong and what is allowed.
            pub fn of_transcript(url: &str) -> $crate::Result<Self> {
                Self::read(url, &OF_TRANSCRIPTS)
            }
        }
    };
}

/// Reads a whole number.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) when it is none, or out of range.
pub fn number<N: FromStr>(text: &str) -> Result<N> {
    text.parse().map_err(|_| Error::invalid(format!("{text:?} is not a whole number, or it is out of range")))
}

/// Reads `true` or `false`.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) for anything else.
pub fn switch(text: &str) -> Result<bool> {
    text.parse().map_err(|_| Error::invalid(format!("{text:?} is not allowed; write true or false")))
}

/// Refuses durations of zero, by their names.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid), naming the first.
pub fn more_than_zero<'a>(durations: impl IntoIterator<Item = (&'a str, Duration)>) -> Result<()> {
    match durations.into_iter().find(|(_, duration)| duration.is_zero()) {
        Some((name, _)) => Err(Error::invalid(format!("{name} must be more than zero"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn read_all(query: &[(&'static str, &'static str)]) -> Result<Vec<u8>> {
        let mut read = Vec::new();
        let pairs = query.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        super::read(pairs, &["one", "two"], |_, value| {
            read.push(number(value)?);
            Ok(())
        })?;
        Ok(read)
    }

    fn refused<T: std::fmt::Debug>(read: Result<T>, why: &str) {
        let error = read.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, why));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        assert_eq!(read_all(&[("two", "2"), ("one", "1")]).unwrap(), [2, 1]);
        refused(read_all(&[("tow", "2")]), "unknown parameter \"tow\"; the allowed ones are one, two");
        refused(read_all(&[("two", "2"), ("two", "3")]), "two= is given twice");
        refused(read_all(&[("two", "256")]), "two=: \"256\" is not a whole number, or it is out of range");
        refused(switch("yes"), "\"yes\" is not allowed; write true or false");
        assert!(switch("true").unwrap() && !switch("false").unwrap());
        let second = Duration::from_secs(1);
        more_than_zero([("lease", second)]).unwrap();
        refused(more_than_zero([("lease", second), ("wait", Duration::ZERO)]), "wait must be more than zero");
    }
}
