//! `/.well-known/core`: what there is here. RFC 6690, draft §2.3

use super::answer::Answer;
use super::collection::queries;
use super::desk::Desk;
use super::handler::{Done, Handler, Request};
use super::side::Side;
use super::waiting::accept;
use crate::front::{Cx, Variant};
use thalweg_coap::Code;
use thalweg_coap::content_format::LINK_FORMAT;
use thalweg_coap::link_format::{Filter, LinkWriter};
use thalweg_coap::pubsub;
use thalweg_kernel::access::Permission;

/// What is always here: path, resource types, Content-Format of what is shown there.
const RESOURCES: [(&str, &str, Option<u64>); 4] = [
    ("/ps", "core.ps core.ps.coll", Some(LINK_FORMAT as u64)),
    (
        "/ps/data",
        "thalweg.data x-stamps x-after",
        Some(LINK_FORMAT as u64),
    ),
    ("/q", "thalweg.queues", None),
    ("/rpc", "thalweg.rpc", None),
];

impl<S: Side> Handler<S> {
    pub(super) fn on_well_known(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        if !self.settings.discovery {
            return Err(Answer::words(Code::NOT_FOUND, "discovery is switched off"));
        }
        if request.code != Code::GET {
            return Err(Answer::words(
                Code::METHOD_NOT_ALLOWED,
                "discovery knows GET",
            ));
        }
        if accept(&request.options).is_some_and(|format| format != LINK_FORMAT) {
            return Err(Answer::words(
                Code::NOT_ACCEPTABLE,
                "the list is application/link-format (40)",
            ));
        }
        let queries = queries(request);
        let fits = |target: &str, rt: &str, ct: Option<u64>| {
            let ct = ct.map(|ct| ct.to_string());
            let attributes =
                || std::iter::once(("rt", rt)).chain(ct.as_deref().map(|ct| ("ct", ct)));
            queries
                .iter()
                .all(|query| query.matches(target, attributes()))
        };
        let mut list = Vec::new();
        let mut writer = LinkWriter::new(&mut list);
        for (path, rt, ct) in RESOURCES {
            if fits(path, rt, ct) {
                let link = writer.link(path).text("rt", rt);
                if let Some(ct) = ct {
                    link.number("ct", ct);
                }
            }
        }
        // Topics come and go, so they are listed only if the query asks for them.
        let asks = |rt: &str| {
            queries
                .iter()
                .any(|query: &Filter<'_>| query.name() == "rt" && query.matches("", [("rt", rt)]))
        };
        let (wants_topics, wants_data) = (asks(pubsub::RT_TOPIC), asks(pubsub::RT_DATA));
        if (wants_topics || wants_data)
            && let Some(desk) = self.desk.and_then(|desk| Desk::at(cx.links, desk))
        {
            let all = pubsub::TopicFilter::default();
            for (id, topic) in desk.topics.matching(&all).take(self.settings.list_max) {
                let kept_at = desk.topics.kept_at(id);
                let address = topic.address.as_deref().unwrap_or(&kept_at);
                if !cx
                    .kernel
                    .may(request.session, Permission::Subscribe, address)
                {
                    continue;
                }
                let (path, data) = (format!("/ps/{id}"), &*topic.configuration.data);
                let ct = topic.configuration.content_format.map(u64::from);
                if wants_topics
                    && fits(
                        &path,
                        pubsub::RT_TOPIC,
                        Some(u64::from(pubsub::CONTENT_FORMAT)),
                    )
                {
                    writer
                        .link(&path)
                        .text("rt", pubsub::RT_TOPIC)
                        .number("ct", u64::from(pubsub::CONTENT_FORMAT));
                }
                if wants_data && topic.address.is_some() && fits(data, pubsub::RT_DATA, ct) {
                    let link = writer.link(data).text("rt", pubsub::RT_DATA);
                    if let Some(ct) = ct {
                        link.number("ct", ct);
                    }
                    link.flag("obs");
                }
            }
        }
        if list.is_empty() && request.is_multicast {
            return Err(Answer::words(Code::NOT_FOUND, "nothing here is like that"));
        }
        self.respond(
            request.exchange,
            &Answer::content(LINK_FORMAT, list),
            cx.now,
        );
        Ok(())
    }
}
