//! `tls://` with certificates of our own: the right one is accepted, every wrong one is refused.

use std::path::Path;

use async_nats::jetstream::stream::Config;
use pillarbox_core::port::Source;
use pillarbox_core::{ErrorKind, Outcome};
use pillarbox_transport_nats::{NatsSink, NatsSource};
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
            "jetstream {{ store_dir: \"DATA\" }}\ntls {{ cert_file: \"{at}/cert.pem\", key_file: \"{at}/key.pem\" }}"
        );
        Self { server: Server::start(&configuration).await, files }
    }

    fn ca(&self) -> std::path::PathBuf {
        self.files.path().join("ca.pem")
    }

    fn url(&self, ca: &Path) -> String {
        format!("tls://localhost:{}/orders?ca={}", self.server.port, ca.display())
    }
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_accepted() {
    let secured = Secured::start("localhost").await;
    let client = async_nats::ConnectOptions::new().add_root_certificates(secured.ca()).require_tls(true);
    let client = client.connect(format!("tls://localhost:{}", secured.server.port)).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let config = Config { name: "orders".into(), ..Config::default() };
    context.create_stream(config).await.unwrap();
    let url = secured.url(&secured.ca());
    let outcomes = deliver(&NatsSink::new(&url).unwrap(), &entries(300)).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Confirmed));
    let source = NatsSource::new(&format!("{url}&durable=d")).unwrap();
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
        format!("tls://localhost:{}/orders", secured.server.port),
        // The server asks for TLS, whatever the URL says.
        secured.url(&stranger.ca()).replacen("tls://", "nats://", 1),
    ];
    for url in urls {
        let outcome = deliver_one(&NatsSink::new(&url).unwrap(), &entries(1)[0]).await;
        assert_eq!(down(&outcome).code(), "tls", "{url}: {outcome:?}");
        let parameter = if url.contains('?') { '&' } else { '?' };
        let source = NatsSource::new(&format!("{url}{parameter}durable=d")).unwrap();
        assert_eq!(source.subscribe().await.err().unwrap().kind(), ErrorKind::Denied);
    }
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_is_named() {
    let secured = Secured::start("localhost").await;
    let sink = NatsSink::new(&secured.url(Path::new("nowhere.pem"))).unwrap();
    let outcome = deliver_one(&sink, &entries(1)[0]).await;
    assert!(down(&outcome).text().contains("ca="), "{outcome:?}");
}
