//! The suites for faults: which outcome a sink reports for each entry when the network or the server fails, and
//! how a relay acts on it.
//!
//! [`fault_conformance!`](crate::fault_conformance) runs over a
//! [`FaultProxy`](pillarbox_testkit::FaultProxy) in front of a real server.
//! [`server_conformance!`](crate::server_conformance) runs on a server that is killed, paused and restarted.
//!
//! | promise | cases |
//! |---|---|
//! | each entry of a batch is reported, and what was not confirmed is delivered by the next attempt | `a_withheld_confirmation_is_told_and_the_next_delivery_finds_out_why`, `a_batch_that_is_cut_in_the_middle_reports_each_entry_and_loses_none`, `an_idle_connection_that_is_cut_is_opened_again_unnoticed`, `a_delivery_dropped_at_its_deadline_leaves_the_sink_usable` |
//! | what is written is written in order, however much it is and however many wait | `a_batch_beyond_every_buffer_stays_in_order`, `deliveries_that_wait_for_the_connection_are_written_in_their_order` |
//! | after a lost connection an outcome is unknown while the server answers, and the destination is down when it does not | `a_connection_lost_after_writing_is_unknown_where_the_server_is_still_there`, `a_server_that_goes_down_under_a_batch_spends_no_attempt` |
//! | a server that nobody finds is not stormed | `nobody_who_listens_is_down_for_every_entry`, `many_deliveries_that_find_nobody_share_one_attempt_to_connect`, `a_server_that_hangs_is_found_out_by_deliveries_with_little_time`, `a_server_that_accepts_and_says_nothing_is_not_stormed` |
//! | an outage spends no attempt, by rows and by lanes, however often it comes | `an_outage_of_the_wire_spends_no_attempt_and_all_is_delivered_after_it`, `an_outage_of_the_wire_under_an_ordered_route_spends_no_attempt`, `outages_that_follow_each_other_spend_no_attempt` |
//! | whatever happens to connections and confirmations, nothing is lost | `a_confirm_that_never_comes_is_bounded_by_the_deadline_and_the_entry_comes_again`, `connections_cut_in_the_middle_of_batches_lose_nothing` |
//! | a server that is killed or paused gets everything once it is back | `a_server_that_is_killed_and_started_again_loses_nothing_and_spends_no_attempt`, `a_server_that_restarts_is_used_again`, `a_server_that_is_paused_loses_nothing_and_buries_nothing` |

pub mod batch;
mod harness;
pub mod relay;
pub mod server;

pub use harness::{FaultHarness, FaultInput, ServerHarness, Timeouts, Told};

use super::case::Case;
use super::suite::{run_named, table};

/// The one list of cases over a proxy.
#[doc(hidden)]
#[macro_export]
macro_rules! __fault_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            batch {
                a_withheld_confirmation_is_told_and_the_next_delivery_finds_out_why,
                a_batch_that_is_cut_in_the_middle_reports_each_entry_and_loses_none,
                a_connection_lost_after_writing_is_unknown_where_the_server_is_still_there,
                a_server_that_goes_down_under_a_batch_spends_no_attempt,
                an_idle_connection_that_is_cut_is_opened_again_unnoticed,
                nobody_who_listens_is_down_for_every_entry,
                many_deliveries_that_find_nobody_share_one_attempt_to_connect,
                a_server_that_hangs_is_found_out_by_deliveries_with_little_time,
                a_delivery_dropped_at_its_deadline_leaves_the_sink_usable,
                a_batch_beyond_every_buffer_stays_in_order,
                deliveries_that_wait_for_the_connection_are_written_in_their_order,
            }
            relay {
                an_outage_of_the_wire_spends_no_attempt_and_all_is_delivered_after_it,
                an_outage_of_the_wire_under_an_ordered_route_spends_no_attempt,
                outages_that_follow_each_other_spend_no_attempt,
                a_confirm_that_never_comes_is_bounded_by_the_deadline_and_the_entry_comes_again,
                connections_cut_in_the_middle_of_batches_lose_nothing,
                a_server_that_accepts_and_says_nothing_is_not_stormed,
            }
        }
    };
}

/// The one list of cases on a server of the test's own.
#[doc(hidden)]
#[macro_export]
macro_rules! __server_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            server {
                a_server_that_is_killed_and_started_again_loses_nothing_and_spends_no_attempt,
                a_server_that_restarts_is_used_again,
                a_server_that_is_paused_loses_nothing_and_buries_nothing,
            }
        }
    };
}

/// Every case over a proxy.
#[must_use]
pub fn cases<H: FaultHarness>() -> Vec<Case<FaultInput<H>>> {
    crate::__fault_cases!([table] FaultInput<H>)
}

