//! Types that peers announce (DDS-XTypes 1.3 §7.3.4): from their type objects, which a peer may have made up.
//!
//! A type is known with all that it names, or not at all. What IDL of ours refuses is refused here, too.

use crate::nodes::Guid;
use crate::types::{ARRAY_MAX, Case, Field, FieldType, Form, Known, Struct, Types, Union};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The hash by which a type object is asked for.
pub type TypeId = [u8; 14];

/// Deepest nesting of what is announced, with typedefs.
pub const DEPTH_MAX: usize = 32;
/// Structures and enumerations of one type, and their fields and names.
const PARTS_MAX: usize = 256;
const FIELDS_MAX: usize = 4096;
/// Fields of a mutable structure, among which each header of a payload is looked up.
const MUTABLE_MAX: usize = 256;
/// Types that are known at once, and of those that one participant was the first to announce.
const TYPES_MAX: usize = 1024;
const OF_PARTICIPANT_MAX: usize = 256;

/// The type of a member.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Numbers, truth values and text.
    Plain(FieldType),
    Of(TypeId),
    Array(Box<Shape>, u32),
    Sequence(Box<Shape>),
}

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub shape: Shape,
    pub is_key: bool,
    pub is_optional: bool,
    pub id: u32,
}

/// A case of a union.
#[derive(Clone, Debug)]
pub struct Branch {
    pub name: String,
    pub shape: Shape,
    pub labels: Vec<i32>,
    pub is_default: bool,
}

/// The content of a type object.
#[derive(Clone, Debug)]
pub enum Described {
    Struct {
        base: Option<TypeId>,
        form: Option<Form>,
        members: Vec<Member>,
    },
    Union {
        form: Option<Form>,
        discriminator: Shape,
        branches: Vec<Branch>,
    },
    Enum(Vec<(String, u32)>),
    /// A typedef, or a list that has an object of its own.
    Alias(Shape),
}

/// Why a type is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The peer has not yet said it.
    Yet,
    /// It is not supported, or beyond a limit.
    Ever,
}

type Found<T> = Result<T, Unknown>;

/// The type that `look` finds for this id, with all that it names.
pub fn known(root: &TypeId, look: &mut dyn FnMut(&TypeId) -> Found<Described>) -> Found<Known> {
    let mut builder = Builder {
        look,
        types: Types::default(),
        done: HashMap::new(),
        fields: 0,
    };
    let FieldType::Struct(name) = builder.named(root, 0)?.0 else {
        return Err(Unknown::Ever);
    };
    let of = builder.types.get(&name).ok_or(Unknown::Ever)?.clone();
    Ok(Known {
        of,
        types: Arc::new(builder.types),
        id: Some(*root),
    })
}

struct Builder<'a> {
    look: &'a mut dyn FnMut(&TypeId) -> Found<Described>,
    types: Types,
    /// With the least bytes of a value. Of a structure that is not complete these are too many, so that only sequences
    /// may be of it.
    done: HashMap<TypeId, (FieldType, usize)>,
    fields: usize,
}

