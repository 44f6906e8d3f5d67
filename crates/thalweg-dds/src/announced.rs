//! Types that peers announce (DDS-XTypes 1.3 §7.3.4): from their type objects, which a peer may have made up.
//!
//! A type is known with all that it names, or not at all. What IDL of ours refuses is refused here, too.

use crate::nodes::Guid;
use crate::types::{ARRAY_MAX, FieldType, Form, Known, Struct, Types};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The hash by which a type object is asked for.
pub type TypeId = [u8; 14];

/// Deepest nesting of what is announced, with typedefs.
pub const DEPTH_MAX: usize = 32;
/// Structures and enumerations of one type, and their fields and names.
const PARTS_MAX: usize = 256;
const FIELDS_MAX: usize = 4096;
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
    pub id: u32,
}

/// The content of a type object.
#[derive(Clone, Debug)]
pub enum Described {
    Struct {
        base: Option<TypeId>,
        form: Option<Form>,
        members: Vec<Member>,
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
            size = checked(size.saturating_add(least))?;
            if member.is_key {
                // The hash of a key takes them by their ids, ours by their places.
                if key_last >= Some(member.id) {
                    return Err(Unknown::Ever);
                }
                key_last = Some(member.id);
                keys.push(fields.len());
            }
            fields.push((member.name, kind));
        }
        // Each value takes a byte at least: that bounds the work that a payload causes.
        if fields.is_empty() {
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
            id: at as u32,
        };
        Described::Struct {
            base: None,
            form: Some(Form::Final),
            members: shapes.into_iter().enumerate().map(member).collect(),
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
    fn no_hostile_type_is_known() {
        type Answer<'a> = &'a dyn Fn(usize) -> Described;
        let array = |of, count| Shape::Array(Box::new(of), count);
        let hostile: [(&str, Answer); 12] = [
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
