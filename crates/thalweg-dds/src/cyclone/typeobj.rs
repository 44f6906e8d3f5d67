//! Type objects of peers, copied from the structures of Cyclone DDS.
//!
//! What a peer has written there is any text and any number: nothing is taken for granted but that pointers are null or valid,
//! and as many elements as a list says.

use crate::announced::{Branch, DEPTH_MAX, Described, Member, Shape, TypeId, Unknown};
use crate::types::{FieldType, Form};
use cyclors::{
    DDS_XTypes_CommonCollectionElement, DDS_XTypes_CompleteEnumeratedType,
    DDS_XTypes_CompleteStructType, DDS_XTypes_CompleteTypeObject, DDS_XTypes_CompleteUnionType,
    DDS_XTypes_TypeIdentifier, DDS_XTypes_TypeObject, ddsi_domaingv, ddsi_typeid, ddsi_typeinfo,
};
use std::ffi::c_char;
use std::slice;

/// Of flags of structures and members.
const FINAL: u16 = 1;
const APPENDABLE: u16 = 2;
const MUTABLE: u16 = 4;
const OPTIONAL: u16 = 8;
const KEY: u16 = 32;
const DEFAULT: u16 = 64;
/// The kinds of identifiers and objects that are understood.
const COMPLETE: u8 = cyclors::DDS_XTypes_EK_COMPLETE as u8;
const NONE: u8 = cyclors::DDS_XTypes_TK_NONE as u8;
/// The most elements that a list is read to.
const LIST_MAX: u32 = 4096;

type Found<T> = Result<T, Unknown>;

unsafe extern "C" {
    /// Asks for a type object, once. It is no part of the bindings; `dds_get_typeobj` calls it, but holds no reference to
    /// the type while it does.
    pub(super) fn ddsi_tl_request_type(
        domain: *mut ddsi_domaingv,
        id: *const ddsi_typeid,
        participant: *const std::ffi::c_void,
        deps: cyclors::ddsi_type_include_deps,
    ) -> bool;
}

/// The identifier by which the complete type object is found.
pub(super) fn identifier(id: &TypeId) -> DDS_XTypes_TypeIdentifier {
    // SAFETY: numbers and pointers, for which zero is a value.
    let mut made: DDS_XTypes_TypeIdentifier = unsafe { std::mem::zeroed() };
    made._d = COMPLETE;
    made._u.equivalence_hash = *id;
    made
}

/// The complete type that an endpoint announces.
///
/// # Safety
/// `info` is null or valid.
pub(super) unsafe fn complete(info: *const ddsi_typeinfo) -> Option<TypeId> {
    // SAFETY: the caller vouches for it, and the identifier is the first field of a `ddsi_typeid`.
    unsafe {
        let id = cyclors::ddsi_typeinfo_complete_typeid(info);
        let id = id.cast::<DDS_XTypes_TypeIdentifier>().as_ref()?;
        match id._d {
            COMPLETE => Some(id._u.equivalence_hash),
            _ => None,
        }
    }
}

/// # Safety
/// `object` is valid, and so is all that it points to.
pub(super) unsafe fn described(object: &DDS_XTypes_TypeObject) -> Found<Described> {
    if object._d != COMPLETE {
        return Err(Unknown::Ever);
    }
    // SAFETY: the caller vouches for it; each field of a union is read as its kind says.
    unsafe {
        let DDS_XTypes_CompleteTypeObject { _d: kind, _u: of } = &object._u.complete;
        Ok(match u32::from(*kind) {
            cyclors::DDS_XTypes_TK_STRUCTURE => structure(&of.struct_type)?,
            cyclors::DDS_XTypes_TK_UNION => union(&of.union_type)?,
            cyclors::DDS_XTypes_TK_ENUM => enumeration(&of.enumerated_type)?,
            cyclors::DDS_XTypes_TK_ALIAS => {
                Described::Alias(shape(&of.alias_type.body.common.related_type, 0)?)
            }
            cyclors::DDS_XTypes_TK_SEQUENCE => {
                let of = element(&of.sequence_type.element.common)?;
                Described::Alias(Shape::Sequence(Box::new(of)))
            }
            cyclors::DDS_XTypes_TK_ARRAY => {
                let array = &of.array_type;
                let bounds = &array.header.common.bound_seq;
                let of = element(&array.element.common)?;
                let bounds = list(bounds._buffer, bounds._length)?;
                Described::Alias(arrays(of, bounds.iter().copied())?)
            }
            _ => return Err(Unknown::Ever),
        })
    }
}