impl Builder<'_> {
    fn kind(&mut self, shape: &Shape, depth: usize) -> Found<(FieldType, usize)> {
        if depth > DEPTH_MAX {
            return Err(Unknown::Ever);
        }
        match shape {
            Shape::Plain(kind) => Ok((kind.clone(), 1)),
            Shape::Of(id) => self.named(id, depth),
            Shape::Sequence(of) => {
                let (of, _) = self.kind(of, depth + 1)?;
                Ok((FieldType::Sequence(Box::new(of)), 1))
            }
            Shape::Array(of, count) => {
                let (of, size) = self.kind(of, depth + 1)?;
                let count = *count as usize;
                let size = checked(size.saturating_mul(count))?;
                Ok((FieldType::Array(Box::new(of), count), size))
            }
        }
    }

    fn named(&mut self, id: &TypeId, depth: usize) -> Found<(FieldType, usize)> {
        if let Some(done) = self.done.get(id) {
            return Ok(done.clone());
        }
        if depth > DEPTH_MAX || self.done.len() >= PARTS_MAX {
            return Err(Unknown::Ever);
        }
        let made = match (self.look)(id)? {
            Described::Alias(shape) => self.kind(&shape, depth + 1)?,
            Described::Enum(names) => {
                self.count(names.len())?;
                (FieldType::Enum(names.into()), 1)
            }
            Described::Struct {
                base,
                form,
                members,
            } => self.structure(id, base, form, members, depth)?,
            Described::Union {
                form,
                discriminator,
                branches,
            } => self.union(form, &discriminator, branches, depth)?,
        };
        self.done.insert(*id, made.clone());
        Ok(made)
    }

    fn structure(
        &mut self,
        id: &TypeId,
        base: Option<TypeId>,
        form: Option<Form>,
        members: Vec<Member>,
        depth: usize,
    ) -> Found<(FieldType, usize)> {
        // Names may be alike, ids are not.
        let name: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = FieldType::Struct(name.clone());
        self.done.insert(*id, (kind.clone(), usize::MAX));
        let (mut fields, mut keys, mut size) = (Vec::new(), Vec::new(), 0_usize);
        if let Some(base) = base {
            let (of, least) = self.named(&base, depth + 1)?;
            size = checked(least)?;
            let FieldType::Struct(of) = of else {
                return Err(Unknown::Ever);
            };
            let of = self.types.get(&of).ok_or(Unknown::Ever)?;
            (fields, keys) = (of.fields.clone(), of.keys.clone());
        }
        self.count(fields.len() + members.len())?;
        let mut key_last = None;
        for member in members {
            let (kind, least) = self.kind(&member.shape, depth + 1)?;
            let least = if member.is_optional { 1 } else { least };
            size = checked(size.saturating_add(least))?;
            if member.is_key {
                // The hash of a key takes them by their ids, ours by their places.
                if key_last >= Some(member.id) {
                    return Err(Unknown::Ever);
                }
                if member.is_optional {
                    return Err(Unknown::Ever);
                }
                key_last = Some(member.id);
                keys.push(fields.len());
            }
            fields.push(Field {
                name: member.name,
                kind,
                id: member.id,
                is_optional: member.is_optional,
            });
        }
        // Each value takes a byte at least: that bounds the work that a payload causes.
        let is_mutable = form == Some(Form::Mutable);
        if fields.is_empty() || is_mutable && fields.len() > MUTABLE_MAX {
            return Err(Unknown::Ever);
        }
        self.types.insert(Struct {
            name,
            fields,
            keys,
            form,
        });
        Ok((kind, size))
    }

    fn union(
        &mut self,
        form: Option<Form>,
        discriminator: &Shape,
        branches: Vec<Branch>,
        depth: usize,
    ) -> Found<(FieldType, usize)> {
        use FieldType::{Bool, Enum, Signed, Unsigned};
        self.count(branches.len())?;
        let (discriminator, mut size) = self.kind(discriminator, depth + 1)?;
        if !matches!(discriminator, Bool | Unsigned(_) | Signed(_) | Enum(_)) {
            return Err(Unknown::Ever);
        }
        let label_of = |label: i32| match discriminator {
            Signed(_) => i64::from(label),
            _ => i64::from(label as u32),
        };
        let mut cases = Vec::new();
        for branch in branches {
            let (kind, least) = self.kind(&branch.shape, depth + 1)?;
            // Any of them may be the one that is written.
            size = checked(size.max(least.saturating_add(1)))?;
            cases.push(Case {
                name: branch.name,
                kind,
                labels: branch.labels.into_iter().map(label_of).collect(),
                is_default: branch.is_default,
            });
        }
        let made = Union {
            discriminator,
            cases,
            form,
        };
        Ok((FieldType::Union(Arc::new(made)), size))
    }

    fn count(&mut self, fields: usize) -> Found<()> {
        self.fields = self.fields.saturating_add(fields);
        match self.fields {
            ..=FIELDS_MAX => Ok(()),
            _ => Err(Unknown::Ever),
        }
    }
}

/// The least bytes of a value, if it has any and not too many.
fn checked(size: usize) -> Found<usize> {
    match size {
        1..=ARRAY_MAX => Ok(size),
        _ => Err(Unknown::Ever),
    }
}

/// Types of peers that are known, by their names: of several of one name the first that was announced.
#[derive(Debug, Default)]
pub struct Announced(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    /// Nothing if it is not supported.
    known: Option<Known>,
    participant: Guid,
    /// Endpoints that need it: it is forgotten with the last.
    users: HashSet<Guid>,
}

impl Announced {
    pub fn find(&self, type_name: &str) -> Option<&Known> {
        self.0.get(type_name)?.known.as_ref()
    }

    /// An endpoint needs a type of this name; false if none was announced.
    pub fn join(&mut self, type_name: &str, endpoint: &Guid) -> bool {
        let found = self.0.get_mut(type_name);
        let is_there = found.is_some();
        if let Some(found) = found {
            found.users.insert(*endpoint);
        }
        is_there
    }

