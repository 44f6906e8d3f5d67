//! Types as far as they are evident from declarations: enough to tell whose method a call means.

use std::collections::BTreeMap;

use syn::{
    GenericArgument, GenericParam, Generics, PathArguments, ReturnType, Type, TypeParamBound,
};

/// A type by its last name and its arguments; references and smart pointers are taken off. Unknown types are `?`, tuples
/// have no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ty {
    pub name: String,
    pub args: Vec<Ty>,
}

/// Pointers that dereference to their last argument.
const POINTERS: [&str; 7] = ["Box", "Rc", "Arc", "Ref", "RefMut", "MutexGuard", "Cow"];

impl Ty {
    /// A type that is not evident.
    pub fn unknown() -> Self {
        Self::named("?")
    }

    /// A type without arguments.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            args: Vec::new(),
        }
    }

    /// An argument, if it is evident.
    pub fn arg(&self, at: usize) -> Self {
        self.args.get(at).cloned().unwrap_or_else(Self::unknown)
    }

    /// Element type of a collection or an option: its last argument.
    pub fn element(&self) -> Self {
        self.args.last().cloned().unwrap_or_else(Self::unknown)
    }

    /// The same with the names in `names` replaced.
    pub fn with(&self, names: &BTreeMap<String, Ty>) -> Self {
        if let Some(ty) = names.get(&self.name) {
            return ty.clone();
        }
        Self {
            name: self.name.clone(),
            args: self.args.iter().map(|arg| arg.with(names)).collect(),
        }
    }

    /// As a declaration writes it. `scope` says what `Self` and type parameters stand for.
    pub fn of(ty: &Type, scope: &BTreeMap<String, Ty>) -> Self {
        match ty {
            Type::Reference(reference) => Self::of(&reference.elem, scope),
            Type::Paren(paren) => Self::of(&paren.elem, scope),
            Type::Group(group) => Self::of(&group.elem, scope),
            Type::Slice(slice) => Self {
                name: "Vec".to_owned(),
                args: vec![Self::of(&slice.elem, scope)],
            },
            Type::Array(array) => Self {
                name: "Vec".to_owned(),
                args: vec![Self::of(&array.elem, scope)],
            },
            Type::Tuple(tuple) => Self {
                name: String::new(),
                args: tuple
                    .elems
                    .iter()
                    .map(|elem| Self::of(elem, scope))
                    .collect(),
            },
            Type::ImplTrait(bound) => Self::of_bounds(bound.bounds.iter()),
            Type::TraitObject(object) => Self::of_bounds(object.bounds.iter()),
            Type::Path(path) => Self::of_path(&path.path, scope),
            _ => Self::unknown(),
        }
    }

    /// As a path names it.
    pub fn of_path(path: &syn::Path, scope: &BTreeMap<String, Ty>) -> Self {
        let Some(last) = path.segments.last() else {
            return Self::unknown();
        };
        let name = last.ident.to_string();
        if let Some(known) = scope.get(&name).filter(|_| path.segments.len() == 1) {
            return known.clone();
        }
        let mut args = Vec::new();
        if let PathArguments::AngleBracketed(brackets) = &last.arguments {
            args.extend(brackets.args.iter().filter_map(|arg| match arg {
                GenericArgument::Type(ty) => Some(Self::of(ty, scope)),
                _ => None,
            }));
        }
        if POINTERS.contains(&name.as_str()) {
            return args.pop().unwrap_or_else(Self::unknown);
        }
        Self { name, args }
    }

    /// A value of which only a trait is known has the trait's methods.
    fn of_bounds<'a>(mut bounds: impl Iterator<Item = &'a TypeParamBound>) -> Self {
        let first = bounds.find_map(|bound| match bound {
            TypeParamBound::Trait(bound) => bound.path.segments.last(),
            _ => None,
        });
        first.map_or_else(Self::unknown, |segment| {
            Self::named(&segment.ident.to_string())
        })
    }
}

/// Adds type parameters with the first trait each is bound by; one without a bound stays its own name.
pub fn add_generics(scope: &mut BTreeMap<String, Ty>, generics: &Generics) {
    for param in &generics.params {
        if let GenericParam::Type(param) = param {
            let bound = Ty::of_bounds(param.bounds.iter());
            if bound != Ty::unknown() {
                scope.insert(param.ident.to_string(), bound);
            }
        }
    }
    let clauses = generics
        .where_clause
        .iter()
        .flat_map(|clause| &clause.predicates);
    for clause in clauses {
        if let syn::WherePredicate::Type(clause) = clause
            && let Type::Path(path) = &clause.bounded_ty
            && let Some(name) = path.path.get_ident()
        {
            scope.insert(name.to_string(), Ty::of_bounds(clause.bounds.iter()));
        }
    }
}

/// Names of type parameters in their order.
pub fn parameters(generics: &Generics) -> Vec<String> {
    let names = generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(param.ident.to_string()),
        _ => None,
    });
    names.collect()
}

/// Return type of a function.
pub fn returned(output: &ReturnType, scope: &BTreeMap<String, Ty>) -> Ty {
    match output {
        ReturnType::Default => Ty::unknown(),
        ReturnType::Type(_, ty) => Ty::of(ty, scope),
    }
}
