//! There is no transcript, and the error says what can be compared instead.

use pillarbox_core::port::Transcript;
use pillarbox_core::{ErrorKind, RouteName};
use pillarbox_transport_sqs::SqsTranscript;

#[tokio::test]
async fn nothing_can_be_read_back_and_the_error_says_what_can_be_compared() {
    let route = RouteName::new("orders").unwrap();
    for transcript in [
        SqsTranscript::new("sqs://eu-west-1/orders").unwrap(),
        SqsTranscript::of_sink("sqs://eu-west-1/{route}-{type}?in_flight=2", &route).unwrap(),
    ] {
        let error = transcript.open().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("file:PATH"), "{error}");
    }
    assert!(SqsTranscript::new("sqs://eu-west-1/orders?in_flight=1").is_err());
}