/// # Safety
/// It is null, or there are so many.
unsafe fn list<'a, T>(of: *const T, length: u32) -> Found<&'a [T]> {
    match length {
        0 => Ok(&[]),
        // SAFETY: the caller vouches for it.
        1..=LIST_MAX if !of.is_null() => Ok(unsafe { slice::from_raw_parts(of, length as usize) }),
        _ => Err(Unknown::Ever),
    }
}

fn name(of: &[c_char]) -> String {
    let bytes: Vec<u8> = of
        .iter()
        .map(|it| *it as u8)
        .take_while(|it| *it != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first bound is the outermost one's.
fn arrays(of: Shape, bounds: impl DoubleEndedIterator<Item = u32>) -> Found<Shape> {
    let (mut made, mut depth) = (of, 0);
    for bound in bounds.rev() {
        depth += 1;
        if depth > DEPTH_MAX {
            return Err(Unknown::Ever);
        }
        made = Shape::Array(Box::new(made), bound);
    }
    Ok(made)
}

fn form_of(flags: u16) -> Found<Option<Form>> {
    Ok(match flags & (FINAL | APPENDABLE | MUTABLE) {
        FINAL => Some(Form::Final),
        APPENDABLE => Some(Form::Appendable),
        MUTABLE => Some(Form::Mutable),
        0 => None,
        _ => return Err(Unknown::Ever),
    })
}

/// # Safety
/// As for [`described`].
unsafe fn union(of: &DDS_XTypes_CompleteUnionType) -> Found<Described> {
    let form = form_of(of.union_flags)?;
    if form == Some(Form::Mutable) {
        return Err(Unknown::Ever);
    }
    let mut branches = Vec::new();
    // SAFETY: the caller vouches for it.
    for it in unsafe { list(of.member_seq._buffer, of.member_seq._length)? } {
        let labels = &it.common.label_seq;
        branches.push(Branch {
            name: name(&it.detail.name),
            // SAFETY: as above.
            shape: unsafe { shape(&it.common.type_id, 0)? },
            // SAFETY: as above.
            labels: unsafe { list(labels._buffer, labels._length)? }.to_vec(),
            is_default: it.common.member_flags & DEFAULT != 0,
        });
    }
    Ok(Described::Union {
        form,
        // SAFETY: as above.
        discriminator: unsafe { shape(&of.discriminator.common.type_id, 0)? },
        branches,
    })
}

/// # Safety
/// As for [`described`].
unsafe fn structure(of: &DDS_XTypes_CompleteStructType) -> Found<Described> {
    let form = form_of(of.struct_flags)?;
    // SAFETY: the caller vouches for it; the hash is there as the kind says.
    let base = match of.header.base_type._d {
        NONE => None,
        COMPLETE => Some(unsafe { of.header.base_type._u.equivalence_hash }),
        _ => return Err(Unknown::Ever),
    };
    let mut members = Vec::new();
    // SAFETY: the caller vouches for it.
    for it in unsafe { list(of.member_seq._buffer, of.member_seq._length)? } {
        members.push(Member {
            name: name(&it.detail.name),
            // SAFETY: as above.
            shape: unsafe { shape(&it.common.member_type_id, 0)? },
            is_key: it.common.member_flags & KEY != 0,
            is_optional: it.common.member_flags & OPTIONAL != 0,
            id: it.common.member_id,
        });
    }
    Ok(Described::Struct {
        base,
        form,
        members,
    })
}

/// # Safety
/// As for [`described`].
unsafe fn enumeration(of: &DDS_XTypes_CompleteEnumeratedType) -> Found<Described> {
    // Of less bits it takes less bytes.
    if !(17..=32).contains(&of.header.common.bit_bound) {
        return Err(Unknown::Ever);
    }
    // SAFETY: the caller vouches for it.
    let literals = unsafe { list(of.literal_seq._buffer, of.literal_seq._length)? };
    let names = literals
        .iter()
        .map(|it| (name(&it.detail.name), it.common.value as u32));
    Ok(Described::Enum(names.collect()))
}

/// # Safety
/// As for [`described`].
unsafe fn element(of: &DDS_XTypes_CommonCollectionElement) -> Found<Shape> {
    // SAFETY: the caller vouches for it.
    unsafe { shape(&of.type_, 1) }
}

/// # Safety
/// As for [`described`].
unsafe fn shape(of: &DDS_XTypes_TypeIdentifier, depth: usize) -> Found<Shape> {
    use FieldType::{Bool, Float, Signed, Text, Unsigned};
    use cyclors as c;
    if depth > DEPTH_MAX {
        return Err(Unknown::Ever);
    }
    // SAFETY: the caller vouches for it.
    let inner = |of: *mut DDS_XTypes_TypeIdentifier| match unsafe { of.as_ref() } {
        Some(of) => unsafe { shape(of, depth + 1) },
        None => Err(Unknown::Ever),
    };
    // SAFETY: the caller vouches for it; each field of the union is read as the kind says.
    Ok(unsafe {
        match u32::from(of._d) {
            c::DDS_XTypes_TK_BOOLEAN => Shape::Plain(Bool),
            c::DDS_XTypes_TK_BYTE | c::DDS_XTypes_TK_UINT8 | c::DDS_XTypes_TK_CHAR8 => {
                Shape::Plain(Unsigned(1))
            }
            c::DDS_XTypes_TK_INT8 => Shape::Plain(Signed(1)),
            c::DDS_XTypes_TK_INT16 => Shape::Plain(Signed(2)),
            c::DDS_XTypes_TK_INT32 => Shape::Plain(Signed(4)),
            c::DDS_XTypes_TK_INT64 => Shape::Plain(Signed(8)),
            c::DDS_XTypes_TK_UINT16 => Shape::Plain(Unsigned(2)),
            c::DDS_XTypes_TK_UINT32 => Shape::Plain(Unsigned(4)),
            c::DDS_XTypes_TK_UINT64 => Shape::Plain(Unsigned(8)),
            c::DDS_XTypes_TK_FLOAT32 => Shape::Plain(Float(4)),
            c::DDS_XTypes_TK_FLOAT64 => Shape::Plain(Float(8)),
            c::DDS_XTypes_TI_STRING8_SMALL | c::DDS_XTypes_TI_STRING8_LARGE => Shape::Plain(Text),
            c::DDS_XTypes_TI_PLAIN_SEQUENCE_SMALL => {
                Shape::Sequence(Box::new(inner(of._u.seq_sdefn.element_identifier)?))
            }
            c::DDS_XTypes_TI_PLAIN_SEQUENCE_LARGE => {
                Shape::Sequence(Box::new(inner(of._u.seq_ldefn.element_identifier)?))
            }
            c::DDS_XTypes_TI_PLAIN_ARRAY_SMALL => {
                let array = &of._u.array_sdefn;
                let bounds = list(array.array_bound_seq._buffer, array.array_bound_seq._length)?;
                let bounds = bounds.iter().map(|it| u32::from(*it));
                arrays(inner(array.element_identifier)?, bounds)?
            }
            c::DDS_XTypes_TI_PLAIN_ARRAY_LARGE => {
                let array = &of._u.array_ldefn;
                let bounds = list(array.array_bound_seq._buffer, array.array_bound_seq._length)?;
                arrays(inner(array.element_identifier)?, bounds.iter().copied())?
            }
            c::DDS_XTypes_EK_COMPLETE => Shape::Of(of._u.equivalence_hash),
            _ => return Err(Unknown::Ever),
        }
    })
}
