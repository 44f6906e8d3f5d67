//! `/ps` and `/ps/<id>`: topics of the pubsub draft are made, shown, changed and deleted. What they are is in `topics`; what
//! is decided here is who may, and what the answer is.

use super::answer::{Answer, SHORT_SECS};
use super::data::{bare, content_format, forbidden};
use super::desk::{Desk, unix_secs};
use super::handler::{Done, Handler, Request};
use super::side::Side;
use super::topics::{Change, Topic, TopicId, Unplanned};
use super::waiting::{Hold, accept};
use crate::front::{Cx, Variant};
use thalweg_coap::content_format::{CBOR, LINK_FORMAT};
use thalweg_coap::link_format::{Filter, LinkWriter};
use thalweg_coap::pubsub::{self, Configuration, Selection, TopicFilter};
use thalweg_coap::{Code, option};
use thalweg_kernel::access::Permission;
use thalweg_kernel::{Draft, SessionId};
use thalweg_model::{Properties, Reliability, RetainOp};

impl<S: Side> Handler<S> {
    /// A request to `/ps`.
    pub(super) fn on_collection(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        if !self
            .desk
            .and_then(|desk| Desk::at(cx.links, desk))
            .is_some_and(|desk| desk.is_known)
        {
            return Err(not_yet());
        }
        match request.code {
            Code::GET => {
                let answer = self.list_topics(&TopicFilter::default(), request, cx)?;
                self.respond(request.exchange, &answer, cx.now);
                Ok(())
            }
            Code::FETCH => {
                check_format(request)?;
                let filter = TopicFilter::decode(request.payload)
                    .map_err(|why| refused(Unplanned::Refused(why)))?;
                let answer = self.list_topics(&filter, request, cx)?;
                self.respond(request.exchange, &answer, cx.now);
                Ok(())
            }
            Code::POST => self.make_topic(request, cx),
            _ => Err(Answer::words(
                Code::METHOD_NOT_ALLOWED,
                "topics are listed by GET or FETCH and made by POST",
            )),
        }
    }

    /// The links of the topics, or of their data, that a filter and the query want and the peer may see.
    fn list_topics(
        &mut self,
        filter: &TopicFilter,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Answer, Answer> {
        if accept(&request.options).is_some_and(|format| format != LINK_FORMAT) {
            return Err(Answer::words(
                Code::NOT_ACCEPTABLE,
                "the list is application/link-format (40)",
            ));
        }
        let queries = queries(request);
        let wants_data = queries
            .iter()
            .any(|query| query.name() == "rt" && query.matches("", [("rt", pubsub::RT_DATA)]));
        let wants_topics = !queries.iter().any(|query| query.name() == "rt")
            || queries
                .iter()
                .any(|query| query.name() == "rt" && query.matches("", [("rt", pubsub::RT_TOPIC)]));
        let mut list = Vec::new();
        let mut writer = LinkWriter::new(&mut list);
        let mut count = 0;
        let Some(desk) = self.desk.and_then(|desk| Desk::at(cx.links, desk)) else {
            return Err(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                1,
                "topics are not known yet",
            ));
        };
        for (id, topic) in desk.topics.matching(filter) {
            if !may_see(topic, &desk.topics.kept_at(id), request.session, cx) {
                continue;
            }
            let path = format!("/ps/{id}");
            let links = [
                (wants_topics, &*path),
                (
                    wants_data && topic.address.is_some(),
                    &*topic.configuration.data,
                ),
            ];
            for (_, target) in links.into_iter().filter(|(is_wanted, _)| *is_wanted) {
                let fits = |query: &Filter<'_>| query.name() != "href" || query.matches(target, []);
                if count < self.settings.list_max && queries.iter().all(fits) {
                    writer.link(target);
                    count += 1;
                }
            }
        }
        Ok(Answer::content(LINK_FORMAT, list))
    }