/// Every case on a server of the test's own.
#[must_use]
pub fn server_cases<H: ServerHarness>() -> Vec<Case<H>> {
    crate::__server_cases!([table] H)
}

/// Runs one case by its name on a fresh harness; what `fault_conformance!` expands to.
///
/// # Panics
/// When the sink does not behave as the case says, or no case has this name.
pub fn run<H: FaultHarness>(name: &'static str) {
    run_named(H::NAME, &cases::<H>(), name, FaultInput::start());
}

/// Runs one case by its name on a fresh server; what `server_conformance!` expands to.
///
/// # Panics
/// When the sink does not behave as the case says, or no case has this name.
pub fn run_server<H: ServerHarness>(name: &'static str) {
    run_named(H::NAME, &server_cases::<H>(), name, H::start());
}

/// Expands to one test per case of the suite for faults of the wire.
///
/// ```no_run
/// # mod it {
/// # fn my_sink(url: String) -> Arc<dyn Sink> { unimplemented!("{url}") }
/// # async fn my_messages(url: String) -> Vec<EventId> { unimplemented!("{url}") }
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use pillarbox_conformance::{FaultHarness, Timeouts};
/// use pillarbox_core::EventId;
/// use pillarbox_core::port::Sink;
///
/// struct Harness;
///
/// #[async_trait]
/// impl FaultHarness for Harness {
///     const NAME: &'static str = "my broker";
///
///     async fn start() -> Self {
///         Self
///     }
///
///     fn server(&self) -> String {
///         "mine://127.0.0.1:7000".into()
///     }
///
///     // Of the server itself, or of a proxy in front of it.
///     fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
///         my_sink(format!("{server}/orders?{}", timeouts.parameters()))
///     }
///
///     async fn received(&self) -> Vec<EventId> {
///         my_messages(format!("{}/orders", self.server())).await
///     }
/// }
///
/// pillarbox_conformance::fault_conformance!(Harness);
/// # }
/// ```
#[macro_export]
macro_rules! fault_conformance {
    ($harness:ty) => {
        $crate::__fault_cases!([$crate::__conformance_tests] $crate::fault::run::<$harness>);
    };
}

/// Expands to one test per case of the suite for servers that are killed and paused.
///
/// ```no_run
/// # mod it {
/// # fn my_sink(url: String) -> Arc<dyn Sink> { unimplemented!("{url}") }
/// # async fn my_messages(url: String) -> Vec<EventId> { unimplemented!("{url}") }
/// use std::process::Command;
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use pillarbox_conformance::process::OwnServer;
/// use pillarbox_conformance::{ServerHarness, Timeouts};
/// use pillarbox_core::EventId;
/// use pillarbox_core::port::Sink;
///
/// struct Harness(OwnServer);
///
/// impl Harness {
///     fn url(&self) -> String {
///         format!("mine://127.0.0.1:{}/orders", self.0.port())
///     }
/// }
///
/// #[async_trait]
/// impl ServerHarness for Harness {
///     const NAME: &'static str = "my broker";
///
///     async fn start() -> Self {
///         // The command is made anew for each start.
///         let prepare = |port: u16| {
///             move || {
///                 let mut command = Command::new("my-broker");
///                 command.args(["--port", &port.to_string()]);
///                 command
///             }
///         };
///         Self(OwnServer::start(prepare).await)
///     }
///
///     fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
///         my_sink(format!("{}?{}", self.url(), timeouts.parameters()))
///     }
///
///     async fn received(&self) -> Vec<EventId> {
///         my_messages(self.url()).await
///     }
///
///     fn process(&self) -> Option<&OwnServer> {
///         Some(&self.0)
///     }
/// }
///
/// pillarbox_conformance::server_conformance!(Harness);
/// # }
/// ```
#[macro_export]
macro_rules! server_conformance {
    ($harness:ty) => {
        $crate::__server_cases!([$crate::__conformance_tests] $crate::fault::run_server::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::suite::{lists, names, promises};

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [("batch", include_str!("batch.rs")), ("relay", include_str!("relay.rs"))];
        lists(&crate::__fault_cases!([names]), &sources);
        lists(&crate::__server_cases!([names]), &[("server", include_str!("server.rs"))]);
    }

    #[test]
    fn the_table_of_promises_names_every_case_and_no_other() {
        let mut cases = Vec::from(crate::__fault_cases!([names]));
        cases.extend(crate::__server_cases!([names]));
        let lines = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! "));
        promises(&cases, &lines.collect::<Vec<_>>().join("\n"));
    }
}
