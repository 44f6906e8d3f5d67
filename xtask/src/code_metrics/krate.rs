//! Declarations of a crate: functions, fields and attributes, parsed.

use std::collections::BTreeMap;

use syn::visit::Visit;
use syn::{
    Attribute, Block, Expr, Fields, ImplItem, Item, ReceiverKind, Signature, TraitItem, Visibility,
};

use super::types::{Ty, add_generics, parameters};

/// A function with a body.
pub struct Function<'a> {
    /// The type or trait it belongs to; none for a free function.
    pub owner: Option<Ty>,
    /// The trait that an implementation implements.
    pub of_trait: Option<String>,
    pub name: String,
    pub file: &'a str,
    pub sig: &'a Signature,
    pub block: &'a Block,
    /// Types for `Self` and type parameters.
    pub scope: BTreeMap<String, Ty>,
}

impl Function<'_> {
    /// `Type::name`, or the name alone.
    pub fn title(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{}::{}", owner.name, self.name),
            None => self.name.clone(),
        }
    }
}

pub struct Struct {
    pub parameters: Vec<String>,
    pub fields: BTreeMap<String, Ty>,
    /// Fields that the whole crate may use, and those that the parent module may.
    pub crate_fields: usize,
    pub super_fields: usize,
    /// Fields that are as visible as the struct, if that is not public itself.
    pub inner_fields: usize,
}

impl Struct {
    /// Whether it hides nothing.
    fn is_open(&self) -> bool {
        self.inner_fields == self.fields.len()
    }
}

/// Declarations in the files of one crate, without tests.
#[derive(Default)]
pub struct Krate<'a> {
    pub functions: Vec<Function<'a>>,
    pub structs: BTreeMap<String, Vec<Struct>>,
    /// Methods that each trait declares.
    pub traits: BTreeMap<String, usize>,
    /// `allow(clippy::too_many_arguments)`.
    pub allows: usize,
}

impl<'a> Krate<'a> {
    pub fn add(&mut self, path: &'a str, file: &'a syn::File) {
        self.allows += allows(&file.attrs);
        self.items(path, &file.items);
    }

    fn items(&mut self, path: &'a str, items: &'a [Item]) {
        for item in items {
            let attrs = attributes(item);
            if is_for_tests(attrs) {
                continue;
            }
            self.allows += allows(attrs);
            match item {
                Item::Mod(module) => {
                    if let Some((_, items)) = &module.content {
                        self.items(path, items);
                    }
                }
                Item::Struct(item) => self.add_struct(item),
                Item::Fn(item) => {
                    let mut scope = BTreeMap::new();
                    add_generics(&mut scope, &item.sig.generics);
                    self.functions.push(Function {
                        owner: None,
                        of_trait: None,
                        name: item.sig.ident.to_string(),
                        file: path,
                        sig: &item.sig,
                        block: &item.block,
                        scope,
                    });
                }
                Item::Impl(item) => self.add_impl(path, item),
                Item::Trait(item) => self.add_trait(path, item),
                _ => {}
            }
        }
    }

    fn add_struct(&mut self, item: &syn::ItemStruct) {
        let mut scope = BTreeMap::new();
        add_generics(&mut scope, &item.generics);
        let mut found = Struct {
            parameters: parameters(&item.generics),
            fields: BTreeMap::new(),
            crate_fields: 0,
            super_fields: 0,
            inner_fields: 0,
        };
        let is_public = matches!(item.vis, Visibility::Public(_));
        let fields = match &item.fields {
            Fields::Named(fields) => &fields.named,
            Fields::Unnamed(fields) => &fields.unnamed,
            _ => return self.remember(item.ident.to_string(), found),
        };
        for (at, field) in fields.iter().enumerate() {
            let name = field
                .ident
                .as_ref()
                .map_or(at.to_string(), ToString::to_string);
            found.fields.insert(name, Ty::of(&field.ty, &scope));
            match &field.vis {
                Visibility::Restricted(within) => match within.path.is_ident("crate") {
                    true => found.crate_fields += 1,
                    false => found.super_fields += 1,
                },
                Visibility::Public(_) if !is_public => found.inner_fields += 1,
                _ => {}
            }
        }
        self.remember(item.ident.to_string(), found);
    }