    /// POST to the collection. Draft §2.4.3
    fn make_topic(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        check_format(request)?;
        self.check_rate(request, cx.now)?;
        let configuration = Configuration::decode(request.payload)
            .map_err(|why| refused(Unplanned::Refused(why)))?;
        let Some(desk_id) = self.desk else {
            return Err(not_yet());
        };
        let Some(desk) = Desk::at(cx.links, desk_id) else {
            return Err(not_yet());
        };
        let now_secs = unix_secs(cx.now);
        let (id, configuration) = desk
            .topics
            .plan(configuration, self.settings.topics_max, now_secs)
            .map_err(refused)?;
        let data = super::data_uri::DataUri::read(&configuration.data, &desk.tenant)
            .ok()
            .and_then(|uri| uri.here());
        let kept_at = desk.topics.kept_at(id);
        if let Some(data) = &data
            && !cx.kernel.may(request.session, Permission::Publish, data)
        {
            return Err(forbidden());
        }
        let mut encoded = Vec::new();
        configuration.encode(&mut encoded);
        let mut batch = self.keep_configuration(&kept_at, &encoded, request, cx)?;
        self.note(id, &encoded, cx);
        if let (Some(first), Some(data)) = (&configuration.initialize, &data) {
            let format = configuration.content_format;
            let content_type =
                format.map(|format| super::representation::media_type_of(format).into());
            let properties = Properties {
                content_type,
                ..Properties::default()
            };
            let draft = bare(data, first, RetainOp::Set, Reliability::AtLeastOnce);
            let draft = Draft {
                properties: Some(&properties),
                ..draft
            };
            let more = self.publish(request.identity, request.session, draft, cx)?;
            batch = self.later_of(batch, more);
        }
        let location = vec!["ps".into(), id.as_str().into()];
        let answer = Answer {
            code: Code::CREATED,
            location,
            ..Answer::content(pubsub::CONTENT_FORMAT, encoded)
        };
        self.finish(request.exchange, answer, batch, cx);
        Ok(())
    }

    /// A request to `/ps/<id>` of a topic that there is.
    pub(super) fn on_topic(&mut self, id: TopicId, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let Some(desk_id) = self.desk else {
            return Err(not_yet());
        };
        let Some(desk) = Desk::at(cx.links, desk_id) else {
            return Err(not_yet());
        };
        let Some(topic) = desk.topics.get(id) else {
            return Err(Answer::words(Code::NOT_FOUND, "there is no such topic"));
        };
        let kept_at = desk.topics.kept_at(id);
        let is_read = matches!(request.code, Code::GET | Code::FETCH);
        if is_read && !may_see(topic, &kept_at, request.session, cx) {
            return Err(forbidden());
        }
        if accept(&request.options).is_some_and(|format| format != pubsub::CONTENT_FORMAT) {
            return Err(Answer::words(
                Code::NOT_ACCEPTABLE,
                "a topic is application/core-pubsub+cbor (606)",
            ));
        }
        let selection = match request.code {
            Code::GET => Selection::ALL,
            Code::FETCH => {
                check_format(request)?;
                Selection::decode(request.payload)
                    .map_err(|why| refused(Unplanned::Refused(why)))?
            }
            Code::POST | Code::PUT => {
                return self.change_topic(id, Change::Replace, &kept_at, request, cx);
            }
            Code::IPATCH => return self.change_topic(id, Change::Patch, &kept_at, request, cx),
            Code::DELETE => return self.delete_topic(id, request, cx),
            _ => {
                return Err(Answer::words(
                    Code::METHOD_NOT_ALLOWED,
                    "a topic knows GET, FETCH, POST, PUT, iPATCH and DELETE",
                ));
            }
        };
        let mut encoded = Vec::new();
        topic.configuration.encode_selected(selection, &mut encoded);
        self.respond(
            request.exchange,
            &Answer::content(pubsub::CONTENT_FORMAT, encoded),
            cx.now,
        );
        Ok(())
    }

