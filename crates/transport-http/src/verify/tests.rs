use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use super::*;
use crate::signature::sign;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const MESSAGE: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SENT: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

struct At(i64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0 * 1_000_000).unwrap()
    }
}

fn verifier(secrets: &[&str], now: i64) -> Verifier {
    Verifier::new(secrets.iter().map(|secret| secret.parse().unwrap())).unwrap().clock(Arc::new(At(now)))
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    });
    pairs.collect()
}

fn signed() -> HeaderMap {
    headers(&[(ID, MESSAGE), (TIMESTAMP, &SENT.to_string()), (SIGNATURE, SIGNED)])
}

fn check(verifier: &Verifier, headers: &HeaderMap, wanted: Result<&str, Unverified>) {
    assert_eq!(verifier.verify(headers, BODY).map(|verified| verified.id), wanted);
}

#[test]
fn the_published_example_is_verified() {
    check(&verifier(&[SECRET], SENT), &signed(), Ok(MESSAGE));
}

#[test]
fn another_key_body_id_or_time_does_not_match() {
    check(&verifier(&[OTHER], SENT), &signed(), Err(Unverified::NoMatch));
    assert_eq!(
        verifier(&[SECRET], SENT).verify(&signed(), b"{\"test\":2432232314}"),
        Err(Unverified::NoMatch)
    );
    for (name, value) in [(ID, "msg_other"), (TIMESTAMP, "1614265331")] {
        let mut changed = signed();
        changed.insert(name, value.parse().unwrap());
        check(&verifier(&[SECRET], SENT), &changed, Err(Unverified::NoMatch));
    }
}

#[test]
fn a_signature_of_any_key_is_enough_while_keys_change() {
    let sender: Vec<Secret> = vec![OTHER.parse().unwrap(), SECRET.parse().unwrap()];
    let mut both = signed();
    both.insert(SIGNATURE, sign(&sender, MESSAGE, SENT, BODY).parse().unwrap());
    for known in [&[SECRET][..], &[OTHER], &[OTHER, SECRET]] {
        check(&verifier(known, SENT), &both, Ok(MESSAGE));
    }
    check(&verifier(&[OTHER, SECRET], SENT), &signed(), Ok(MESSAGE));
}

#[test]
fn the_tolerance_holds_both_ways_and_to_the_second() {
    let minutes_5 = 300;
    check(&verifier(&[SECRET], SENT + minutes_5), &signed(), Ok(MESSAGE));
    check(&verifier(&[SECRET], SENT - minutes_5), &signed(), Ok(MESSAGE));
    check(&verifier(&[SECRET], SENT + minutes_5 + 1), &signed(), Err(Unverified::TooOld));
    check(&verifier(&[SECRET], SENT - minutes_5 - 1), &signed(), Err(Unverified::TooNew));
    let patient = verifier(&[SECRET], SENT + 3600).tolerance(Duration::from_secs(3600));
    check(&patient, &signed(), Ok(MESSAGE));
}

#[test]
fn a_header_that_is_missing_or_twice_there_is_named() {
    for name in [ID, TIMESTAMP, SIGNATURE] {
        let mut missing = signed();
        missing.remove(name);
        check(&verifier(&[SECRET], SENT), &missing, Err(Unverified::Missing(name)));
        let mut twice = signed();
        twice.append(name, "x".parse().unwrap());
        check(&verifier(&[SECRET], SENT), &twice, Err(Unverified::Malformed(name)));
    }
}

#[test]
fn a_malformed_header_is_named() {
    for (name, value) in [
        (ID, ""),
        (ID, "a.b"),
        (ID, "\u{e9}"),
        (TIMESTAMP, ""),
        (TIMESTAMP, "now"),
        (TIMESTAMP, "+1614265330"),
        (TIMESTAMP, "01614265330"),
        (TIMESTAMP, "1614265330.5"),
        (TIMESTAMP, "-1"),
        (TIMESTAMP, "9223372036854775807"),
        (SIGNATURE, "g0hM9SsE"),
        (SIGNATURE, "v1,???"),
        (SIGNATURE, &[SIGNED; 9].join(" ")),
    ] {
        let mut malformed = signed();
        malformed.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        check(&verifier(&[SECRET], SENT), &malformed, Err(Unverified::Malformed(name)));
    }
}

#[test]
fn versions_that_nobody_knows_are_passed_over() {
    for (value, wanted) in [
        (format!("v9,AAAA {SIGNED}"), Ok(MESSAGE)),
        ("v9,AAAA".to_owned(), Err(Unverified::NoMatch)),
        (String::new(), Err(Unverified::NoMatch)),
        // The right bytes under the wrong version prove nothing.
        (SIGNED.replace("v1,", "v1a,"), Err(Unverified::NoMatch)),
        ("v1,".to_owned(), Err(Unverified::NoMatch)),
    ] {
        let mut changed = signed();
        changed.insert(SIGNATURE, value.parse().unwrap());
        check(&verifier(&[SECRET], SENT), &changed, wanted);
    }
}

#[test]
fn a_public_key_verifies_what_its_private_key_signed() {
    let private = format!("whsk_{}", STANDARD.encode([7; 32]));
    let secret: Secret = private.parse().unwrap();
    let public = format!("whpk_{}", STANDARD.encode(secret.kind().public().unwrap()));
    let mut asymmetric = signed();
    asymmetric.insert(SIGNATURE, sign(&[secret], MESSAGE, SENT, BODY).parse().unwrap());
    check(&verifier(&[&public], SENT), &asymmetric, Ok(MESSAGE));
    check(&verifier(&[&private], SENT), &asymmetric, Ok(MESSAGE));
    check(&verifier(&[SECRET], SENT), &asymmetric, Err(Unverified::NoMatch));
    let other = format!("whsk_{}", STANDARD.encode([8; 32]));
    check(&verifier(&[&other], SENT), &asymmetric, Err(Unverified::NoMatch));
    check(&verifier(&[&public], SENT), &signed(), Err(Unverified::NoMatch));
}

#[test]
fn a_verifier_without_a_key_is_refused_and_one_with_keys_does_not_show_them() {
    assert!(Verifier::new([]).is_err());
    let shown = format!("{:?}", verifier(&[SECRET], SENT));
    assert!(shown.contains("whsec_***") && !shown.contains("MfKQ9"), "{shown}");
}
