//! Items and messages of XMPP clients.

use super::{BATCH, Bench, PAYLOAD, TOPIC};
use std::sync::Arc;
use thalweg_fronts::xmpp::{XmppFront, XmppSettings};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Limits, LinkId};
use thalweg_xmpp::{
    ClientEvent, ClientSettings, ClientSide, Credentials, Framing, StanzaKind, TlsPolicy, Tree,
};

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const SERVICE: &str = "pubsub.localhost";

/// A client that has logged in.
struct Peer {
    link: LinkId,
    side: ClientSide,
    jid: String,
    tree: Tree,
}

impl Peer {
    fn connect(bench: &mut Bench, nonce: u64, management: bool) -> Self {
        let settings = Arc::new(XmppSettings::default());
        let front = XmppFront::new(settings, nonce, Some(Access::ALL));
        let mut peer = Peer {
            link: bench.links.open(front),
            side: ClientSide::new(ClientSettings {
                limits: thalweg_xmpp::Limits::default(),
                framing: Framing::default(),
                domain: "localhost".into(),
                tls: TlsPolicy::Direct,
                credentials: Credentials::Anonymous,
                resource: None,
                nonce: [5; 24],
                management,
                acknowledges: false,
            }),
            jid: String::new(),
            tree: Tree::default(),
        };
        let mut up = Vec::new();
        peer.side.open(&mut up);
        while !up.is_empty() {
            bench.drive(peer.link, &std::mem::take(&mut up));
            bench.commit();
            peer.hears(bench, &mut up);
        }
        assert!(!peer.jid.is_empty());
        peer
    }

    /// Reads what has come; the number of stanzas.
    fn hears(&mut self, bench: &mut Bench, up: &mut Vec<u8>) -> usize {
        let down = bench.take(self.link);
        let (mut used, mut stanzas) = (0, 0);
        while let Some((len, event)) = self
            .side
            .handle_input(&down[used..], &mut self.tree, up)
            .expect("legal")
        {
            used += len;
            match event {
                ClientEvent::Bound(jid) => self.jid = jid.to_string(),
                ClientEvent::Stanza(_) => stanzas += 1,
                _ => {}
            }
        }
        stanzas
    }

    fn request(&mut self, action: &str, up: &mut Vec<u8>) {
        let attributes = [("type", "set"), ("to", SERVICE), ("id", "q-1")];
        self.side.put(StanzaKind::Iq, &attributes, up, |out| {
            let pubsub = format!("<pubsub xmlns='{PUBSUB}'>{action}</pubsub>");
            out.extend_from_slice(pubsub.as_bytes());
        });
    }

    fn subscriber(bench: &mut Bench, nonce: u64, management: bool) -> Self {
        let mut peer = Peer::connect(bench, nonce, management);
        let mut up = Vec::new();
        let subscribe = format!("<subscribe node='{TOPIC}' jid='{}'/>", peer.jid);
        peer.request(&subscribe, &mut up);
        bench.drive(peer.link, &up);
        bench.commit();
        assert_eq!(
            peer.hears(bench, &mut up),
            1,
            "the subscription is answered"
        );
        up.clear();
        peer.side.acknowledge(1, &mut up);
        bench.drive(peer.link, &up);
        peer
    }
}

/// Items to as many subscribers. With `management` these acknowledge what they get (XEP-0198).
fn items(many: u32, management: bool, count: u32) {
    let mut bench = Bench::new(Limits::default());
    let mut subscribers: Vec<Peer> = (0..many)
        .map(|number| Peer::subscriber(&mut bench, 100 + u64::from(number), management))
        .collect();
    let mut publisher = Peer::connect(&mut bench, 1, false);
    let payload = String::from_utf8_lossy(&PAYLOAD);
    let mut input = Vec::new();
    for number in 10..10 + BATCH {
        let item = format!("<item id='i-{number}'><v xmlns='urn:v'>{number}{payload}</v></item>");
        let publish = format!("<publish node='{TOPIC}'>{item}</publish>");
        publisher.request(&publish, &mut input);
    }
    let (mut answered, mut notified) = (None, None);
    // Each subscription was answered by a stanza.
    let (mut handled, mut acknowledgement) = (1, Vec::new());
    for _ in 0..count / BATCH {
        bench.drive(publisher.link, &input);
        bench.links.take_dirty(&mut bench.dirty);
        let answers = bench.discard(publisher.link);
        assert_eq!(
            *answered.get_or_insert(answers),
            answers,
            "all are answered"
        );
        handled += BATCH;
        for subscriber in &mut subscribers {
            let stanzas = bench.discard(subscriber.link);
            assert_eq!(
                *notified.get_or_insert(stanzas),
                stanzas,
                "all are delivered"
            );
            if management {
                acknowledgement.clear();
                subscriber.side.acknowledge(handled, &mut acknowledgement);
                bench.drive(subscriber.link, &acknowledgement);
            }
        }
    }
    assert!(notified.is_none_or(|stanzas| stanzas > BATCH as usize * PAYLOAD.len()));
    let totals = bench.kernel.totals();
    assert_eq!((totals.waiting, totals.in_flight), (0, 0));
}

pub(super) fn item(count: u32) {
    items(1, false, count);
}

pub(super) fn item_acknowledged(count: u32) {
    items(1, true, count);
}

pub(super) fn fan_out_to_10(count: u32) {
    items(10, false, count);
}

pub(super) fn fan_out_to_100(count: u32) {
    items(100, false, count);
}

/// Messages from one resource to another.
pub(super) fn chat(count: u32) {
    let mut bench = Bench::new(Limits::default());
    let mut receiver = Peer::connect(&mut bench, 2, false);
    let mut up = Vec::new();
    receiver
        .side
        .put(StanzaKind::Presence, &[], &mut up, |_| {});
    bench.drive(receiver.link, &up);
    bench.commit();
    bench.discard(receiver.link);
    let mut sender = Peer::connect(&mut bench, 1, false);
    let mut input = Vec::new();
    for _ in 0..BATCH {
        let attributes = [("type", "chat"), ("to", &*receiver.jid), ("id", "m-1")];
        let body = format!("<body>{}</body>", String::from_utf8_lossy(&PAYLOAD));
        sender
            .side
            .put(StanzaKind::Message, &attributes, &mut input, |out| {
                out.extend_from_slice(body.as_bytes());
            });
    }
    let mut delivered = None;
    for _ in 0..count / BATCH {
        bench.drive(sender.link, &input);
        bench.links.take_dirty(&mut bench.dirty);
        assert_eq!(bench.discard(sender.link), 0, "none is refused");
        let messages = bench.discard(receiver.link);
        assert_eq!(
            *delivered.get_or_insert(messages),
            messages,
            "all are delivered"
        );
    }
    assert!(delivered.is_none_or(|messages| messages > BATCH as usize * PAYLOAD.len()));
    assert_eq!(bench.kernel.totals().waiting, 0);
}