    /// `pub` fields of structs that are not public: of plain records, and of others. A plain record has only such fields and
    /// no method that changes it.
    pub fn inner_fields(&self) -> (usize, usize) {
        let (mut of_records, mut of_others) = (0, 0);
        for (name, found) in &self.structs {
            let changes = |function: &Function<'_>| {
                let receiver = function.sig.receiver();
                function.of_trait.is_none()
                    && function.owner.as_ref().is_some_and(|it| it.name == *name)
                    && receiver
                        .is_some_and(|it| matches!(it.kind, ReceiverKind::Reference(.., Some(_))))
            };
            let is_changed = self.functions.iter().any(changes);
            for found in found {
                match found.is_open() && !is_changed {
                    true => of_records += found.inner_fields,
                    false => of_others += found.inner_fields,
                }
            }
        }
        (of_records, of_others)
    }

    fn remember(&mut self, name: String, found: Struct) {
        self.structs.entry(name).or_default().push(found);
    }

    fn add_impl(&mut self, path: &'a str, item: &'a syn::ItemImpl) {
        let mut scope = BTreeMap::new();
        // Parameters keep their names in the owner, so that a call can put its own arguments in their place.
        let owner = Ty::of(&item.self_ty, &scope);
        add_generics(&mut scope, &item.generics);
        scope.insert("Self".to_owned(), owner.clone());
        let of_trait = item
            .trait_
            .as_ref()
            .and_then(|(path, ..)| path.segments.last())
            .map(|segment| segment.ident.to_string());
        for item in &item.items {
            if let ImplItem::Fn(function) = item
                && !is_for_tests(&function.attrs)
            {
                self.allows += allows(&function.attrs);
                let mut scope = scope.clone();
                add_generics(&mut scope, &function.sig.generics);
                self.functions.push(Function {
                    owner: Some(owner.clone()),
                    of_trait: of_trait.clone(),
                    name: function.sig.ident.to_string(),
                    file: path,
                    sig: &function.sig,
                    block: &function.block,
                    scope,
                });
            }
        }
    }

    fn add_trait(&mut self, path: &'a str, item: &'a syn::ItemTrait) {
        let owner = Ty::named(&item.ident.to_string());
        let mut scope = BTreeMap::new();
        add_generics(&mut scope, &item.generics);
        scope.insert("Self".to_owned(), owner.clone());
        let mut methods = 0;
        for item in &item.items {
            let TraitItem::Fn(function) = item else {
                continue;
            };
            methods += 1;
            self.allows += allows(&function.attrs);
            let Some(block) = &function.default else {
                continue;
            };
            let mut scope = scope.clone();
            add_generics(&mut scope, &function.sig.generics);
            self.functions.push(Function {
                owner: Some(owner.clone()),
                of_trait: None,
                name: function.sig.ident.to_string(),
                file: path,
                sig: &function.sig,
                block,
                scope,
            });
        }
        self.traits.insert(item.ident.to_string(), methods);
    }

    /// Functions that assign a field of this name, by `=`, `+=` or any other assignment.
    pub fn assigning(&self, field: &str) -> Vec<&Function<'a>> {
        let assigns = |function: &&Function<'_>| {
            let mut search = Assigns {
                field,
                found: false,
            };
            search.visit_block(function.block);
            search.found
        };
        self.functions.iter().filter(assigns).collect()
    }
}

struct Assigns<'f> {
    field: &'f str,
    found: bool,
}

impl Assigns<'_> {
    fn look(&mut self, left: &Expr) {
        if let Expr::Field(left) = left
            && let syn::Member::Named(name) = &left.member
        {
            self.found |= name == self.field;
        }
    }
}

impl<'ast> Visit<'ast> for Assigns<'_> {
    fn visit_expr_assign(&mut self, assign: &'ast syn::ExprAssign) {
        self.look(&assign.left);
        syn::visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        use syn::BinOp::{AddAssign, SubAssign};
        if matches!(binary.op, AddAssign(_) | SubAssign(_)) {
            self.look(&binary.left);
        }
        syn::visit::visit_expr_binary(self, binary);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attrs: &[Attribute]) -> bool {
    let is_test = |attr: &Attribute| {
        attr.path().is_ident("test")
            || attr.path().is_ident("cfg")
                && attr
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| path.is_ident("test"))
    };
    attrs.iter().any(is_test)
}

fn allows(attrs: &[Attribute]) -> usize {
    let lists = attrs
        .iter()
        .filter(|attr| attr.path().is_ident("allow") || attr.path().is_ident("expect"));
    let named = |attr: &&Attribute| {
        let mut found = false;
        // A list with a reason is no list of paths to the end; what was found before it counts.
        let _ = attr.parse_nested_meta(|meta| {
            found |= meta
                .path
                .segments
                .last()
                .is_some_and(|last| last.ident == "too_many_arguments");
            if let Ok(value) = meta.value() {
                value.parse::<Expr>()?;
            }
            Ok(())
        });
        found
    };
    lists.filter(named).count()
}
