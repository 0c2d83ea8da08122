//! Who lives in a world.

mod clock;
mod conductor;
mod operator;
mod producer;
mod relay;
mod saga;
mod sampler;

use pillarbox_core::EventId;
use uuid::Uuid;

pub(crate) use clock::meddle_with_the_clock;
pub(crate) use conductor::conduct;
pub(crate) use operator::operate;
pub(crate) use producer::produce;
pub(crate) use relay::keep_relaying;
pub(crate) use saga::{operate_sagas, stage_sagas};
pub(crate) use sampler::{sample, sample_now, watch_relays};

/// The id of one event of one producer: easy to find in a history.
pub(crate) fn event_id(producer: u32, number: u32) -> EventId {
    EventId(Uuid::from_u64_pair(0x7000 | (u64::from(producer) << 32), 0x8000 << 48 | u64::from(number)))
}

/// The payload of an event follows from its id, so that whoever receives it can tell whether it is intact.
pub(crate) fn payload_of(id: EventId) -> Vec<u8> {
    let bytes = id.0.as_bytes();
    let times = usize::from(bytes[15] % 5);
    bytes.repeat(times)
}