    /// Draft §2.5.3, §2.5.4
    fn change_topic(
        &mut self,
        id: TopicId,
        how: Change,
        kept_at: &str,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        check_format(request)?;
        let Some(desk) = self.desk.and_then(|desk| Desk::at(cx.links, desk)) else {
            return Err(not_yet());
        };
        let becomes = desk
            .topics
            .plan_change(id, how, request.payload, unix_secs(cx.now))
            .map_err(refused)?;
        if let Some(data) = desk
            .topics
            .get(id)
            .and_then(|topic| topic.address.as_deref())
            && !cx.kernel.may(request.session, Permission::Publish, data)
        {
            return Err(forbidden());
        }
        let mut encoded = Vec::new();
        becomes.encode(&mut encoded);
        let batch = self.keep_configuration(kept_at, &encoded, request, cx)?;
        self.note(id, &encoded, cx);
        let answer = Answer {
            code: Code::CHANGED,
            ..Answer::content(pubsub::CONTENT_FORMAT, encoded)
        };
        self.finish(request.exchange, answer, batch, cx);
        Ok(())
    }

    /// Draft §2.5.5: the data go, too, and their observers are notified.
    fn delete_topic(&mut self, id: TopicId, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let Some(desk) = self.desk else {
            return Err(not_yet());
        };
        let Cx {
            now, kernel, links, ..
        } = cx;
        match Desk::delete(links, desk, id, request.session, *now, kernel) {
            Ok(batch) => {
                self.known.clear();
                self.finish(request.exchange, Answer::of(Code::DELETED), batch, cx);
                Ok(())
            }
            Err(outcome) => Err(Answer::of_outcome(outcome).unwrap_or_else(forbidden)),
        }
    }

    /// Publishes a configuration to where it is kept.
    fn keep_configuration(
        &mut self,
        kept_at: &str,
        encoded: &[u8],
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Hold>, Answer> {
        let draft = bare(kept_at, encoded, RetainOp::Set, Reliability::AtLeastOnce);
        self.publish(request.identity, request.session, draft, cx)
    }

    /// A topic is entered at once, before its message comes back: its creator may use it now.
    fn note(&mut self, id: TopicId, encoded: &[u8], cx: &mut Cx<'_>) {
        let Some(desk_id) = self.desk else { return };
        let Cx { kernel, links, .. } = cx;
        if let Some(desk) = Desk::of(links, desk_id)
            && let Ok(applied) = desk.topics.apply(id.as_str(), Some(encoded))
        {
            Desk::on_applied(links, desk_id, &applied, Some(id), kernel);
        }
    }
}

/// Whether a peer may see a topic: it may if it may read the topic's data.
fn may_see(topic: &Topic, kept_at: &str, session: SessionId, cx: &Cx<'_>) -> bool {
    cx.kernel.may(
        session,
        Permission::Subscribe,
        topic.address.as_deref().unwrap_or(kept_at),
    )
}

/// Configurations come as what the draft calls them, or as CBOR, or without a word.
fn check_format(request: &Request<'_>) -> Result<(), Answer> {
    match content_format(request) {
        None | Some(pubsub::CONTENT_FORMAT | CBOR) => Ok(()),
        Some(_) => Err(Answer::words(
            Code::UNSUPPORTED_CONTENT_FORMAT,
            "configurations are application/core-pubsub+cbor (606) or CBOR (60)",
        )),
    }
}

/// The filters of a request's query.
pub(super) fn queries<'r>(request: &Request<'r>) -> Vec<Filter<'r>> {
    let queries = request
        .options
        .all(option::URI_QUERY)
        .filter_map(|query| std::str::from_utf8(query).ok());
    queries.filter_map(Filter::parse).collect()
}

fn refused(why: Unplanned) -> Answer {
    match why {
        Unplanned::Full => Answer::later(
            Code::SERVICE_UNAVAILABLE,
            SHORT_SECS,
            "there are as many topics as there may be",
        ),
        why => Answer::words(why.code(), why.to_string()),
    }
}

/// The broker has just started.
pub(super) fn not_yet() -> Answer {
    Answer::later(Code::SERVICE_UNAVAILABLE, 1, "topics are not known yet")
}
