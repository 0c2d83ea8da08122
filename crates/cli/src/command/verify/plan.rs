//! Which routes are compared, and with what.

use pillarbox_core::port::Transcript;
use pillarbox_core::{Error, ErrorKind, RouteName};

use super::report::NotCompared;
use super::{Order, VerifyArgs};
use crate::command::relay::plan::routes;
use crate::config::Config;
use crate::context::Context;
use crate::fault::Fault;

/// One comparison.
pub(crate) struct Check {
    pub(crate) route: RouteName,
    /// What is read, for people.
    pub(crate) from: String,
    pub(crate) transcript: Box<dyn Transcript>,
    /// Whether the order of a key is promised, so that breaking it is a finding.
    pub(crate) order: Order,
}

/// The comparisons that the command line and the configuration mean together, and which configured routes cannot be
/// compared. One that the command line names must be.
pub(crate) fn checks(args: &VerifyArgs, context: &Context) -> Result<(Vec<Check>, Vec<NotCompared>), Fault> {
    let config = &context.config;
    if let Some(place) = &args.from {
        let [route] = args.routes.as_slice() else {
            return Err(Fault::usage("--from belongs to one route; give exactly one --route with it"));
        };
        let transcript = place.transcript(route)?;
        let order = order(args, route, config);
        let check = Check { route: route.clone(), from: place.to_string(), transcript, order };
        return Ok((vec![check], Vec::new()));
    }
    let (mut checks, mut left_out) = (Vec::new(), Vec::new());
    // Nothing is sent to a webhook here, so its address is of no interest.
    let routes = routes(&args.routes, args.to.clone(), true, config)?;
    let one = routes.len() == 1 || !args.routes.is_empty();
    for (route, policy) in routes {
        match policy.to.transcript(&route) {
            Ok(transcript) => {
                let order = order(args, &route, config);
                checks.push(Check { from: policy.to.to_string(), transcript, order, route });
            }
            Err(error) if one => return Err(refused(&route, &error)),
            Err(error) => left_out.push(not_compared(&route, &error)),
        }
    }
    if checks.is_empty() {
        return Err(Fault::usage(
            "no configured route has a destination that can be read: a file:, a Redis stream, a JetStream \
             stream or a RabbitMQ stream. Name one with --from URL",
        ));
    }
    Ok((checks, left_out))
}

/// The same for the report.
pub(crate) fn not_compared(route: &RouteName, error: &Error) -> NotCompared {
    NotCompared { route: route.to_string(), why: error.message().to_owned() }
}

/// A route that cannot be compared, and why.
pub(crate) fn refused(route: &RouteName, error: &Error) -> Fault {
    match error.kind() {
        ErrorKind::Unsupported | ErrorKind::Invalid => {
            Fault::usage(format!("route {route} cannot be compared: {}", error.message()))
        }
        kind => Fault::from(Error::new(kind, error.message().to_owned())).context(route.as_str()),
    }
}

fn order(args: &VerifyArgs, route: &RouteName, config: &Config) -> Order {
    let configured = config.routes.get(route).map(|route| match route.ordered {
        true => Order::Key,
        false => Order::None,
    });
    args.order.or(configured).unwrap_or(Order::Key)
}
