//! The suite for drivers: the transactions, other than a store's own, in which an outbox stages and an inbox accepts.

pub mod accepting;
pub mod failing;
pub mod savepoints;
pub mod staging;
mod steps;

use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use pillarbox_core::port::{AcceptRequest, Accepted, StagedSaga};
use pillarbox_core::{Event, HybridClock, Result, Saga, Staged};

use super::case::Case;
use super::suite::{run_named, table};
use super::{SagaHarness, StoreHarness};

/// A driver under test.
///
/// Every case gets a harness of its own. Each connection that the harness opens waits at most a second for a
/// lock.
// Not `Send`: the transactions of some drivers are not.
#[async_trait(?Send)]
pub trait DriverHarness: Sized + 'static {
    /// The store under the driver, with its own transactions.
    type Base: SagaHarness;

    /// The driver's name in the output of the suite.
    const NAME: &'static str;

    /// Opens a fresh, empty, migrated store of its own.
    async fn start() -> Self;

    /// The store under the driver.
    fn base(&self) -> &Self::Base;

    /// The same outbox with this source of clock stamps.
    fn stamped(outbox: Outbox<Self>, clock: HybridClock) -> Outbox<Self>;

    /// An outbox of this route on tables that do not exist.
    fn missing(&self, route: &str) -> Outbox<Self>;

    /// Does all this in one transaction of the driver, ends it, and returns what was said to each act.
    async fn run(&self, outbox: Outbox<Self>, acts: Vec<Act<'_>>, end: End) -> Vec<Said>;
}

/// The outbox of a driver's store.
pub type Outbox<H> = <<H as DriverHarness>::Base as StoreHarness>::Outbox;

/// How a transaction or a savepoint ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is committed, or released.
    Commit,
    /// It is rolled back.
    RollBack,
}

/// One thing to do in a transaction. [`act!`](crate::act!) does all that are not about the driver itself.
#[non_exhaustive]
pub enum Act<'a> {
    /// `outbox.stage`.
    Stage(Event),
    /// `outbox.stage_all`.
    StageAll(Vec<Event>),
    /// `outbox.stage_saga`.
    StageSaga(Saga),
    /// `outbox.serialize`.
    Serialize(&'static str),
    /// `inbox.accept`.
    Accept(AcceptRequest),
    /// Counts the rows of `pillarbox_outbox` with a query of the driver, in the transaction.
    Count,
    /// Does all this in a nested transaction or savepoint, and ends it. Only the cases about savepoints do.
    Nested(Vec<Act<'a>>, End),
    /// Waits for what happens elsewhere, while the transaction is open.
    Meanwhile(Pin<Box<dyn Future<Output = ()> + 'a>>),
}

/// What was said to an [`Act`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Said {
    /// To `Stage`.
    Staged(Result<Staged>),
    /// To `StageAll`.
    AllStaged(Result<Vec<Staged>>),
    /// To `StageSaga`.
    SagaStaged(Result<StagedSaga>),
    /// To `Serialize`.
    Serialized(Result<()>),
    /// To `Accept`.
    Accepted(Result<Accepted>),
    /// To `Count`.
    Counted(i64),
    /// To `Nested`.
    Nested(Vec<Said>),
    /// To `Meanwhile`.
    Nothing,
}

/// Does an [`Act`] of an outbox or an inbox in a transaction, and returns what was [`Said`]. With a driver that is
/// async, `await` is the last argument.
#[macro_export]
macro_rules! act {
    ($outbox:expr, $inbox:expr, $tx:expr, $act:expr $(, $wait:tt)?) => {
        match $act {
            $crate::driver::Act::Stage(event) => {
                $crate::driver::Said::Staged($outbox.stage($tx, event) $(.$wait)?)
            }
            $crate::driver::Act::StageAll(events) => {
                $crate::driver::Said::AllStaged($outbox.stage_all($tx, events) $(.$wait)?)
            }
            $crate::driver::Act::StageSaga(saga) => {
                $crate::driver::Said::SagaStaged($outbox.stage_saga($tx, saga) $(.$wait)?)
            }
            $crate::driver::Act::Serialize(key) => {
                $crate::driver::Said::Serialized($outbox.serialize($tx, key) $(.$wait)?)
            }
            $crate::driver::Act::Accept(request) => {
                $crate::driver::Said::Accepted($inbox.accept($tx, request) $(.$wait)?)
            }
            $crate::driver::Act::Meanwhile(elsewhere) => {
                elsewhere.await;
                $crate::driver::Said::Nothing
            }
            _ => unreachable!("the harness does this itself"),
        }
    };
}

/// Does acts in a transaction of diesel, or in a savepoint if one is open, ends it, and returns what was said.
///
/// `$inside` is the function that calls this macro, for transactions inside this one. `$count` is the statement that
/// counts the outbox, and the type `Counted` with a text `number` reads its row. `$begun` runs after the begin.
#[macro_export]
macro_rules! diesel_acts {
    ($inside:ident, $place:expr, $connection:expr, $acts:expr, $end:expr, $count:expr $(, $begun:expr)?) => {{
        AnsiTransactionManager::begin_transaction($connection).unwrap();
        $($begun;)?
        let mut said = Vec::new();
        for act in $acts {
            said.push(match act {
                $crate::driver::Act::Count => {
                    let counted: Counted = ::diesel::sql_query($count).get_result($connection).unwrap();
                    $crate::driver::Said::Counted(counted.number.parse().unwrap())
                }
                $crate::driver::Act::Nested(acts, end) => {
                    $crate::driver::Said::Nested(Box::pin($inside($place, $connection, acts, end)).await)
                }
                act => $crate::act!($place.outbox, $place.inbox, $connection, act),
            });
        }
        match $end {
            $crate::driver::End::Commit => AnsiTransactionManager::commit_transaction($connection).unwrap(),
            $crate::driver::End::RollBack => {
                AnsiTransactionManager::rollback_transaction($connection).unwrap();
            }
        }
        said
    }};
}

/// The one list of cases for every driver: the tests of a driver and the table below are made from it.
#[doc(hidden)]
#[macro_export]
macro_rules! __driver_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            staging {
                what_a_driver_stages_is_seen_inside_only_until_the_commit,
                what_a_driver_rolls_back_never_happened,
                a_driver_is_told_of_a_duplicate,
                many_events_of_a_driver_keep_their_order,
                a_limit_is_checked_before_a_driver_writes,
                what_a_driver_stages_is_delivered_as_if_sqlx_had_staged_it,
                a_driver_stages_a_saga_with_its_first_steps,
                who_serializes_a_key_by_a_driver_makes_others_wait,
            }
            accepting {
                an_event_is_fresh_for_a_driver_once_it_was_committed,
                a_driver_is_told_that_an_event_is_stale,
            }
            failing {
                missing_tables_are_told_by_every_driver,
                a_lock_that_stays_is_contention_for_every_driver,
            }
        }
    };
}

