//! A receiver of OTLP over HTTP: it decodes what it gets with the published definition of the protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::home::eventually;

/// What was received.
#[derive(Clone, Default)]
pub(super) struct Received {
    spans: Arc<Mutex<Vec<Span>>>,
    services: Arc<Mutex<Vec<String>>>,
}

/// A server on a port of the loopback. It ends with the process.
pub(super) struct Receiver {
    pub(super) url: String,
    received: Received,
}

impl Receiver {
    pub(super) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(super) fn on(listener: TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Received::default();
        let shared = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                shared.take(stream);
            }
        });
        Self { url, received }
    }

    /// A server with TLS, and its certificate.
    pub(super) fn secure() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let received = Received::default();
        let shared = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                shared.take(StreamOwned::new(tls, stream));
            }
        });
        (Self { url, received }, made.cert.pem())
    }

    /// Waits until spans of this operation have come, this many or more, and returns them.
    #[track_caller]
    pub(super) fn spans(&self, operation: &str, at_least: usize) -> Vec<Span> {
        let of = || -> Vec<Span> {
            let spans = self.received.spans.lock().unwrap();
            spans
                .iter()
                .filter(|span| text(&span.attributes, "messaging.operation.type") == operation)
                .cloned()
                .collect()
        };
        eventually(&format!("{at_least} spans of {operation} come"), || of().len() >= at_least);
        of()
    }

    /// The one span of this operation with this name.
    #[track_caller]
    pub(super) fn span(&self, operation: &str, name: &str) -> Span {
        let spans = self.spans(operation, 1);
        let mut named: Vec<Span> = spans.into_iter().filter(|span| span.name == name).collect();
        assert_eq!(named.len(), 1, "{operation} {name}: {named:?}");
        named.remove(0)
    }

    /// Everything that was received, as text.
    pub(super) fn everything(&self) -> String {
        format!("{:?}", self.received.spans.lock().unwrap())
    }

    pub(super) fn services(&self) -> Vec<String> {
        self.received.services.lock().unwrap().clone()
    }
}

impl Received {
    fn take(&self, stream: impl Read + Write) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() {
            // The client does not trust the certificate.
            return;
        }
        assert!(line.starts_with("POST /v1/traces HTTP/1.1"), "{line}");
        let (mut length, mut is_protobuf) = (0, false);
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            is_protobuf |= header == "content-type: application/x-protobuf";
        }
        assert!(is_protobuf);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        for resource in request.resource_spans {
            let attributes = resource.resource.unwrap_or_default().attributes;
            self.services.lock().unwrap().push(text(&attributes, "service.name"));
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.lock().unwrap().extend(spans);
        }
        let answer = ExportTraceServiceResponse::default().encode_to_vec();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            answer.len()
        );
        let stream = reader.get_mut();
        stream.write_all(&[head.as_bytes(), &answer].concat()).unwrap();
        stream.flush().unwrap();
    }
}

/// An attribute as text; empty if it is not there.
pub(super) fn text(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.clone()).and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => panic!("{name} is {other:?}"),
        None => String::new(),
    }
}

/// Bytes as a W3C context has them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
