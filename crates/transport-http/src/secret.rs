//! Keys of webhook signatures, in the serialisation of Standard Webhooks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use pillarbox_core::{Error, Result};
use ring::hmac;
use ring::signature::{ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair as _};

/// Shortest and longest shared secret, in bytes.
const SHARED_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// People copy keys with and without the padding at their end.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key that signs or verifies webhooks. It is never shown: its `Debug` output names only the kind of key.
///
/// * `whsec_…`: a shared secret of 24 to 64 bytes, in base64. Signs and verifies (`v1`, HMAC-SHA256).
/// * `whsk_…`: an Ed25519 private key, in base64: its seed of 32 bytes, or seed and public key. Signs and
///   verifies (`v1a`).
/// * `whpk_…`: an Ed25519 public key of 32 bytes, in base64. Only verifies (`v1a`).
///
/// ```
/// let secret: pillarbox_transport_http::Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
/// assert_eq!(format!("{secret:?}"), "Secret(whsec_***)");
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Secret(Arc<Kind>);

pub(crate) enum Kind {
    Shared(hmac::Key),
    Private(Ed25519KeyPair),
    Public([u8; ED25519_PUBLIC_KEY_LEN]),
}

impl Secret {
    pub(crate) fn kind(&self) -> &Kind {
        &self.0
    }

    /// Whether this key can sign. A public key cannot.
    #[must_use]
    pub fn signs(&self) -> bool {
        !matches!(*self.0, Kind::Public(_))
    }

    fn prefix(&self) -> &'static str {
        match *self.0 {
            Kind::Shared(_) => "whsec_",
            Kind::Private(_) => "whsk_",
            Kind::Public(_) => "whpk_",
        }
    }
}

impl Kind {
    /// What verifies a `v1a` signature of this key.
    pub(crate) fn public(&self) -> Option<&[u8]> {
        match self {
            Self::Shared(_) => None,
            Self::Private(pair) => Some(pair.public_key().as_ref()),
            Self::Public(key) => Some(key),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}***)", self.prefix())
    }
}

impl FromStr for Secret {
    type Err = Error;

    /// The text is not quoted in an error.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let kind = if let Some(key) = text.strip_prefix("whsec_") {
            shared(key)
        } else if let Some(key) = text.strip_prefix("whsk_") {
            private(key)
        } else if let Some(key) = text.strip_prefix("whpk_") {
            public(key)
        } else {
            Err("a webhook secret begins with whsec_ (or whsk_, whpk_ for Ed25519 keys)")
        };
        kind.map(|kind| Self(Arc::new(kind))).map_err(Error::invalid)
    }
}

fn shared(key: &str) -> Result<Kind, &'static str> {
    let refused = "whsec_ must be followed by the base64 of 24 to 64 bytes";
    let bytes = BASE64.decode(key).ok().filter(|bytes| SHARED_BYTES.contains(&bytes.len())).ok_or(refused)?;
    Ok(Kind::Shared(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
}

fn private(key: &str) -> Result<Kind, &'static str> {
    let refused =
        "whsk_ must be followed by the base64 of an Ed25519 seed, or of the seed and its public key";
    let bytes = BASE64.decode(key).map_err(|_| refused)?;
    let pair = match bytes.split_at_checked(32) {
        Some((seed, [])) => Ed25519KeyPair::from_seed_unchecked(seed),
        Some((seed, public)) => Ed25519KeyPair::from_seed_and_public_key(seed, public),
        None => return Err(refused),
    };
    pair.map(Kind::Private).map_err(|_| refused)
}

fn public(key: &str) -> Result<Kind, &'static str> {
    let bytes = BASE64.decode(key).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(Kind::Public).ok_or("whpk_ must be followed by the base64 of an Ed25519 public key of 32 bytes")
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn refused(text: &str, with: &str) {
        let error = text.parse::<Secret>().unwrap_err().to_string();
        assert!(error.contains(with) && !error.contains("canary"), "{error}");
    }

    #[test]
    fn a_secret_has_24_to_64_bytes() {
        for length in [24, 25, 63, 64] {
            format!("whsec_{}", STANDARD.encode(vec![7; length])).parse::<Secret>().unwrap();
        }
        for length in [0, 1, 23, 65] {
            refused(&format!("whsec_{}", STANDARD.encode(vec![7; length])), "24 to 64 bytes");
        }
        refused("whsec_canary!", "24 to 64 bytes");
    }

    #[test]
    fn padding_and_blanks_around_it_do_not_matter() {
        let padded = STANDARD.encode([7; 25]);
        for text in [format!("whsec_{padded}\n"), format!("whsec_{}", padded.trim_end_matches('='))] {
            text.parse::<Secret>().unwrap();
        }
    }

    #[test]
    fn what_is_no_key_is_refused_without_quoting_it() {
        for text in ["", "canary", "WHSEC_canary"] {
            refused(text, "begins with whsec_");
        }
        refused("whsk_canary", "whsk_");
        refused("whpk_canary", "32 bytes");
        let other_public = [[7_u8; 32], [8; 32]].concat();
        refused(&format!("whsk_{}", STANDARD.encode(other_public)), "whsk_");
    }

    #[test]
    fn a_public_key_cannot_sign() {
        assert!(!format!("whpk_{}", STANDARD.encode([7; 32])).parse::<Secret>().unwrap().signs());
        assert!(format!("whsk_{}", STANDARD.encode([7; 32])).parse::<Secret>().unwrap().signs());
    }
}
