//! A relay that keeps the order of keys, while its connection is cut in the middle of a `MULTI`.

use std::sync::Arc;

use pillarbox_conformance::order::{Copies, check_order, relay_through};
use pillarbox_testkit::FaultProxy;
use pillarbox_transport_redis::RedisSink;

use crate::harness::{OwnStream, REDIS, VALKEY};

#[tokio::test]
async fn keys_keep_their_order_while_connections_are_cut_in_the_middle_of_a_multi() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let (proxy, through) = FaultProxy::before(&place.server);
        let sink = RedisSink::new(&place.via(&through)).unwrap();
        let entries = relay_through(&proxy, 8, Arc::new(sink)).await;
        check_order(&entries, &place.stored_ids().await, Copies::Several);
    }
}
