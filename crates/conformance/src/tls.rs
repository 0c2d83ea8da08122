//! The suite for TLS: a sink and a source accept the right certificate and refuse every wrong one.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::ErrorKind;
use pillarbox_core::port::{Sink, Source};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::case::Case;
use super::delivery::{SOON, assert_outcome, confirm, deliver_one, down, entries};
use super::suite::{run_named, table};
use super::tls;

/// A server that speaks TLS, with an empty destination of its own.
#[async_trait]
pub trait TlsHarness: Send + Sync + Sized + 'static {
    /// The server's name in the output of the suite.
    const NAME: &'static str;

    /// Starts a server with this certificate.
    async fn start(certificate: &Issued) -> Self;

    /// A sink to the server under the name `localhost`. It trusts this authority, or those of the system if
    /// there is none.
    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink>;

    /// A source of the same destination.
    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source>;
}

/// A certificate authority for a test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// An authority with this name and a key of its own.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for this host. `change` may change its parameters.
    #[must_use]
    pub fn issue(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let issued = Issued(tempfile::tempdir().unwrap());
        std::fs::write(issued.ca(), self.0.pem()).unwrap();
        std::fs::write(issued.certificate(), certificate.pem()).unwrap();
        std::fs::write(issued.key(), key.serialize_pem()).unwrap();
        issued
    }
}

/// A certificate, its key and the certificate of its authority, as files.
pub struct Issued(TempDir);

impl Issued {
    /// The file with the authority's own certificate.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }

    /// The file with the certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.0.path().join("cert.pem")
    }

    /// The file with the key of the certificate.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }
}

/// By a sink and by a source.
pub async fn a_certificate_of_a_trusted_authority_is_accepted<H: TlsHarness>(_: &PhantomData<H>) {
    let issued = Authority::new("ours").issue("localhost", |_| ());
    let server = H::start(&issued).await;
    confirm(&*server.sink(Some(&issued.ca())), &entries(300)).await;
    let source = server.source(Some(&issued.ca()));
    let mut subscription = source.subscribe().await.unwrap();
    let message = tokio::time::timeout(SOON, subscription.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(message.body, b"{\"n\":0}");
}

/// Of a stranger, for another host, expired, or from an authority that is not trusted.
pub async fn a_wrong_certificate_is_refused_and_named<H: TlsHarness>(_: &PhantomData<H>) {
    let (ours, stranger) = (Authority::new("ours"), Authority::new("stranger"));
    let right = ours.issue("localhost", |_| ());
    let expired = ours.issue("localhost", |params| {
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    });
    for (issued, ca) in [
        (stranger.issue("localhost", |_| ()), Some(right.ca())),
        (ours.issue("example.org", |_| ()), Some(right.ca())),
        (expired, Some(right.ca())),
        (ours.issue("localhost", |_| ()), None),
    ] {
        let server = H::start(&issued).await;
        let outcome = deliver_one(&*server.sink(ca.as_deref()), &entries(1)[0]).await;
        assert_outcome(&outcome, "down/tls");
        let refused = server.source(ca.as_deref()).subscribe().await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    }
}

/// The setting is named, not only the file.
pub async fn an_authority_that_cannot_be_read_is_named<H: TlsHarness>(_: &PhantomData<H>) {
    let server = H::start(&Authority::new("ours").issue("localhost", |_| ())).await;
    let nowhere = Some(Path::new("nowhere.pem"));
    let outcome = deliver_one(&*server.sink(nowhere), &entries(1)[0]).await;
    assert!(down(&outcome).text().contains("ca="), "{outcome:?}");
    let refused = server.source(nowhere).subscribe().await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("ca="), "{refused}");
}

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __tls_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            tls {
                a_certificate_of_a_trusted_authority_is_accepted,
                a_wrong_certificate_is_refused_and_named,
                an_authority_that_cannot_be_read_is_named,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases<H: TlsHarness>() -> Vec<Case<PhantomData<H>>> {
    crate::__tls_cases!([table] PhantomData<H>)
}

/// Runs one case by its name; what `tls_conformance!` expands to.
///
/// # Panics
/// When the transport does not behave as the case says, or no case has this name.
pub fn run<H: TlsHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, std::future::ready(PhantomData));
}

/// Expands to one test per case of the suite for TLS.
///
/// ```no_run
/// # mod it {
/// # fn my_server(_certificate: PathBuf, _key: PathBuf) -> u16 { unimplemented!() }
/// # fn my_sink(url: String) -> Arc<dyn Sink> { unimplemented!("{url}") }
/// # fn my_source(url: String) -> Arc<dyn Source> { unimplemented!("{url}") }
/// # use std::path::PathBuf;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use pillarbox_conformance::tls::{Issued, TlsHarness};
/// use pillarbox_core::port::{Sink, Source};
///
/// struct Harness {
///     port: u16,
/// }
///
/// impl Harness {
///     fn url(&self, ca: Option<&Path>) -> String {
///         let ca = ca.map(|ca| format!("?ca={}", ca.display())).unwrap_or_default();
///         format!("mines://localhost:{}/orders{ca}", self.port)
///     }
/// }
///
/// #[async_trait]
/// impl TlsHarness for Harness {
///     const NAME: &'static str = "my broker";
///
///     async fn start(certificate: &Issued) -> Self {
///         Self { port: my_server(certificate.certificate(), certificate.key()) }
///     }
///
///     fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
///         my_sink(self.url(ca))
///     }
///
///     fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
///         my_source(self.url(ca))
///     }
/// }
///
/// pillarbox_conformance::tls_conformance!(Harness);
/// # }
/// ```
#[macro_export]
macro_rules! tls_conformance {
    ($harness:ty) => {
        $crate::__tls_cases!([$crate::__conformance_tests] $crate::tls::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names};

    #[test]
    fn every_public_case_is_in_the_list() {
        lists(&crate::__tls_cases!([names]), &[("tls", include_str!("tls.rs"))]);
    }
}