/// The one list of cases for drivers of databases that have savepoints.
#[doc(hidden)]
#[macro_export]
macro_rules! __savepoint_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            savepoints {
                what_a_driver_rolls_back_to_a_savepoint_is_gone_and_the_rest_stays,
            }
        }
    };
}

/// Every case for every driver.
#[must_use]
pub fn cases<H: DriverHarness>() -> Vec<Case<H>> {
    crate::__driver_cases!([table] H)
}

/// Every case about savepoints.
#[must_use]
pub fn savepoint_cases<H: DriverHarness>() -> Vec<Case<H>> {
    crate::__savepoint_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `driver_conformance!` expands to.
///
/// # Panics
/// When the driver does not behave as the case says, or no case has this name.
pub fn run<H: DriverHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, H::start());
}

/// Runs one case about savepoints by its name on a fresh harness; what `driver_conformance!` expands to.
///
/// # Panics
/// When the driver does not behave as the case says, or no case has this name.
pub fn run_savepoints<H: DriverHarness>(name: &'static str) {
    run_named(H::NAME, &savepoint_cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for drivers. With `no savepoints`, for a database that has none,
/// those about savepoints are left out.
///
/// The harness does each [`Act`](crate::driver::Act) in a transaction of its driver, most of them with
/// [`act!`](crate::act!).
///
/// ```no_run
/// # mod it {
/// # use async_trait::async_trait;
/// # use pillarbox_conformance::driver::{Act, End, Outbox, Said};
/// # use pillarbox_conformance::{DriverHarness, MemoryHarness, StoreHarness};
/// # use pillarbox_core::HybridClock;
/// # struct MyHarness(MemoryHarness);
/// # #[async_trait(?Send)]
/// # impl DriverHarness for MyHarness {
/// #     type Base = MemoryHarness;
/// #     const NAME: &'static str = "my driver";
/// #     async fn start() -> Self { Self(MemoryHarness::start().await) }
/// #     fn base(&self) -> &MemoryHarness { &self.0 }
/// #     fn stamped(outbox: Outbox<Self>, _clock: HybridClock) -> Outbox<Self> { outbox }
/// #     fn missing(&self, route: &str) -> Outbox<Self> { self.0.outbox(route) }
/// #     async fn run(&self, _outbox: Outbox<Self>, _acts: Vec<Act<'_>>, _end: End) -> Vec<Said> { Vec::new() }
/// # }
/// pillarbox_conformance::driver_conformance!(MyHarness);
/// # }
/// ```
#[macro_export]
macro_rules! driver_conformance {
    ($harness:ty) => {
        $crate::__driver_cases!([$crate::__conformance_tests] $crate::driver::run::<$harness>);
        $crate::__savepoint_cases!([$crate::__conformance_tests] $crate::driver::run_savepoints::<$harness>);
    };
    ($harness:ty, no savepoints) => {
        $crate::__driver_cases!([$crate::__conformance_tests] $crate::driver::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names};

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [
            ("accepting", include_str!("accepting.rs")),
            ("failing", include_str!("failing.rs")),
            ("staging", include_str!("staging.rs")),
        ];
        lists(&crate::__driver_cases!([names]), &sources);
        lists(&crate::__savepoint_cases!([names]), &[("savepoints", include_str!("savepoints.rs"))]);
    }
}
