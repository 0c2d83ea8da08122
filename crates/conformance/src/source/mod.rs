//! The suite for sources: the behaviour that a consumer relies on when it subscribes, receives and answers. It
//! runs on the harness of the [suite for consuming](super::consumer), without a consumer.
//!
//! | promise | cases |
//! |---|---|
//! | everything arrives whole and in order, to one of those who share | `what_was_published_arrives_whole_and_in_order`, `what_comes_later_arrives_too`, `a_dropped_wait_loses_nothing`, `sources_of_one_queue_share_its_messages`, `what_is_staged_is_delivered_and_applied_once` |
//! | what is no event arrives all the same, and can be set aside | `a_message_of_someone_else_is_no_event_and_can_be_parked` |
//! | what was given back comes again, counted, and after its delay | `what_was_given_back_comes_again_and_is_counted`, `what_was_given_back_waits_for_the_delay` |
//! | where the source says so, a key keeps its order when one of its messages is given back | `newer_messages_of_a_key_wait_for_one_that_was_given_back` |
//! | what a consumer leaves behind comes again, whether it closed, was dropped or died | `what_a_dropped_subscription_left_comes_again_at_once`, `what_a_dead_consumer_left_comes_again`, `a_closed_subscription_has_given_back_what_nobody_saw` |
//! | what was acknowledged or parked never comes again | `what_was_answered_never_comes_again` |
//! | a lost stream is told, and the next one goes on; what waiting cannot mend is told apart | `a_lost_connection_is_told_and_the_next_subscription_goes_on`, `a_deleted_group_ends_the_subscription_and_is_made_again`, `what_is_not_there_is_not_found_and_named`, `a_server_that_nobody_finds_is_unavailable` |

pub mod again;
pub mod arriving;
pub mod failing;
mod steps;

use super::case::Case;
use super::consumer::SourceHarness;
use super::suite::{run_named, table};

pub use steps::Wanted;

/// The one list of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __source_cases {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $($then)+! {
            [$($arguments)*]
            arriving {
                what_was_published_arrives_whole_and_in_order,
                what_comes_later_arrives_too,
                a_dropped_wait_loses_nothing,
                sources_of_one_queue_share_its_messages,
                a_message_of_someone_else_is_no_event_and_can_be_parked,
                what_is_staged_is_delivered_and_applied_once,
            }
            again {
                what_was_given_back_comes_again_and_is_counted,
                what_was_given_back_waits_for_the_delay,
                newer_messages_of_a_key_wait_for_one_that_was_given_back,
                what_a_dropped_subscription_left_comes_again_at_once,
                what_a_dead_consumer_left_comes_again,
                a_closed_subscription_has_given_back_what_nobody_saw,
                what_was_answered_never_comes_again,
            }
            failing {
                a_lost_connection_is_told_and_the_next_subscription_goes_on,
                a_deleted_group_ends_the_subscription_and_is_made_again,
                what_is_not_there_is_not_found_and_named,
                a_server_that_nobody_finds_is_unavailable,
            }
        }
    };
}

/// Every case of the suite.
#[must_use]
pub fn cases() -> Vec<Case<dyn SourceHarness>> {
    crate::__source_cases!([table] dyn SourceHarness)
}

/// Runs one case by its name on a fresh harness; what `source_conformance!` expands to.
///
/// # Panics
/// When the source does not behave as the case says, or no case has this name.
pub fn run<H: SourceHarness>(name: &'static str) {
    run_named(H::name(), &cases(), name, async { Box::new(H::start().await) as Box<dyn SourceHarness> });
}

/// Expands to one test per case of the suite for sources.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_conformance::MemoryBrokerHarness;
/// pillarbox_conformance::source_conformance!(MemoryBrokerHarness);
/// # }
/// ```
#[macro_export]
macro_rules! source_conformance {
    ($harness:ty) => {
        $crate::__source_cases!([$crate::__conformance_tests] $crate::source::run::<$harness>);
    };
}

#[cfg(test)]
mod tests {
    use crate::memory::MemoryBrokerHarness;
    use crate::suite::{lists, promises};

    #[test]
    fn every_public_case_is_in_the_list() {
        let sources = [
            ("again", include_str!("again.rs")),
            ("arriving", include_str!("arriving.rs")),
            ("failing", include_str!("failing.rs")),
        ];
        lists(&super::cases(), &sources);
    }

    #[test]
    fn the_table_of_promises_names_every_case_and_no_other() {
        let lines = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! "));
        promises(&super::cases(), &lines.collect::<Vec<_>>().join("\n"));
    }

    mod on_the_broker_in_memory {
        use super::MemoryBrokerHarness;

        crate::source_conformance!(MemoryBrokerHarness);
    }
}
