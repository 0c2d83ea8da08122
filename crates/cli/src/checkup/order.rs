//! Whether routes keep the order that their entries ask for.

use pillarbox_core::port::{Admin, Filter, Finding};
use pillarbox_core::{Result, RouteName};

use crate::config::RouteConfig;
use crate::destination::Destination;

/// How many entries of a route are looked at for a key.
const LOOKED_AT: u32 = 20;

/// What is told of routes whose entries may arrive out of order although their keys or settings ask for an order.
///
/// # Errors
/// When the entries cannot be read.
pub(super) async fn examine(
    admin: &dyn Admin,
    routes: impl IntoIterator<Item = (&RouteName, &RouteConfig)>,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (route, config) in routes {
        if config.ordered && keeps_no_order(&config.to) {
            findings.push(standard_queue(route, &config.to));
        }
        if config.has_no_order_set() && leaves_this_process(&config.to) {
            let mut filter = Filter::default();
            filter.route = Some(route.clone());
            filter.limit = LOOKED_AT;
            if admin.list(filter).await?.iter().any(|entry| entry.key.is_some()) {
                findings.push(keys_without_order(route));
            }
        }
    }
    Ok(findings)
}

/// Whether another process reads what arrives there.
fn leaves_this_process(to: &Destination) -> bool {
    matches!(to, Destination::Broker(_) | Destination::Http(_))
}

/// A queue of SQS that is not FIFO.
fn keeps_no_order(to: &Destination) -> bool {
    let url = to.to_string();
    let queue = url.split('?').next().unwrap_or_default();
    matches!(to, Destination::Broker(_)) && queue.starts_with("sqs:") && !queue.ends_with(".fifo")
}

fn standard_queue(route: &RouteName, to: &Destination) -> Finding {
    let finding = Finding::warning(
        "order",
        format!("route {route} has order = \"key\", but {to} is a standard queue, which keeps no order"),
        "Use a FIFO queue, whose name ends with .fifo, or remove order = \"key\".",
    );
    finding.of(route)
}

fn keys_without_order(route: &RouteName) -> Finding {
    let finding = Finding::warning(
        "order",
        format!(
            "entries of route {route} have keys, and the route has no order: entries of one key may arrive in any order"
        ),
        format!("Add order = \"key\" to [routes.{route}], or order = \"none\" if that is meant."),
    );
    finding.of(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_standard_queues_of_sqs_keep_no_order() {
        let keeps_none = |to: &str| keeps_no_order(&to.parse().unwrap());
        assert!(keeps_none("sqs://eu-west-1/orders"));
        assert!(keeps_none("sqs://eu-west-1/orders?endpoint=http://127.0.0.1:4566/a.fifo"));
        assert!(!keeps_none("sqs://eu-west-1/orders.fifo?source=shop"));
        assert!(!keeps_none("nats://127.0.0.1/orders") && !keeps_none("null:"));
    }
}
