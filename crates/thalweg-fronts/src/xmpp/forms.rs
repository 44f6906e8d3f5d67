//! Data forms (XEP-0004): what is so, and what a client may choose of it.
//!
//! *Must never know:* a link, the kernel.

use std::borrow::Cow;
use thalweg_xmpp::{Element, put_attribute, put_text};

/// XEP-0004.
pub(super) const DATA: &str = "jabber:x:data";

/// A field of a form.
pub(super) struct Field {
    pub name: &'static str,
    pub is: Is,
}

/// The value of a field.
pub(super) enum Is {
    Flag(bool),
    Text(Cow<'static, str>),
    /// A number, which `max` asks for too.
    Count(usize),
    /// The value that holds, and others by which the same is said.
    Choice(&'static str, &'static [&'static str]),
}

impl Is {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Is::Flag(true) => "1".into(),
            Is::Flag(false) => "0".into(),
            Is::Text(text) => (&**text).into(),
            Is::Count(count) => count.to_string().into(),
            Is::Choice(value, _) => (*value).into(),
        }
    }

    /// Whether a request for this value is met.
    fn means(&self, value: &str) -> bool {
        match self {
            Is::Flag(_) => flag(value) == flag(&self.text()),
            Is::Text(text) => *text == value,
            Is::Count(_) => value == "max" || self.text() == value,
            Is::Choice(holds, others) => *holds == value || others.contains(&value),
        }
    }
}

/// The value of a boolean.
pub(super) fn flag(value: &str) -> Option<bool> {
    match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Appends a form of this type (`form`, `result`), whose fields are those of `form_type`.
pub(super) fn put(type_: &str, form_type: &str, fields: &[Field], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<x xmlns='{DATA}'").as_bytes());
    put_attribute("type", type_, out);
    out.extend_from_slice(b"><field var='FORM_TYPE' type='hidden'><value>");
    put_text(form_type, out);
    out.extend_from_slice(b"</value></field>");
    for field in fields {
        let kind = match field.is {
            Is::Flag(_) => "boolean",
            Is::Text(_) | Is::Count(_) => "text-single",
            Is::Choice(..) => "list-single",
        };
        out.extend_from_slice(b"<field");
        put_attribute("var", field.name, out);
        put_attribute("type", kind, out);
        out.extend_from_slice(b"><value>");
        put_text(&field.is.text(), out);
        out.extend_from_slice(b"</value>");
        if let Is::Choice(value, others) = &field.is {
            for value in std::iter::once(value).chain(*others) {
                out.extend_from_slice(b"<option><value>");
                put_text(value, out);
                out.extend_from_slice(b"</value></option>");
            }
        }
        out.extend_from_slice(b"</field>");
    }
    out.extend_from_slice(b"</x>");
}

/// Names and values of a form that was filled in, but for the type of the form.
pub(super) fn submitted<'b>(
    form: Element<'b>,
) -> impl Iterator<Item = (Cow<'b, str>, Cow<'b, str>)> {
    let fields = form.children().filter(|child| child.is("field", DATA));
    let named = fields.filter_map(|field| {
        let value = field.child("value", DATA);
        Some((
            field.attribute("var")?,
            value.map(|value| value.text()).unwrap_or_default(),
        ))
    });
    named.filter(|(name, _)| name != "FORM_TYPE")
}

/// Whether everything that a form asks for is so; the name of the first field that is not, which is empty if the form has none
/// of that name.
pub(super) fn check(
    fields: &[Field],
    asked: impl Iterator<Item = (impl AsRef<str>, impl AsRef<str>)>,
) -> Result<(), &'static str> {
    for (name, value) in asked {
        match fields.iter().find(|field| field.name == name.as_ref()) {
            Some(field) if field.is.means(value.as_ref().trim()) => {}
            Some(field) => return Err(field.name),
            None => return Err(""),
        }
    }
    Ok(())
}
