//! What is published on one channel and not yet confirmed, for all deliveries that share it.
//!
//! **Why not await each confirm where it was published?** The client hands a returned message to whichever confirm
//! it resolves next, which need not be that of the returned message: confirms come for many at once, in no order.
//! An unroutable message would then count as delivered, and another one as rejected. So the confirms of a channel
//! are kept together, a returned message is known by its id, and nothing is called confirmed before every confirm
//! that came with it was looked at.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Event};
use pillarbox_core::Outcome;

use crate::error::{Fault, Progress, nacked, unroutable};

/// A message on its way to the broker.
pub(super) struct Outgoing {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) payload: Vec<u8>,
}

/// What became of a message.
pub(super) enum Answer {
    /// The broker spoke.
    Known(Outcome),
    /// It will not speak any more on this channel.
    Broken(Fault, Progress),
}

type DeliveryId = u64;

/// Whose message it is: which delivery, and the index in its batch.
#[derive(Clone, Copy)]
struct Slot {
    delivery: DeliveryId,
    index: usize,
}

/// A publish that has ended, one way or the other.
struct Ended {
    place: Slot,
    message_id: Option<ShortString>,
    result: Result<Confirmation, (lapin::Error, Progress)>,
}

/// The unconfirmed messages of a channel.
pub(super) struct Ledger {
    channel: Channel,
    bell: Arc<Bell>,
    state: Mutex<State>,
}

struct State {
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    blocked_because: String,
    open: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Returned messages whose confirm was not looked at yet, by message id.
    returned: HashMap<ShortString, Vec<BasicReturnMessage>>,
    /// Answers that their delivery has not fetched yet.
    answers: BTreeMap<DeliveryId, Vec<(usize, Answer)>>,
    next_delivery: DeliveryId,
}

impl Ledger {
    pub(super) fn new(channel: Channel, events: impl Stream<Item = Event> + Send + 'static) -> Self {
        let state = State {
            events: Box::pin(events),
            blocked_because: String::new(),
            open: FuturesUnordered::new(),
            returned: HashMap::new(),
            answers: BTreeMap::new(),
            next_delivery: 0,
        };
        Self { channel, bell: Arc::default(), state: Mutex::new(state) }
    }

    pub(super) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Why the broker blocks publishers, in its own words if they are known: the client says that a connection is
    /// blocked a little before it says why.
    pub(super) fn blocked_because(&self) -> String {
        let mut state = self.state();
        let waker = Waker::from(Arc::clone(&self.bell));
        state.take_events(&mut Context::from_waker(&waker));
        match state.blocked_because.as_str() {
            "" => "the broker is short of memory or disk".to_owned(),
            why => why.to_owned(),
        }
    }

    /// Begins a delivery. Dropping it forgets its answers; what it published stays published.
    pub(super) fn begin(&self) -> Delivery<'_> {
        let mut state = self.state();
        let id = state.next_delivery;
        state.next_delivery += 1;
        state.answers.insert(id, Vec::new());
        Delivery { ledger: self, id, open: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every confirm that has come and gives it to its delivery.
    fn turn(&self, state: &mut State) {
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut context = Context::from_waker(&waker);
        state.take_events(&mut context);
        let mut ended = self.take_ended(state, &mut context);
        while !ended.is_empty() {
            // The client resolves the confirms of one answer under a lock, and this call waits for that lock: what
            // was resolved together with `ended` is surely there after it, returned messages included.
            if let Some(Ok(returned)) = self.channel.wait_for_confirms().now_or_never() {
                state.note(returned);
            }
            let later = self.take_ended(state, &mut context);
            for ended in ended {
                state.settle(ended);
            }
            ended = later;
        }
    }

    /// Every publish that has ended by now.
    fn take_ended(&self, state: &mut State, context: &mut Context<'_>) -> Vec<Ended> {
        let mut all = Vec::new();
        loop {
            self.bell.rung.store(false, Ordering::SeqCst);
            while let Poll::Ready(Some(mut ended)) = state.open.poll_next_unpin(context) {
                if let Ok(Confirmation::Ack(returned) | Confirmation::Nack(returned)) = &mut ended.result {
                    state.note(returned.take());
                }
                all.push(ended);
            }
            // The set may pause before its end, and then rings for another round.
            if !self.bell.rung.load(Ordering::SeqCst) {
                return all;
            }
        }
    }
}

impl State {
    fn take_events(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(event)) = self.events.as_mut().poll_next(context) {
            if let Event::ConnectionBlocked(why) = event {
                self.blocked_because = why;
            }
        }
    }

