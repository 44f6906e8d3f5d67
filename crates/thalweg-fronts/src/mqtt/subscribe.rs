//! SUBSCRIBE and UNSUBSCRIBE.

use super::MqttFront;
use super::publish::reliability;
use super::work::terms_in;
use crate::front::{Cx, Variant};

use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_kernel::{LastValueWish, Wish};

use thalweg_mqtt::{
    Info, PeerFault, ReasonCode, RetainHandling, ShareFilter, Subscribe, Unsubscribe,
};

const NO_LOCAL_SHARED: PeerFault = PeerFault {
    reason: ReasonCode::ProtocolError,
    clause: "MQTT-3.8.3-4",
    what: "No Local is set on a shared subscription",
};

const IDS_OFF: PeerFault = PeerFault {
    reason: ReasonCode::SubscriptionIdsNotSupported,
    clause: "MQTT-3.2.2-12",
    what: "a subscription identifier is used although CONNACK said that they are not available",
};

/// The user property of SUBSCRIBE that is a content filter for all its topic filters.
const FILTER_PROPERTY: &str = "filter";

/// Stands for a filter that is not legal: the kernel refuses it, and the answer keeps its place.
const ILLEGAL: &str = "";

impl MqttFront {
    pub(super) fn on_subscribe(cx: &mut Cx<'_>, subscribe: &Subscribe<'_>) {
        let Some(session) = cx.session() else {
            return;
        };
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        let (topic_bytes_max, is_bridge) = (front.settings.topic_bytes_max, front.is_bridge);
        if subscribe.subscription_id.is_some() && !front.settings.subscription_ids_available {
            return MqttFront::fail(cx, IDS_OFF);
        }
        let mut wishes = Vec::new();
        for (text, options) in subscribe.filters() {
            let (filter, group) = split(text, topic_bytes_max);
            if group.is_some() && options.no_local {
                return MqttFront::fail(cx, NO_LOCAL_SHARED);
            }
            wishes.push(Wish {
                filter,
                group,
                reliability: reliability(options.qos),
                no_local: options.no_local || (is_bridge && group.is_none()),
                retain_as_published: options.retain_as_published || is_bridge,
                last_values: match options.retain_handling {
                    RetainHandling::Send => LastValueWish::Always,
                    RetainHandling::SendIfNew => LastValueWish::IfNew,
                    RetainHandling::DoNotSend => LastValueWish::Never,
                },
                id: subscribe.subscription_id.unwrap_or(0),
            });
        }
        let condition = match condition_in(subscribe) {
            Ok(condition) => condition,
            Err(why) => {
                let codes = vec![ReasonCode::TopicFilterInvalid; wishes.len()];
                MqttFront::write(cx.links, cx.id, |front, out| {
                    let info = Info {
                        reason_string: Some(&why),
                        ..Info::default()
                    };
                    front.machine.suback_with(subscribe.id, &codes, &info, out);
                });
                return;
            }
        };
        if wishes.iter().any(|wish| wish.group.is_some()) {
            MqttFront::tell_terms(cx);
            let (terms, ignored) = terms_in(&subscribe.properties);
            cx.links.load.terms_ignored += ignored;
            for wish in &wishes {
                if let (Some(group), Some(terms)) = (wish.group, terms) {
                    cx.kernel
                        .set_work_terms(session, Some((group, wish.filter)), terms, cx.now);
                }
            }
        }
        cx.kernel
            .subscribe_if(session, subscribe.id, &wishes, condition, cx.now, cx.links);
    }

    pub(super) fn on_unsubscribe(cx: &mut Cx<'_>, unsubscribe: &Unsubscribe<'_>) {
        let Some(session) = cx.session() else {
            return;
        };
        let filters: Vec<_> = unsubscribe
            .filters()
            .map(|text| split(text, usize::MAX))
            .collect();
        cx.kernel
            .unsubscribe(session, unsubscribe.id, &filters, cx.now, cx.links);
    }
}

/// The content filter of a SUBSCRIBE: its user property `filter`.
fn condition_in(subscribe: &Subscribe<'_>) -> Result<Option<Arc<Predicate>>, String> {
    let mut user = subscribe.properties.user_properties();
    let Some((_, text)) = user.find(|(name, _)| *name == FILTER_PROPERTY) else {
        return Ok(None);
    };
    if user.any(|(name, _)| name == FILTER_PROPERTY) {
        return Err("there is more than one filter".into());
    }
    match Predicate::parse(text) {
        Ok(predicate) => Ok(Some(Arc::new(predicate))),
        Err(error) => Err(error.to_string()),
    }
}

/// A filter and the group it is shared with.
fn split(text: &str, bytes_max: usize) -> (&str, Option<&str>) {
    if text.len() > bytes_max {
        return (ILLEGAL, None);
    }
    match ShareFilter::parse(text) {
        Ok(None) => (text, None),
        Ok(Some(share)) => (share.filter, Some(share.group)),
        Err(_) => (ILLEGAL, None),
    }
}
