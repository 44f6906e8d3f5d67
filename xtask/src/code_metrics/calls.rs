//! Calls within a crate, by parsed bodies, and the recursive ones.
//!
//! A call counts when its target is evident: `self.method()`, methods of fields, locals and parameters whose types are
//! declared or returned by a function of the crate, `Type::function`, and free functions, also where a path is passed as a
//! value. A call by a trait counts for every implementation in the crate.

use std::collections::{BTreeMap, BTreeSet};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, FnArg, Member, Pat, Token, UnOp};

use super::krate::{Function, Krate};
use super::types::{Ty, returned};

/// The calls within a crate.
pub struct Graph {
    /// By the number of the calling function, the numbers of those it calls.
    calls: Vec<BTreeSet<usize>>,
    /// Method calls with the name of one of the crate's methods on something whose type is not evident.
    pub unresolved: usize,
    pub edges: usize,
}

/// Functions by owner and name, so that a call finds its candidates.
struct Index<'k> {
    krate: &'k Krate<'k>,
    methods: BTreeMap<(&'k str, &'k str), Vec<usize>>,
    /// Methods of implementations, by trait.
    by_trait: BTreeMap<(&'k str, &'k str), Vec<usize>>,
    free: BTreeMap<&'k str, Vec<usize>>,
    method_names: BTreeSet<&'k str>,
}

impl<'k> Index<'k> {
    fn new(krate: &'k Krate<'k>) -> Self {
        let mut index = Self {
            krate,
            methods: BTreeMap::new(),
            by_trait: BTreeMap::new(),
            free: BTreeMap::new(),
            method_names: BTreeSet::new(),
        };
        for (number, function) in krate.functions.iter().enumerate() {
            let name = function.name.as_str();
            match &function.owner {
                Some(owner) => {
                    index
                        .methods
                        .entry((&owner.name, name))
                        .or_default()
                        .push(number);
                    index.method_names.insert(name);
                }
                None => index.free.entry(name).or_default().push(number),
            }
            if let Some(of_trait) = &function.of_trait {
                index
                    .by_trait
                    .entry((of_trait, name))
                    .or_default()
                    .push(number);
            }
        }
        index
    }

    fn methods(&self, owner: &str, name: &str) -> Vec<usize> {
        let own = self.methods.get(&(owner, name));
        let implementations = self.by_trait.get(&(owner, name));
        own.into_iter()
            .chain(implementations)
            .flatten()
            .copied()
            .collect()
    }

    /// A free function: the caller's file first, then the file or folder that the path names, then all of that name.
    fn free(&self, path: &[String], file: &str) -> Vec<usize> {
        let Some((name, modules)) = path.split_last() else {
            return Vec::new();
        };
        let all = self.free.get(name.as_str()).cloned().unwrap_or_default();
        let file_of = |number: &usize| self.krate.functions[*number].file;
        if let Some(module) = modules
            .last()
            .filter(|module| *module != "crate" && *module != "super")
        {
            let of_module = |number: &usize| {
                let mut parts = file_of(number).trim_end_matches(".rs").rsplit('/');
                let (stem, folder) = (parts.next(), parts.next());
                stem == Some(module) || (stem == Some("mod") && folder == Some(module))
            };
            return all.into_iter().filter(of_module).collect();
        }
        let here: Vec<usize> = all
            .iter()
            .copied()
            .filter(|number| file_of(number) == file)
            .collect();
        if here.is_empty() { all } else { here }
    }
}

impl Graph {
    pub fn of(krate: &Krate<'_>) -> Self {
        let index = Index::new(krate);
        let mut graph = Self {
            calls: Vec::new(),
            unresolved: 0,
            edges: 0,
        };
        for function in &krate.functions {
            let mut body = Body {
                index: &index,
                function,
                locals: BTreeMap::new(),
                calls: BTreeSet::new(),
                unresolved: 0,
            };
            body.read();
            graph.unresolved += body.unresolved;
            graph.edges += body.calls.len();
            graph.calls.push(body.calls);
        }
        graph
    }

    /// Sets of two or more functions that call each other in a circle, largest first (Tarjan).
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut search = Search {
            calls: &self.calls,
            order: vec![None; self.calls.len()],
            low: vec![0; self.calls.len()],
            stack: Vec::new(),
            on_stack: vec![false; self.calls.len()],
            next: 0,
            found: Vec::new(),
        };
        for function in 0..self.calls.len() {
            if search.order[function].is_none() {
                search.visit(function);
            }
        }
        let mut found = search.found;
        found.retain(|cycle| cycle.len() > 1);
        found.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        found
    }
}

struct Search<'g> {
    calls: &'g [BTreeSet<usize>],
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    on_stack: Vec<bool>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, function: usize) {
        self.order[function] = Some(self.next);
        self.low[function] = self.next;
        self.next += 1;
        self.stack.push(function);
        self.on_stack[function] = true;
        for &called in &self.calls[function] {
            match self.order[called] {
                None => {
                    self.visit(called);
                    self.low[function] = self.low[function].min(self.low[called]);
                }
                Some(order) if self.on_stack[called] => {
                    self.low[function] = self.low[function].min(order);
                }
                Some(_) => {}
            }
        }
        if self.order[function] == Some(self.low[function]) {
            let mut cycle = Vec::new();
            while let Some(member) = self.stack.pop() {
                self.on_stack[member] = false;
                cycle.push(member);
                if member == function {
                    break;
                }
            }
            self.found.push(cycle);
        }
    }
}

