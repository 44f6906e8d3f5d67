//! Features that a server offers on a stream. [6120#4.3.2]

use crate::write::end_message;
use crate::{Element, Framing, Mechanism, Mechanisms, ns};

/// Whether a stream may be encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartTls {
    /// Not by STARTTLS: there is no certificate, or TLS came first.
    #[default]
    Off,
    /// As the client likes.
    Offered,
    /// Nothing else goes before.
    Required,
}

/// Features that a server offers at one step of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Off once the stream is encrypted.
    pub starttls: StartTls,
    /// Mechanisms to log in by; none if the peer has.
    pub mechanisms: Mechanisms,
    /// Whether a resource may be bound.
    pub bind: bool,
    /// XEP-0198.
    pub management: bool,
}

impl Features {
    pub(crate) fn put(&self, framing: Framing, out: &mut Vec<u8>) {
        let mut xml = match framing {
            Framing::Document => String::from("<stream:features>"),
            Framing::Elements => format!("<stream:features xmlns:stream='{}'>", ns::STREAMS),
        };
        match self.starttls {
            StartTls::Off => {}
            StartTls::Offered => xml += &format!("<starttls xmlns='{}'/>", ns::TLS),
            StartTls::Required => {
                xml += &format!("<starttls xmlns='{}'><required/></starttls>", ns::TLS);
            }
        }
        if self.mechanisms != Mechanisms::default() {
            xml += &format!("<mechanisms xmlns='{}'>", ns::SASL);
            for mechanism in self.mechanisms.iter() {
                xml += &format!("<mechanism>{}</mechanism>", mechanism.name());
            }
            xml += "</mechanisms>";
            // XEP-0440: else a client with another type of binding takes a mechanism that must fail.
            if self.mechanisms.iter().any(Mechanism::is_bound) {
                xml += &format!(
                    "<sasl-channel-binding xmlns='{}'><channel-binding type='tls-exporter'/></sasl-channel-binding>",
                    ns::CHANNEL_BINDING
                );
            }
        }
        if self.bind {
            xml += &format!("<bind xmlns='{}'/>", ns::BIND);
            xml += &format!("<session xmlns='{}'><optional/></session>", ns::SESSION);
        }
        if self.management {
            xml += &format!("<sm xmlns='{}'/>", ns::MANAGEMENT);
        }
        xml += "</stream:features>";
        out.extend_from_slice(xml.as_bytes());
        end_message(framing, out);
    }

    pub(crate) fn read(element: Element<'_>) -> Option<Features> {
        if !element.is("features", ns::STREAMS) {
            return None;
        }
        let starttls = element.child("starttls", ns::TLS);
        let mechanisms = element.child("mechanisms", ns::SASL);
        Some(Features {
            starttls: match starttls.map(|tls| tls.child("required", ns::TLS).is_some()) {
                None => StartTls::Off,
                Some(false) => StartTls::Offered,
                Some(true) => StartTls::Required,
            },
            mechanisms: mechanisms
                .into_iter()
                .flat_map(Element::children)
                .filter_map(|mechanism| Mechanism::from_name(mechanism.text().trim()))
                .collect(),
            bind: element.child("bind", ns::BIND).is_some(),
            management: element.child("sm", ns::MANAGEMENT).is_some(),
        })
    }
}