    pub fn is_full(&self, participant: &Guid) -> bool {
        let theirs = self.0.values().filter(|it| it.participant == *participant);
        self.0.len() >= TYPES_MAX || theirs.count() >= OF_PARTICIPANT_MAX
    }

    pub fn insert(
        &mut self,
        type_name: &str,
        known: Option<Known>,
        participant: Guid,
        endpoint: Guid,
    ) {
        let entry = Entry {
            known,
            participant,
            users: HashSet::from([endpoint]),
        };
        self.0.insert(type_name.to_owned(), entry);
    }

    /// An endpoint has gone, or is announced anew.
    pub fn forget(&mut self, endpoint: &Guid) {
        self.0
            .retain(|_, entry| !entry.users.remove(endpoint) || !entry.users.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdr;
    use crate::key::KeyType;
    use serde_json::json;

    const NUMBER: Shape = Shape::Plain(FieldType::Signed(4));

    fn id(number: usize) -> TypeId {
        let mut id = [0; 14];
        id[..8].copy_from_slice(&number.to_le_bytes());
        id
    }

    fn of(number: usize) -> Shape {
        Shape::Of(id(number))
    }

    fn structure(shapes: Vec<Shape>) -> Described {
        let member = |(at, shape)| Member {
            name: format!("f{at}"),
            shape,
            is_key: at == 0,
            is_optional: false,
            id: at as u32,
        };
        Described::Struct {
            base: None,
            form: Some(Form::Final),
            members: shapes.into_iter().enumerate().map(member).collect(),
        }
    }

    /// A structure whose member at this place is optional and of this type.
    fn optional(place: usize, shape: Shape) -> Described {
        let mut made = structure(vec![NUMBER, NUMBER]);
        if let Described::Struct { members, .. } = &mut made {
            members[place].is_optional = true;
            members[place].shape = shape;
        }
        made
    }

    fn union(discriminator: Shape, shape: Shape) -> Described {
        let branch = Branch {
            name: "a".into(),
            shape,
            labels: vec![-1, 2],
            is_default: false,
        };
        Described::Union {
            form: Some(Form::Final),
            discriminator,
            branches: vec![branch],
        }
    }

    /// The first type, if the answer for each id is this one.
    fn first(answer: impl Fn(usize) -> Option<Described>) -> Found<Known> {
        known(&id(0), &mut |id| {
            let number = id.first_chunk::<8>().expect("they are longer");
            answer(usize::from_le_bytes(*number)).ok_or(Unknown::Yet)
        })
    }

    fn many(shape: Shape) -> Shape {
        Shape::Sequence(Box::new(shape))
    }

    #[test]
    fn what_is_announced_is_read_and_written() {
        let described = |number| {
            Some(match number {
                0 => Described::Struct {
                    base: Some(id(1)),
                    form: Some(Form::Appendable),
                    members: vec![Member {
                        name: "parts".into(),
                        shape: many(of(2)),
                        is_key: false,
                        is_optional: false,
                        id: 1,
                    }],
                },
                1 => structure(vec![of(3)]),
                2 => structure(vec![Shape::Array(Box::new(of(4)), 2), many(of(0))]),
                3 => Described::Alias(Shape::Plain(FieldType::Text)),
                _ => Described::Enum(vec![("RED".into(), 0), ("BLUE".into(), 7)]),
            })
        };
        let known = first(described).expect("it is supported");
        let value = json!({"f0": "a", "parts": [{"f0": ["BLUE", "RED"], "f1": []}]});
        let payload = cdr::from_json(&value, &known.of, &known.types, true).expect("good");
        assert_eq!(payload[..2], [0, 9]);
        let back = cdr::to_json(&payload, &known.of, &known.types);
        assert_eq!(back.as_ref(), Ok(&value));
        let key = KeyType::of(&known.of).expect("its base has one");
        assert_eq!(key.level(&value).as_deref(), Some("a"));
        // As long as a part is missing, nothing is known.
        let partly = first(|number| described(number).filter(|_| number != 4));
        assert_eq!(partly.err(), Some(Unknown::Yet));
    }

    #[test]
    fn a_list_by_optional_members_and_a_union_are_read_and_written() {
        let described = |number| match number {
            0 => optional(1, of(1)),
            1 => structure(vec![of(2), many(of(0))]),
            _ => union(Shape::Plain(FieldType::Unsigned(2)), NUMBER),
        };
        let known = first(|number| Some(described(number))).expect("it is supported");
        let value =
            json!({"f0": 1, "f1": {"f0": {"$discriminator": 2, "a": -7}, "f1": [{"f0": 2}]}});
        for is_xcdr2 in [false, true] {
            let payload = cdr::from_json(&value, &known.of, &known.types, is_xcdr2);
            let back = cdr::to_json(&payload.expect("good"), &known.of, &known.types);
            assert_eq!(back.as_ref(), Ok(&value));
        }
        // One that contains itself is a list that ends somewhere.
        let known = first(|_| Some(optional(1, of(0)))).expect("it is supported");
        let value = json!({"f0": 1, "f1": {"f0": 2, "f1": {"f0": 3}}});
        let payload = cdr::from_json(&value, &known.of, &known.types, true).expect("good");
        assert_eq!(cdr::to_json(&payload, &known.of, &known.types), Ok(value));
    }

    #[test]
    fn no_hostile_type_is_known() {
        type Answer<'a> = &'a dyn Fn(usize) -> Described;
        let array = |of, count| Shape::Array(Box::new(of), count);
        let hostile: [(&str, Answer); 16] = [
            ("itself", &|_| structure(vec![of(0)])),
            ("a cycle", &|it| structure(vec![NUMBER, of(1 - it.min(1))])),
            ("an array of itself", &|_| structure(vec![array(of(0), 1)])),
            ("a typedef of itself", &|_| Described::Alias(of(0))),
            ("a typedef of its list", &|_| Described::Alias(many(of(0)))),
            ("endless", &|it| structure(vec![many(of(it + 1))])),
            ("too many parts", &|it| match it {
                0 => structure((1..=PARTS_MAX).map(of).collect()),
                _ => structure(vec![NUMBER]),
            }),
            ("too many fields", &|_| {
                structure(vec![NUMBER; FIELDS_MAX + 1])
            }),
            ("nothing", &|_| structure(vec![])),
            ("an array of nothing", &|_| {
                structure(vec![array(NUMBER, 0)])
            }),
            ("a huge array", &|_| {
                structure(vec![array(array(NUMBER, 1 << 16), 1 << 16)])
            }),
            ("no structure", &|_| Described::Alias(NUMBER)),
            ("a union of itself", &|it| match it {
                0 => structure(vec![of(1)]),
                _ => union(NUMBER, of(1)),
            }),
            ("a union by text", &|it| match it {
                0 => structure(vec![of(1)]),
                _ => union(Shape::Plain(FieldType::Text), NUMBER),
            }),
            ("an optional key", &|_| optional(0, NUMBER)),
            (
                "a long mutable",
                &|_| match structure(vec![NUMBER; MUTABLE_MAX + 1]) {
                    Described::Struct { members, .. } => Described::Struct {
                        base: None,
                        form: Some(Form::Mutable),
                        members,
                    },
                    other => other,
                },
            ),
        ];
        for (what, answer) in hostile {
            let known = first(|number| Some(answer(number)));
            assert_eq!(known.err(), Some(Unknown::Ever), "{what}");
        }
        // What doubles with each level is large after few.
        let doubling = |it| structure(vec![of(it + 1), of(it + 1)]);
        assert_eq!(first(|it| Some(doubling(it))).err(), Some(Unknown::Ever));
        let of_base = |base| Described::Struct {
            base: Some(id(base)),
            form: None,
            members: Vec::new(),
        };
        assert_eq!(first(|_| Some(of_base(0))).err(), Some(Unknown::Ever));
        let is_enum = |it| match it {
            0 => of_base(1),
            _ => Described::Enum(Vec::new()),
        };
        assert_eq!(first(|it| Some(is_enum(it))).err(), Some(Unknown::Ever));
    }

    #[test]
    fn the_first_of_a_name_counts_until_its_last_endpoint_has_gone() {
        let mut announced = Announced::default();
        let known = first(|_| Some(structure(vec![NUMBER]))).expect("it is supported");
        assert!(known.is_of(Some(id(0))) && known.is_of(None) && !known.is_of(Some(id(1))));
        announced.insert("A", Some(known), [1; 16], [2; 16]);
        assert!(announced.join("A", &[3; 16]) && !announced.join("B", &[3; 16]));
        announced.forget(&[2; 16]);
        assert!(announced.find("A").is_some());
        announced.forget(&[3; 16]);
        assert!(announced.find("A").is_none() && !announced.join("A", &[3; 16]));
        for number in 0..OF_PARTICIPANT_MAX {
            assert!(!announced.is_full(&[1; 16]));
            announced.insert(&number.to_string(), None, [1; 16], [number as u8; 16]);
        }
        assert!(announced.is_full(&[1; 16]) && !announced.is_full(&[2; 16]));
    }
}
