//! Subscriptions that a multicast group of the broker serves: it sends each message once for all receivers.
//!
//! [`Feed`] decides, without I/O: it learns where the group is from the group's last value, puts its datagrams together, asks
//! over the client's connection for those that were lost, and falls back to an ordinary subscription when it cannot.

mod feed;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use thalweg_model::Reliability;

pub(crate) use feed::{Feed, Want};

use crate::builder::ClientBuilder;
use crate::client::{Client, ClientError};
use crate::driver::inbox::{ByGroup, Command};
use crate::driver::reply::reply;
use crate::subscription::{Mailbox, SubscribeOptions, Subscription};

/// Where groups may be joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MulticastSettings {
    pub(crate) interfaces: Vec<IpAddr>,
}

impl ClientBuilder {
    /// Multicast groups of IPv4 may be joined at the network interface that has this address, or groups of IPv6 if it is one of
    /// IPv6 (on Linux); to be called once for each interface. Default: at none, so that nothing is received by multicast.
    #[must_use]
    pub fn multicast_interface(mut self, address: impl Into<IpAddr>) -> Self {
        let mut settings: MulticastSettings = self.plugins.get();
        settings.interfaces.push(address.into());
        self.plugins.set(settings);
        self
    }
}

impl Client {
    /// As [`Client::subscribe`], for one filter, by the broker's multicast group of this name where that is possible: the
    /// group carries all that the filter asks for, an interface of [`ClientBuilder::multicast_interface`] joins it, and the
    /// broker is heard. Else, and when that ends, it is an ordinary subscription, which an
    /// [event](crate::Event::Multicast) tells with the reason.
    ///
    /// At most once, what is lost is lost. Otherwise it is asked for over the client's connection, and what the broker no
    /// longer has is lost all the same: [`Status::groups`](crate::Status) counts both. Last values do not come by
    /// multicast. Around a fall back, messages may be missed, or come twice.
    pub async fn subscribe_by_multicast(
        &self,
        group: &str,
        filter: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, ClientError> {
        if filter.is_empty() || filter.contains('\0') || group.is_empty() {
            return Err(ClientError::Invalid(
                "a group has a name, and a filter at least 1 byte and no NUL",
            ));
        }
        if options.settle_by_hand {
            return Err(ClientError::Invalid(
                "what comes by multicast is not settled by hand",
            ));
        }
        let (answer_to, answer) = reply();
        let id = self.handle.next_subscription();
        // Made before the wait: a future that is dropped ends its subscription.
        let mut subscription = Subscription {
            handle: self.handle.clone(),
            ids: vec![id],
            mailbox: Arc::new(Mailbox::default()),
            settle_by_hand: false,
            taken: Default::default(),
            granted: options.reliability,
        };
        self.handle
            .command(Command::SubscribeByGroup(Box::new(ByGroup {
                id,
                description: self.handle.next_subscription(),
                group: group.to_owned(),
                filter: filter.to_owned(),
                options,
                mailbox: subscription.mailbox.clone(),
                reply: answer_to,
            })))?;
        match answer.await {
            None => Err(ClientError::Closed),
            Some(Err(refusal)) => Err(ClientError::Refused(refusal)),
            Some(Ok(granted)) => {
                subscription.granted = subscription.granted.min(granted);
                Ok(subscription)
            }
        }
    }
}

/// The best that a subscription has from a group.
pub(crate) fn granted(wanted: Reliability) -> Reliability {
    wanted.min(Reliability::AtLeastOnce)
}
