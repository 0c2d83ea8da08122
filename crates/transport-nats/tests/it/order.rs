//! A relay that keeps the order of keys, while its connection is cut in the middle of what it writes.

use std::sync::Arc;

use pillarbox_conformance::order::{Copies, check_order, relay_through};
use pillarbox_testkit::FaultProxy;
use pillarbox_transport_nats::NatsSink;

use crate::harness::{DEBIAN, OwnStream};

#[tokio::test]
async fn keys_keep_their_order_while_connections_are_cut_in_the_middle_of_batches() {
    for place in [OwnStream::atomic().await, OwnStream::new(DEBIAN).await] {
        let (proxy, through) = FaultProxy::before(&place.server);
        let sink = NatsSink::new(&place.via(&through)).unwrap();
        let entries = relay_through(&proxy, 8, Arc::new(sink)).await;
        check_order(&entries, &place.stored_ids().await, Copies::One);
    }
}