/// One function's body while it is read.
struct Body<'i, 'k> {
    index: &'i Index<'k>,
    function: &'i Function<'k>,
    locals: BTreeMap<String, Ty>,
    calls: BTreeSet<usize>,
    unresolved: usize,
}

impl Body<'_, '_> {
    fn read(&mut self) {
        let function = self.function;
        for input in &function.sig.inputs {
            match input {
                FnArg::Receiver(_) => {
                    let own = function.owner.clone().unwrap_or_else(Ty::unknown);
                    self.locals.insert("self".to_owned(), own);
                }
                FnArg::Typed(typed) => self.bind(&typed.pat, &Ty::of(&typed.ty, &function.scope)),
            }
        }
        self.visit_block(function.block);
    }

    /// Names that a pattern binds, with their types as far as the pattern and the type of the value tell them.
    fn bind(&mut self, pat: &Pat, ty: &Ty) {
        match pat {
            Pat::Ident(ident) => {
                self.locals.insert(ident.ident.to_string(), ty.clone());
                if let Some((_, inner)) = &ident.subpat {
                    self.bind(inner, ty);
                }
            }
            Pat::Type(typed) => {
                let declared = Ty::of(&typed.ty, &self.function.scope);
                self.bind(&typed.pat, &declared);
            }
            Pat::Reference(reference) => self.bind(&reference.pat, ty),
            Pat::Paren(paren) => self.bind(&paren.pat, ty),
            Pat::Or(or) => or.cases.iter().for_each(|case| self.bind(case, ty)),
            Pat::Slice(slice) => {
                let element = ty.element();
                slice
                    .elems
                    .iter()
                    .for_each(|elem| self.bind(elem, &element));
            }
            Pat::Tuple(tuple) => {
                for (at, elem) in tuple.elems.iter().enumerate() {
                    self.bind(elem, &ty.arg(at));
                }
            }
            Pat::TupleStruct(tuple) => {
                let name = tuple
                    .path
                    .segments
                    .last()
                    .map(|last| last.ident.to_string());
                let name = name.unwrap_or_default();
                for (at, elem) in tuple.elems.iter().enumerate() {
                    let part = match name.as_str() {
                        "Some" | "Ok" => ty.arg(0),
                        "Err" => ty.arg(1),
                        _ => self.field(&Ty::named(&name), &at.to_string()),
                    };
                    self.bind(elem, &part);
                }
            }
            Pat::Struct(fields) => {
                let name = fields
                    .path
                    .segments
                    .last()
                    .map(|last| last.ident.to_string());
                let own = self.function.owner.clone();
                let whole = match name.as_deref() {
                    Some("Self") => own.unwrap_or_else(Ty::unknown),
                    Some(name) if name == ty.name => ty.clone(),
                    Some(name) => Ty::named(name),
                    None => Ty::unknown(),
                };
                for field in &fields.fields {
                    let part = self.field(&whole, &member(&field.member));
                    self.bind(&field.pat, &part);
                }
            }
            _ => {}
        }
    }

    fn field(&self, of: &Ty, name: &str) -> Ty {
        if of.name.is_empty() {
            return name.parse().map_or_else(|_| Ty::unknown(), |at| of.arg(at));
        }
        let structs = self.index.krate.structs.get(&of.name).into_iter().flatten();
        for found in structs {
            if let Some(ty) = found.fields.get(name) {
                let arguments = found
                    .parameters
                    .iter()
                    .cloned()
                    .zip(of.args.iter().cloned());
                return ty.with(&arguments.collect());
            }
        }
        Ty::unknown()
    }

    /// Type that a function of the crate returns when called on `owner`.
    fn returned(&self, number: usize, owner: &Ty) -> Ty {
        let function = &self.index.krate.functions[number];
        let ty = returned(&function.sig.output, &function.scope);
        let declared = function.owner.iter().flat_map(|own| &own.args);
        let arguments = declared
            .map(|parameter| parameter.name.clone())
            .zip(owner.args.iter().cloned());
        ty.with(&arguments.collect())
    }

