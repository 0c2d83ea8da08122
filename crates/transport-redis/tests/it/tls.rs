//! `rediss://` with certificates of our own: the right one is accepted, every wrong one is refused.

use std::path::Path;

use pillarbox_core::port::Source;
use pillarbox_core::{ErrorKind, Outcome};
use pillarbox_transport_redis::{RedisSink, RedisSource};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::harness::{Server, deliver, deliver_one, down, entries};

/// An authority, and a server with a certificate of it.
struct Secured {
    server: Server,
    files: TempDir,
}

impl Secured {
    /// A server whose certificate is for this name.
    async fn start(name: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let write = |file: &str, text: String| std::fs::write(files.path().join(file), text).unwrap();
        write("ca.pem", authority.pem());
        write("cert.pem", certificate.pem());
        write("key.pem", key.serialize_pem());
        let at = files.path().display();
        let configuration = format!(
            "port 0\ntls-port PORT\ntls-auth-clients no\ntls-ca-cert-file {at}/ca.pem\n\
             tls-cert-file {at}/cert.pem\ntls-key-file {at}/key.pem"
        );
        Self { server: Server::start(&configuration).await, files }
    }

    fn ca(&self) -> std::path::PathBuf {
        self.files.path().join("ca.pem")
    }

    fn url(&self, ca: &Path) -> String {
        format!("rediss://localhost:{}?stream=orders&ca={}", self.server.port, ca.display())
    }
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_accepted() {
    let secured = Secured::start("localhost").await;
    let url = secured.url(&secured.ca());
    let outcomes = deliver(&RedisSink::new(&url).unwrap(), &entries(300)).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Confirmed));
    let source = RedisSource::new(&format!("{url}&group=g")).unwrap();
    let message = source.subscribe().await.unwrap().next().await.unwrap().unwrap();
    assert_eq!(message.body, b"{\"n\":0}");
}

#[tokio::test]
async fn a_wrong_certificate_is_refused_and_named() {
    let (secured, stranger) = (Secured::start("localhost").await, Secured::start("localhost").await);
    let another_host = Secured::start("example.org").await;
    let urls = [
        secured.url(&stranger.ca()),
        another_host.url(&another_host.ca()),
        format!("rediss://localhost:{}?stream=orders", secured.server.port),
    ];
    for url in urls {
        let outcome = deliver_one(&RedisSink::new(&url).unwrap(), &entries(1)[0]).await;
        assert_eq!(down(&outcome).code(), "tls", "{url}: {outcome:?}");
        let source = RedisSource::new(&format!("{url}&group=g")).unwrap();
        assert_eq!(source.subscribe().await.err().unwrap().kind(), ErrorKind::Denied);
    }
}
