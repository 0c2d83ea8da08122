//! There is no transcript, and who asks for one is told what to do.

use pillarbox_core::port::Transcript;
use pillarbox_core::{ErrorKind, RouteName};
use pillarbox_transport_mqtt::MqttTranscript;

#[tokio::test]
async fn nothing_can_be_read_back_and_the_error_says_what_can_be_compared() {
    let route = RouteName::new("orders").unwrap();
    let transcripts = [
        MqttTranscript::new("mqtt://127.0.0.1/orders").unwrap(),
        MqttTranscript::of_sink("mqtt://127.0.0.1/{route}/{type}?qos=2", &route).unwrap(),
    ];
    for transcript in transcripts {
        let error = transcript.open().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("file:PATH"), "{error}");
    }
    assert!(MqttTranscript::new("mqtt://127.0.0.1/orders?qos=1").is_err());
}