    /// An expression's type, if it is evident.
    fn type_of(&self, expr: &Expr) -> Ty {
        match expr {
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) => self
                    .locals
                    .get(&name.to_string())
                    .cloned()
                    .unwrap_or_else(Ty::unknown),
                None => Ty::unknown(),
            },
            Expr::Field(field) => self.field(&self.type_of(&field.base), &member(&field.member)),
            Expr::Reference(reference) => self.type_of(&reference.expr),
            Expr::Paren(paren) => self.type_of(&paren.expr),
            Expr::Group(group) => self.type_of(&group.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.type_of(&unary.expr),
            Expr::Try(tried) => self.type_of(&tried.expr).arg(0),
            Expr::Index(index) => self.type_of(&index.expr).element(),
            Expr::Struct(built) => Ty::of_path(&built.path, &self.function.scope),
            Expr::Call(call) => self.type_of_call(call),
            Expr::MethodCall(call) => {
                let on = self.type_of(&call.receiver);
                let name = call.method.to_string();
                if let Some(&number) = self.index.methods(&on.name, &name).first() {
                    return self.returned(number, &on);
                }
                type_of_std_method(&on, &name)
            }
            _ => Ty::unknown(),
        }
    }

    fn type_of_call(&self, call: &syn::ExprCall) -> Ty {
        let Expr::Path(path) = &*call.func else {
            return Ty::unknown();
        };
        if path.path.is_ident("Some") {
            return Ty {
                name: "Option".to_owned(),
                args: call.args.iter().map(|arg| self.type_of(arg)).collect(),
            };
        }
        match self.targets(&path.path).first() {
            Some(&number) => self.returned(number, &Ty::unknown()),
            None => Ty::unknown(),
        }
    }

    /// The functions that a path can mean.
    fn targets(&self, path: &syn::Path) -> Vec<usize> {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        let Some((name, before)) = names.split_last() else {
            return Vec::new();
        };
        let Some(owner) = before.last() else {
            let is_local = self.locals.contains_key(name);
            return if is_local {
                Vec::new()
            } else {
                self.index.free(&names, self.function.file)
            };
        };
        let owner = self
            .function
            .scope
            .get(owner)
            .map_or(owner.clone(), |known| known.name.clone());
        let methods = self.index.methods(&owner, name);
        if !methods.is_empty() || owner.starts_with(char::is_uppercase) {
            return methods;
        }
        self.index.free(&names, self.function.file)
    }
}

impl<'ast> Visit<'ast> for Body<'_, '_> {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        let before = self.locals.clone();
        visit::visit_block(self, block);
        self.locals = before;
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        let ty = local
            .init
            .as_ref()
            .map_or_else(Ty::unknown, |init| self.type_of(&init.expr));
        self.bind(&local.pat, &ty);
    }

    fn visit_expr_let(&mut self, expr: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, expr);
        let ty = self.type_of(&expr.expr);
        self.bind(&expr.pat, &ty);
    }

    fn visit_expr_for_loop(&mut self, expr: &'ast syn::ExprForLoop) {
        self.visit_expr(&expr.expr);
        let before = self.locals.clone();
        let element = self.type_of(&expr.expr).element();
        self.bind(&expr.pat, &element);
        self.visit_block(&expr.body);
        self.locals = before;
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        self.visit_expr(&expr.expr);
        let ty = self.type_of(&expr.expr);
        for arm in &expr.arms {
            let before = self.locals.clone();
            self.bind(&arm.pat, &ty);
            self.visit_arm(arm);
            self.locals = before;
        }
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let before = self.locals.clone();
        for input in &closure.inputs {
            self.bind(input, &Ty::unknown());
        }
        self.visit_expr(&closure.body);
        self.locals = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        let on = self.type_of(&call.receiver);
        let name = call.method.to_string();
        if on == Ty::unknown() && self.index.method_names.contains(name.as_str()) {
            self.unresolved += 1;
        }
        self.calls.extend(self.index.methods(&on.name, &name));
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.calls.extend(self.targets(&path.path));
    }

    /// Arguments of `assert!`, `matches!` and the like are expressions, too.
    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if let Ok(arguments) = mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
        {
            let before = self.calls.len();
            for argument in arguments {
                let mut inner = Body {
                    index: self.index,
                    function: self.function,
                    locals: self.locals.clone(),
                    calls: BTreeSet::new(),
                    unresolved: 0,
                };
                inner.visit_expr(&argument);
                self.calls.extend(inner.calls);
                self.unresolved += inner.unresolved;
            }
            debug_assert!(self.calls.len() >= before);
        }
    }
}

fn member(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// Methods of the standard library whose result type follows from their receiver's.
fn type_of_std_method(on: &Ty, name: &str) -> Ty {
    match name {
        "as_ref" | "as_mut" | "as_deref" | "as_deref_mut" | "clone" | "take" | "iter"
        | "iter_mut" | "into_iter" | "drain" | "values" | "values_mut" | "borrow"
        | "borrow_mut" | "filter" | "or_else" | "rev" | "skip" | "copied" | "cloned" => on.clone(),
        "unwrap" | "expect" | "unwrap_or_default" | "unwrap_or_else" | "get_or_insert_with"
        | "or_default" => on.arg(0),
        "get" | "get_mut" | "first" | "first_mut" | "last" | "last_mut" | "front" | "front_mut"
        | "back" | "back_mut" | "pop" | "pop_front" | "pop_back" | "remove" | "next" | "find"
            if !on.args.is_empty() =>
        {
            Ty {
                name: "Option".to_owned(),
                args: vec![on.element()],
            }
        }
        _ => Ty::unknown(),
    }
}
