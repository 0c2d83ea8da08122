//! Signing webhooks as Standard Webhooks says: `webhook-id`, `webhook-timestamp`, `webhook-signature`.

use std::fmt::Write as _;

use base64::Engine as _;
use pillarbox_core::{Error, Result};
use ring::hmac;

use crate::secret::{BASE64, Kind, Secret};

/// The header with the event id.
pub(crate) const ID: &str = "webhook-id";
/// The header with the time of this attempt, in seconds since 1970.
pub(crate) const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures, separated by blanks: one of them has to match.
pub(crate) const SIGNATURE: &str = "webhook-signature";

/// Most keys that a sender signs with; a receiver looks at no more signatures than that.
pub(crate) const SIGNATURES_MAX: usize = 8;

/// Refuses keys that cannot sign, and more of them than anybody looks at.
pub(crate) fn check(secrets: &[Secret]) -> Result<()> {
    if secrets.len() > SIGNATURES_MAX {
        return Err(Error::invalid(format!(
            "there are {} secrets; at most {SIGNATURES_MAX} may sign at the same time",
            secrets.len()
        )));
    }
    if secrets.iter().any(|secret| !secret.signs()) {
        return Err(Error::invalid("a public key (whpk_) cannot sign: give the sender whsec_ or whsk_"));
    }
    Ok(())
}

/// One signature per key, separated by blanks: a receiver that knows any of them is content, so keys can change
/// without a gap.
pub(crate) fn sign(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut signatures = String::new();
    for secret in secrets {
        let (version, signature) = match secret.kind() {
            Kind::Shared(key) => ("v1", BASE64.encode(tag(key, id, timestamp, body))),
            Kind::Private(pair) => ("v1a", BASE64.encode(pair.sign(&content(id, timestamp, body)))),
            Kind::Public(_) => continue,
        };
        let blank = if signatures.is_empty() { "" } else { " " };
        // Writing to a text cannot fail.
        let _ = write!(signatures, "{blank}{version},{signature}");
    }
    signatures
}

/// HMAC-SHA256 of `id.timestamp.body`, without copying the body.
pub(crate) fn tag(key: &hmac::Key, id: &str, timestamp: i64, body: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(id.as_bytes());
    context.update(format!(".{timestamp}.").as_bytes());
    context.update(body);
    context.sign()
}

/// What is signed, in one piece: Ed25519 reads it twice.
pub(crate) fn content(id: &str, timestamp: i64, body: &[u8]) -> Vec<u8> {
    [format!("{id}.{timestamp}.").as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn secret(text: &str) -> Secret {
        text.parse().unwrap()
    }

    #[test]
    fn the_published_example_is_signed_as_published() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        assert_eq!(sign(&[secret], ID, TIMESTAMP, BODY), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn every_key_signs_in_its_order() {
        let keys = [
            secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            secret(&format!("whsk_{}", BASE64.encode([7; 32]))),
        ];
        let signatures = sign(&keys, ID, TIMESTAMP, BODY);
        let versions: Vec<_> =
            signatures.split(' ').map(|signature| signature.split_once(',').unwrap().0).collect();
        assert_eq!(versions, ["v1", "v1a"]);
        assert_eq!(sign(&[], ID, TIMESTAMP, BODY), "");
    }

    #[test]
    fn a_key_that_cannot_sign_is_refused_when_the_sink_is_made() {
        let public = secret(&format!("whpk_{}", BASE64.encode([7; 32])));
        assert!(check(&[public]).unwrap_err().to_string().contains("whpk_"));
        let many = vec![secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"); SIGNATURES_MAX + 1];
        assert!(check(&many).unwrap_err().to_string().contains("at most 8"));
    }
}
