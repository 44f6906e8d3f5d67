//! Stamps as messages carry them: a user property, a header or an option. Whatever they came as, receivers get them as
//! their own protocol has them: with all who keep user properties the stamp is one of those. What receivers get is masked
//! ([`Kernel::mask_stamp`]), so a message never carries what its publisher sent.
//!
//! *Must never know:* a link.

use crate::native;
use thalweg_kernel::{Kernel, SessionId};
use thalweg_model::{Properties, PropertyValue, STAMP_PROPERTY, Stamp, StampError};

/// A stamp that was found, or what should be one.
pub(crate) type Found = Result<Stamp, StampError>;

/// The stamp among user properties.
pub(crate) fn among(user: &[(Box<str>, PropertyValue)]) -> Option<Found> {
    let (_, value) = user.iter().find(|(name, _)| **name == *STAMP_PROPERTY)?;
    Some(match value {
        PropertyValue::Text(text) => text.parse(),
        _ => Err(StampError),
    })
}

/// The stamp that a message carries, for protocols that have another place for it.
pub(crate) fn carried(properties: &Properties) -> Option<Stamp> {
    if properties.user.is_empty() && properties.native.is_none() {
        return None;
    }
    among(&native::neutral(properties).user)?.ok()
}

/// Takes the stamp out of a message's properties and puts in its place what receivers may see. Nothing else of that name
/// stays: receivers would take it for another's stamp.
pub(crate) fn take(
    properties: &mut Properties,
    session: SessionId,
    kernel: &mut Kernel,
) -> Option<Stamp> {
    let found = among(&properties.user)?;
    let stamp = read(Some(found), kernel);
    let mut shown = stamp.map(|stamp| kernel.mask_stamp(session, stamp));
    properties.user.retain_mut(|(name, value)| {
        if **name != *STAMP_PROPERTY {
            return true;
        }
        let Some(shown) = shown.take() else {
            return false;
        };
        *value = PropertyValue::Text(shown.to_string().into());
        true
    });
    stamp
}

/// The same of a message whose stamp means nothing, because it is never repeated.
pub(crate) fn remove(mut properties: Properties) -> Option<Properties> {
    properties
        .user
        .retain(|(name, _)| **name != *STAMP_PROPERTY);
    (!properties.is_empty()).then_some(properties)
}

/// What a message's publisher meant by it. One that cannot be read is none, and counted.
#[inline]
pub(crate) fn read(found: Option<Found>, kernel: &mut Kernel) -> Option<Stamp> {
    match found {
        None => None,
        Some(Ok(stamp)) => Some(stamp),
        Some(Err(StampError)) => {
            kernel.note_damaged_stamp();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_text_and_the_first_of_its_name_counts() {
        let text = |name: &str, value: &str| (name.into(), PropertyValue::Text(value.into()));
        let stamp = Stamp {
            publisher: 0xabc,
            sequence: 18,
        };
        assert_eq!(among(&[]), None);
        assert_eq!(
            among(&[
                text("x-stam", "abc-12"),
                text("x-stamp", "abc-12"),
                text("x-stamp", "no")
            ]),
            Some(Ok(stamp))
        );
        for damaged in [
            PropertyValue::Text("abc".into()),
            PropertyValue::Integer(7),
            PropertyValue::Nothing,
        ] {
            assert_eq!(
                among(&[(STAMP_PROPERTY.into(), damaged)]),
                Some(Err(StampError))
            );
        }
    }
}
