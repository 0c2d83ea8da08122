//! Verifying webhooks: whether a request was signed with the key, and recently.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use http::HeaderMap;
use pillarbox_core::port::Clock;
use pillarbox_core::{Error, Result, Timestamp};
use pillarbox_host::SystemClock;
use ring::signature::{ED25519, UnparsedPublicKey};
use subtle::ConstantTimeEq as _;

use crate::secret::{BASE64, Kind, Secret};
use crate::signature::{ID, SIGNATURE, SIGNATURES_MAX, TIMESTAMP, content, tag};

/// The default of [`Verifier::tolerance`]: how far a webhook's time may differ from the receiver's clock,
/// both ways.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// Verifies the signatures of Standard Webhooks, from any sender.
///
/// During a key rotation several keys may be given: a signature with any of them is enough. Signatures are
/// compared in constant time. A webhook that was recorded and sent again within the tolerance is verified
/// again. Its id is the idempotency key, so the inbox recognizes it as a duplicate.
///
/// ```
/// use pillarbox_transport_http::{Unverified, Verifier};
///
/// let verifier = Verifier::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?])?;
/// let headers = http::HeaderMap::new();
/// assert_eq!(verifier.verify(&headers, b"{}"), Err(Unverified::Missing("webhook-id")));
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Verifier {
    secrets: Vec<Secret>,
    tolerance: Duration,
    clock: Arc<dyn Clock>,
}

/// A webhook whose signature is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    /// The `webhook-id`, for the inbox. For an event of Pillarbox it is the event id.
    pub id: &'a str,
    /// When the sender made this attempt, by the sender's clock.
    pub timestamp: Timestamp,
}

/// Why a webhook was not verified. It names headers, never their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unverified {
    /// This header is missing.
    Missing(&'static str),
    /// This header cannot be read, or occurs twice.
    Malformed(&'static str),
    /// The webhook is older than the tolerance: it is a replay, or a clock is wrong.
    TooOld,
    /// The webhook's time is further in the future than the tolerance: a clock is wrong.
    TooNew,
    /// No signature was made with one of the verifier's keys.
    NoMatch,
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(header) => write!(f, "the header {header} is missing"),
            Self::Malformed(header) => write!(f, "the header {header} is malformed"),
            Self::TooOld => f.write_str("webhook-timestamp is too old"),
            Self::TooNew => f.write_str("webhook-timestamp is too far in the future"),
            Self::NoMatch => f.write_str("no signature matches"),
        }
    }
}

impl std::error::Error for Unverified {}

impl Verifier {
    /// A verifier with these keys. A signature with any of them is enough.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) if no key is given, because then nothing could be
    /// verified.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Result<Self> {
        let secrets: Vec<_> = secrets.into_iter().collect();
        if secrets.is_empty() || secrets.len() > SIGNATURES_MAX {
            return Err(Error::invalid(format!("a verifier needs 1 to {SIGNATURES_MAX} secrets")));
        }
        Ok(Self { secrets, tolerance: TOLERANCE_DEFAULT, clock: Arc::new(SystemClock) })
    }

    /// Sets how far a webhook's time may differ from the receiver's clock. Default: [`TOLERANCE_DEFAULT`].
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets the clock of the verifier. Default: the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Verifies a request by its headers and its unchanged body.
    ///
    /// # Errors
    /// The reason why the request is not verified.
    pub fn verify<'a>(&self, headers: &'a HeaderMap, body: &[u8]) -> Result<Verified<'a>, Unverified> {
        let id = one(headers, ID)?;
        // A full stop in the id could make two requests look the same to the signature.
        if id.is_empty() || id.contains('.') {
            return Err(Unverified::Malformed(ID));
        }
        let (seconds, timestamp) = timestamp(one(headers, TIMESTAMP)?)?;
        let now = self.clock.now();
        if now.since(timestamp) > self.tolerance {
            return Err(Unverified::TooOld);
        }
        if timestamp.since(now) > self.tolerance {
            return Err(Unverified::TooNew);
        }
        let given = given(one(headers, SIGNATURE)?)?;
        let matches = self.secrets.iter().any(|secret| matches(secret.kind(), &given, id, seconds, body));
        if matches { Ok(Verified { id, timestamp }) } else { Err(Unverified::NoMatch) }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("secrets", &self.secrets)
            .field("tolerance", &self.tolerance)
            .finish_non_exhaustive()
    }
}

/// The value of a header that is there exactly once: of two values one would be verified and the other used.
fn one<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Unverified> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(Unverified::Missing(name))?;
    if values.next().is_some() {
        return Err(Unverified::Malformed(name));
    }
    value.to_str().map_err(|_| Unverified::Malformed(name))
}

/// Whole seconds since 1970 in their one spelling: another spelling would be signed as something else.
fn timestamp(text: &str) -> Result<(i64, Timestamp), Unverified> {
    let seconds: i64 = text.parse().map_err(|_| Unverified::Malformed(TIMESTAMP))?;
    let at = seconds.checked_mul(1_000_000).and_then(Timestamp::from_micros);
    let at = at.filter(|_| seconds.to_string() == text).ok_or(Unverified::Malformed(TIMESTAMP))?;
    Ok((seconds, at))
}

/// The signatures of the versions that we know, by version. Others are for other receivers.
fn given(header: &str) -> Result<Vec<(&str, Vec<u8>)>, Unverified> {
    let signatures: Vec<_> = header.split(' ').filter(|signature| !signature.is_empty()).collect();
    // Every signature costs a look at the whole body.
    if signatures.len() > SIGNATURES_MAX {
        return Err(Unverified::Malformed(SIGNATURE));
    }
    let mut known = Vec::new();
    for signature in signatures {
        let (version, signature) = signature.split_once(',').ok_or(Unverified::Malformed(SIGNATURE))?;
        if matches!(version, "v1" | "v1a") {
            let bytes = BASE64.decode(signature).map_err(|_| Unverified::Malformed(SIGNATURE))?;
            known.push((version, bytes));
        }
    }
    Ok(known)
}

fn matches(kind: &Kind, given: &[(&str, Vec<u8>)], id: &str, seconds: i64, body: &[u8]) -> bool {
    let of = |wanted| given.iter().filter(move |(version, _)| *version == wanted).map(|(_, bytes)| bytes);
    if let Kind::Shared(key) = kind {
        let expected = tag(key, id, seconds, body);
        return of("v1").any(|bytes| bool::from(bytes.ct_eq(expected.as_ref())));
    }
    let Some(public) = kind.public() else { return false };
    let key = UnparsedPublicKey::new(&ED25519, public);
    let mut signatures = of("v1a").peekable();
    if signatures.peek().is_none() {
        return false;
    }
    let content = content(id, seconds, body);
    signatures.any(|bytes| key.verify(&content, bytes).is_ok())
}

#[cfg(test)]
mod tests;