    fn note(&mut self, returned: impl IntoIterator<Item = BasicReturnMessage>) {
        for message in returned {
            if let Some(id) = message.delivery.properties.message_id().clone() {
                self.returned.entry(id).or_default().push(message);
            }
        }
    }

    fn settle(&mut self, ended: Ended) {
        let returned = ended.message_id.as_ref().and_then(|id| {
            let messages = self.returned.get_mut(id)?;
            let message = messages.pop();
            if messages.is_empty() {
                self.returned.remove(id);
            }
            message
        });
        let answer = match (ended.result, returned) {
            (Ok(_), Some(message)) => {
                let BasicReturnMessage { delivery, .. } = message;
                Answer::Known(unroutable(delivery.exchange.as_str(), delivery.routing_key.as_str()))
            }
            (Ok(Confirmation::Ack(_)), None) => Answer::Known(Outcome::Confirmed),
            (Ok(Confirmation::Nack(_)), None) => Answer::Known(nacked()),
            (Ok(Confirmation::NotRequested), None) => {
                Answer::Known(Outcome::unknown("unconfirmed", "the channel is not in confirm mode"))
            }
            (Err((error, progress)), _) => Answer::Broken(error.into(), progress),
        };
        if let Some(answers) = self.answers.get_mut(&ended.place.delivery) {
            answers.push((ended.place.index, answer));
        }
    }
}

/// The messages of one delivery.
pub(super) struct Delivery<'a> {
    ledger: &'a Ledger,
    id: DeliveryId,
    open: usize,
}

impl Delivery<'_> {
    /// Messages without an answer.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Hands a message to the client, in the order of the calls, without waiting for anything.
    pub(super) fn publish(&mut self, index: usize, message: Outgoing) {
        let place = Slot { delivery: self.id, index };
        let mut publishing = publish(self.ledger.channel.clone(), place, message).boxed();
        let state = self.ledger.state();
        // The first poll numbers the message and queues its frames, two steps that must not be interleaved with
        // those of another delivery. Wherever it stands by then, the set polls it again.
        let first = publishing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        state.open.push(match first {
            Poll::Ready(ended) => futures_util::future::ready(ended).boxed(),
            Poll::Pending => publishing,
        });
        self.open += 1;
    }

    /// Waits for answers, or until `is_over` says that none will come; then there may be none.
    pub(super) async fn answers(&mut self, is_over: impl Fn() -> bool) -> Vec<(usize, Answer)> {
        let answers = poll_fn(|context| {
            self.ledger.bell.listen(self.id, context.waker());
            let mut state = self.ledger.state();
            self.ledger.turn(&mut state);
            let answers = state.answers.get_mut(&self.id).map(std::mem::take).unwrap_or_default();
            // The delivery that takes the confirms takes those of the others as well.
            let others = state.answers.values().any(|answers| !answers.is_empty());
            drop(state);
            if others {
                self.ledger.bell.ring();
            }
            if answers.is_empty() && !is_over() { Poll::Pending } else { Poll::Ready(answers) }
        })
        .await;
        self.open -= answers.len();
        answers
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.ledger.state().answers.remove(&self.id);
        self.ledger.bell.forget(self.id);
    }
}

/// Publishes one message and waits for the broker's word.
async fn publish(channel: Channel, place: Slot, message: Outgoing) -> Ended {
    let Outgoing { exchange, routing_key, properties, payload } = message;
    let message_id = properties.message_id().clone();
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let written = channel.basic_publish(exchange, routing_key, options, &payload, properties).await;
    drop(payload);
    let result = match written {
        Ok(confirm) => confirm.await.map_err(|error| (error, Progress::Written)),
        Err(error) => Err((error, Progress::Waiting)),
    };
    Ended { place, message_id, result }
}

/// Wakes every delivery of a ledger: any of them can take the confirms, and any of them may be gone.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    listeners: Mutex<HashMap<DeliveryId, Waker>>,
}

impl Bell {
    fn listen(&self, id: DeliveryId, waker: &Waker) {
        self.listeners().entry(id).or_insert_with(|| waker.clone()).clone_from(waker);
    }

    fn forget(&self, id: DeliveryId) {
        self.listeners().remove(&id);
    }

    fn ring(&self) {
        // Woken outside the lock, because the woken task may want to listen.
        let listeners: Vec<Waker> = self.listeners().values().cloned().collect();
        listeners.into_iter().for_each(Waker::wake);
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<DeliveryId, Waker>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.ring();
    }
}
