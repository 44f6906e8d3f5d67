//! `cargo xtask amqp-methods`: the methods of AMQP 0-9-1, written from their description.
//!
//! Reads `crates/thalweg-amqp/spec/amqp-0-9-1.toml`, writes `crates/thalweg-amqp/src/methods/`: one file per class, one
//! for the reply codes, and `mod.rs` with the enum of all. What is committed must be what this writes (a test below).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::{fs, iter};

use toml::{Table, Value};

use crate::report::Outcome;

const SPEC: &str = "crates/thalweg-amqp/spec/amqp-0-9-1.toml";
const FOLDER: &str = "crates/thalweg-amqp/src/methods";
const HEAD: &str =
    "//! Written by `cargo xtask amqp-methods` from spec/amqp-0-9-1.toml: change that, not this.\n";

/// Writes the files, or with `check` only compares.
pub fn run(check: bool) -> Outcome {
    let files = match generate() {
        Ok(files) => files,
        Err(why) => return Outcome::failed(why),
    };
    let mut outcome = Outcome::default();
    for (name, text) in files {
        let path = crate::tree().join(FOLDER).join(&name);
        if fs::read_to_string(&path).is_ok_and(|committed| committed == text) {
            outcome.passed += 1;
        } else if check {
            outcome.fail(format!(
                "{FOLDER}/{name} is stale: run `cargo xtask amqp-methods`"
            ));
        } else {
            match fs::write(&path, text) {
                Ok(()) => outcome.passed += 1,
                Err(error) => outcome.fail(format!("{}: {error}", path.display())),
            }
        }
    }
    outcome
}

/// Every file by its name, formatted.
fn generate() -> Result<BTreeMap<String, String>, String> {
    let text =
        fs::read_to_string(crate::tree().join(SPEC)).map_err(|error| format!("{SPEC}: {error}"))?;
    let spec = Spec::read(&text).map_err(|why| format!("{SPEC}: {why}"))?;
    let mut files = BTreeMap::new();
    files.insert("mod.rs".to_owned(), rustfmt(&spec.all())?);
    files.insert("reply_code.rs".to_owned(), rustfmt(&spec.reply_codes())?);
    for class in &spec.classes {
        files.insert(format!("{}.rs", class.name), rustfmt(&class.module())?);
    }
    Ok(files)
}

struct Spec {
    constants: Vec<Constant>,
    classes: Vec<Class>,
}

struct Constant {
    name: String,
    code: i64,
    kind: String,
    doc: String,
}

struct Class {
    name: String,
    id: i64,
    doc: String,
    methods: Vec<Method>,
}

struct Method {
    class: String,
    name: String,
    id: i64,
    class_id: i64,
    from: String,
    reply: Vec<String>,
    content: bool,
    extension: bool,
    doc: String,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    wire: Wire,
    secret: bool,
    doc: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Bit,
    Octet,
    Short,
    Long,
    LongLong,
    ShortStr,
    LongStr,
    Table,
}

impl Wire {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "bit" => Self::Bit,
            "octet" => Self::Octet,
            "short" => Self::Short,
            "long" => Self::Long,
            "longlong" => Self::LongLong,
            "shortstr" => Self::ShortStr,
            "longstr" => Self::LongStr,
            "table" => Self::Table,
            _ => return None,
        })
    }

    fn rust(self) -> &'static str {
        match self {
            Self::Bit => "bool",
            Self::Octet => "u8",
            Self::Short => "u16",
            Self::Long => "u32",
            Self::LongLong => "u64",
            Self::ShortStr => "&'b str",
            Self::LongStr => "&'b [u8]",
            Self::Table => "Table<'b>",
        }
    }

    /// The reader's getter, and with `put_` before it the writer's function.
    fn verb(self) -> &'static str {
        match self {
            Self::Bit => "bits",
            Self::Octet => "octet",
            Self::Short => "short",
            Self::Long => "long",
            Self::LongLong => "long_long",
            Self::ShortStr => "short_str",
            Self::LongStr => "long_str",
            Self::Table => "table",
        }
    }

    fn borrows(self) -> bool {
        matches!(self, Self::ShortStr | Self::LongStr | Self::Table)
    }

    /// Rust literal that is written for a reserved field.
    fn nothing(self) -> &'static str {
        match self {
            Self::Bit => "false",
            Self::ShortStr => "\"\"",
            Self::LongStr => "b\"\"",
            Self::Table => "Table::default()",
            _ => "0",
        }
    }
}

impl Spec {
    fn read(text: &str) -> Result<Self, String> {
        let spec: Table = text.parse().map_err(|error| format!("{error}"))?;
        let domains = spec
            .get("domains")
            .and_then(Value::as_table)
            .cloned()
            .unwrap_or_default();
        let constants = tables(&spec, "constant")
            .map(|c| {
                Ok(Constant {
                    name: word(c, "name")?,
                    code: int(c, "code")?,
                    kind: word(c, "kind")?,
                    doc: word(c, "doc")?,
                })
            })
            .collect::<Result<_, String>>()?;
        let classes = tables(&spec, "class")
            .map(|class| Class::read(class, &domains))
            .collect::<Result<_, String>>()?;
        Ok(Self { constants, classes })
    }

    fn methods(&self) -> impl Iterator<Item = &Method> {
        self.classes.iter().flat_map(|class| &class.methods)
    }

    /// Returns a pattern for the methods that `which` selects.
    fn variants(&self, which: impl Fn(&Method) -> bool) -> String {
        let variants: Vec<String> = self
            .methods()
            .filter(|m| which(m))
            .map(|m| format!("Method::{}(_)", m.variant()))
            .collect();
        variants.join(" | ")
    }

    fn reply_codes(&self) -> String {
        let mut out = format!("{HEAD}\n/// Why something ended or came back.\n");
        out += "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u16)]\npub enum ReplyCode {\n";
        for c in &self.constants {
            let _ = writeln!(
                out,
                "/// {}.\n{} = {},",
                sentence(&c.doc),
                camel(&c.name),
                c.code
            );
        }
        out += "}\n\nimpl ReplyCode {\n/// Every reply code, ascending.\npub const ALL: &'static [ReplyCode] = &[";
        out.extend(
            self.constants
                .iter()
                .map(|c| format!("ReplyCode::{},", camel(&c.name))),
        );
        out += "];\n\n/// The code with this number.\npub fn of(code: u16) -> Option<Self> {\n";
        out += "Self::ALL.iter().copied().find(|known| known.code() == code)\n}\n";
        out += "\n/// The number on the wire.\npub const fn code(self) -> u16 { self as u16 }\n\n";
        out += "/// The name that stands at the head of reply texts.\npub const fn name(self) -> &'static str { match self {";
        for c in &self.constants {
            let _ = write!(
                out,
                "ReplyCode::{} => \"{}\",",
                camel(&c.name),
                c.name.replace('-', "_").to_uppercase()
            );
        }
        out += "} }\n\n/// Whether it ends the connection, not only the channel.\npub const fn is_hard(self) -> bool { matches!(self, ";
        let hard: Vec<String> = self
            .constants
            .iter()
            .filter(|c| c.kind == "hard")
            .map(|c| format!("ReplyCode::{}", camel(&c.name)))
            .collect();
        out += &hard.join(" | ");
        out += ") }\n}\n";
        out
    }

    fn all(&self) -> String {
        let mut out = format!("{HEAD}\n");
        for class in &self.classes {
            let _ = writeln!(out, "pub mod {};", class.name);
        }
        out += "mod reply_code;\n\npub use reply_code::ReplyCode;\n\n";
        out += "use crate::codec::{Arguments, DecodeError, MethodId, Sender};\n\n";
        out += "/// Any method with its arguments.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum Method<'b> {\n";
        for m in self.methods() {
            let _ = writeln!(
                out,
                "/// {}.\n{}({}),",
                sentence(&m.doc),
                m.variant(),
                m.path()
            );
        }
        out += "}\n\nimpl<'b> Method<'b> {\n";
        out += "/// The method in the payload of a method frame.\n";
        out += "pub fn decode(payload: &'b [u8]) -> Result<Self, DecodeError> {\n";
        out +=
            "let (id, mut arguments) = Arguments::of_method(payload)?;\nlet a = &mut arguments;\n";
        out += "let decoded = match (id.class, id.method) {\n";
        for m in self.methods() {
            let _ = writeln!(
                out,
                "({}, {}) => {}::decode(a).map(Method::{}),",
                m.class_id,
                m.id,
                m.function_path(),
                m.variant()
            );
        }
        out += "_ => return Err(DecodeError::Unknown(id)),\n};\n";
        out += "match decoded.and_then(|method| a.end().map(|()| method)) {\nOk(method) => Ok(method),\nErr(what) => Err(DecodeError::Malformed { id, what }),\n}\n}\n\n";
        out += "/// Appends the payload of a method frame.\npub fn encode(&self, out: &mut Vec<u8>) {\nmatch self {\n";
        for m in self.methods() {
            let _ = writeln!(out, "Method::{}(m) => m.encode(out),", m.variant());
        }
        out += "}\n}\n\n/// Class and method id.\npub const fn id(&self) -> MethodId {\nmatch self {\n";
        for m in self.methods() {
            let _ = writeln!(
                out,
                "Method::{}(_) => {}::ID,",
                m.variant(),
                m.function_path()
            );
        }
        out += "}\n}\n\npub(crate) const fn sender(&self) -> Sender {\nmatch self {\n";
        for side in ["client", "server", "both"] {
            let _ = writeln!(
                out,
                "{} => Sender::{},",
                self.variants(|m| m.from == side),
                camel(side)
            );
        }
        out += "}\n}\n\n/// Whether a content header and body follow.\n#[inline]\n";
        let _ = writeln!(
            out,
            "pub const fn has_content(&self) -> bool {{\nmatches!(self, {})\n}}\n}}\n",
            self.variants(|m| m.content)
        );
        out += "/// The names of all methods, in the order of ids.\n";
        out += "#[rustfmt::skip]\npub(crate) const NAMES: &[(MethodId, &str)] = &[\n";
        let mut methods: Vec<&Method> = self.methods().collect();
        methods.sort_by_key(|m| (m.class_id, m.id));
        for m in methods {
            let _ = writeln!(
                out,
                "    (MethodId::new({}, {}), \"{}.{}\"),",
                m.class_id, m.id, m.class, m.name
            );
        }
        out += "];\n";
        out
    }
}

impl Class {
    fn read(class: &Table, domains: &Table) -> Result<Self, String> {
        let (name, id) = (word(class, "name")?, int(class, "id")?);
        let methods: Vec<Method> = tables(class, "method")
            .map(|method| Method::read(method, &name, id, domains))
            .collect::<Result<_, String>>()?;
        for reply in methods.iter().flat_map(|m| &m.reply) {
            if !methods.iter().any(|m| m.name == *reply) {
                return Err(format!("{name} has no method {reply}"));
            }
        }
        Ok(Self {
            name,
            id,
            doc: word(class, "doc")?,
            methods,
        })
    }

    fn module(&self) -> String {
        let mut out = HEAD.to_owned();
        let _ = writeln!(
            out,
            "//!\n//! Class {}, `{}`: {}.\n",
            self.id, self.name, self.doc
        );
        let fields = || self.methods.iter().flat_map(|m| &m.fields);
        let mut names = vec!["MethodId"];
        if fields().next().is_some() || self.methods.iter().any(|m| m.fields.is_empty()) {
            names.extend(["Arguments", "Malformed"]);
        }
        if fields().any(|f| f.wire == Wire::Table) {
            names.push("Table");
        }
        let mut putters: Vec<String> = fields()
            .filter(|f| f.wire != Wire::Bit)
            .map(|f| format!("put_{}", f.wire.verb()))
            .collect();
        putters.push("put_id".to_owned());
        names.extend(putters.iter().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        if fields().any(|f| f.secret) {
            out += "use std::fmt;\n\n";
        }
        let _ = writeln!(out, "use crate::codec::{{{}}};\n", names.join(", "));
        for method in &self.methods {
            out += &method.code();
        }
        out
    }
}

impl Method {
    fn read(method: &Table, class: &str, class_id: i64, domains: &Table) -> Result<Self, String> {
        let name = word(method, "name")?;
        let list = |key: &str| -> Vec<String> {
            let values = method
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            values
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let fields = list("fields")
            .iter()
            .map(|field| Field::read(field, domains))
            .collect::<Result<_, _>>();
        Ok(Self {
            class: class.to_owned(),
            id: int(method, "id")?,
            class_id,
            from: word(method, "from")?,
            reply: list("reply"),
            content: method
                .get("content")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            extension: method.contains_key("ours"),
            doc: word(method, "doc")?,
            fields: fields.map_err(|why| format!("{class}.{name}: {why}"))?,
            name,
        })
    }

    fn borrows(&self) -> bool {
        self.visible().any(|field| field.wire.borrows())
    }

    fn visible(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.is_reserved())
    }

    fn variant(&self) -> String {
        camel(&self.class) + &camel(&self.name)
    }

    /// The type as the enum names it.
    fn path(&self) -> String {
        self.function_path() + if self.borrows() { "<'b>" } else { "" }
    }

    fn function_path(&self) -> String {
        format!("{}::{}", self.class, camel(&self.name))
    }

    fn about(&self) -> String {
        let from = match self.from.as_str() {
            "both" => "either side".to_owned(),
            side => format!("the {side}"),
        };
        let mut about = format!(
            "/// `{}.{}`: {}.\n///\n/// Sent by {from}",
            self.class, self.name, self.doc
        );
        if self.content {
            about += ", with content";
        }
        if !self.reply.is_empty() {
            let replies: Vec<String> = self
                .reply
                .iter()
                .map(|reply| format!("`{}.{reply}`", self.class))
                .collect();
            let _ = write!(about, "; answered by {}", replies.join(" or "));
        }
        about += if self.extension {
            ". An extension of RabbitMQ.\n"
        } else {
            ".\n"
        };
        about
    }

    fn code(&self) -> String {
        let name = camel(&self.name);
        let life = if self.borrows() { "<'b>" } else { "" };
        let mut out = self.about();
        let secret = self.fields.iter().any(|field| field.secret);
        let debug = if secret { "" } else { "Debug, " };
        let _ = write!(
            out,
            "#[derive(Clone, Copy, {debug}Default, PartialEq, Eq)]\npub struct {name}{life}"
        );
        if self.visible().next().is_none() {
            out += ";\n\n";
        } else {
            out += " {\n";
            for field in self.visible() {
                let _ = writeln!(
                    out,
                    "/// {}.\npub {}: {},",
                    sentence(&field.doc),
                    field.rust(),
                    field.wire.rust()
                );
            }
            out += "}\n\n";
        }
        let anonymous = if self.borrows() { "<'b>" } else { "" };
        let _ = write!(
            out,
            "impl{life} {name}{life} {{\n/// Class and method id.\n"
        );
        let _ = writeln!(
            out,
            "pub const ID: MethodId = MethodId::new({}, {});\n",
            self.class_id, self.id
        );
        out += &self.decoder(anonymous);
        out += &self.encoder();
        out += "}\n\n";
        if secret {
            out += &self.discreet_debug();
        }
        out
    }

    /// Says how long a secret is, and no more.
    fn discreet_debug(&self) -> String {
        let name = camel(&self.name);
        let mut out = format!(
            "impl fmt::Debug for {name}<'_> {{\nfn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{\n"
        );
        let _ = write!(out, "f.debug_struct(\"{name}\")");
        for field in self.visible() {
            let field_name = field.rust();
            let _ = match field.secret {
                true => {
                    write!(
                        out,
                        ".field(\"{field_name}\", &format_args!(\"[{{}} bytes]\", self.{field_name}.len()))"
                    )
                }
                false => write!(out, ".field(\"{field_name}\", &self.{field_name})"),
            };
        }
        out += ".finish()\n}\n}\n\n";
        out
    }

    /// Fields with neighbouring bits together, as the wire has them.
    fn packed(&self) -> Vec<Vec<&Field>> {
        let mut groups: Vec<Vec<&Field>> = Vec::new();
        for field in &self.fields {
            match groups.last_mut() {
                Some(group)
                    if field.wire == Wire::Bit && group[0].wire == Wire::Bit && group.len() < 8 =>
                {
                    group.push(field);
                }
                _ => groups.push(vec![field]),
            }
        }
        groups
    }

    fn decoder(&self, life: &str) -> String {
        let argument = if self.fields.is_empty() { "_" } else { "a" };
        let inner = if life.is_empty() { "'_" } else { "'b" };
        let mut out = format!(
            "#[inline]\npub(crate) fn decode({argument}: &mut Arguments<{inner}>) -> Result<Self, Malformed> {{\n"
        );
        for group in self.packed() {
            let field = group[0];
            match field.wire {
                Wire::Bit if group.iter().all(|f| f.is_reserved()) => out += "a.bits()?;\n",
                Wire::Bit => {
                    out += "let bits = a.bits()?;\n";
                    for (at, field) in group.iter().enumerate().filter(|(_, f)| !f.is_reserved()) {
                        let _ = writeln!(out, "let {} = bits & {} != 0;", field.rust(), 1 << at);
                    }
                }
                wire if field.is_reserved() => {
                    let _ = writeln!(out, "a.{}()?;", wire.verb());
                }
                wire => {
                    let _ = writeln!(out, "let {} = a.{}()?;", field.rust(), wire.verb());
                }
            }
        }
        let names: Vec<&str> = self.visible().map(Field::rust).collect();
        let name = camel(&self.name);
        match names.is_empty() {
            true => {
                let _ = writeln!(out, "Ok({name})\n}}\n");
            }
            false => {
                let _ = writeln!(out, "Ok({name} {{ {} }})\n}}\n", names.join(", "));
            }
        }
        out
    }

    fn encoder(&self) -> String {
        let mut out =
            "#[inline]\npub(crate) fn encode(&self, out: &mut Vec<u8>) {\nput_id(Self::ID, out);\n"
                .to_owned();
        for group in self.packed() {
            let field = group[0];
            if field.wire == Wire::Bit {
                let bits: Vec<String> = group
                    .iter()
                    .enumerate()
                    .filter(|(_, f)| !f.is_reserved())
                    .map(|(at, f)| match at {
                        0 => format!("u8::from(self.{})", f.rust()),
                        _ => format!("u8::from(self.{}) << {at}", f.rust()),
                    })
                    .collect();
                let _ = writeln!(
                    out,
                    "out.push({});",
                    if bits.is_empty() {
                        "0".to_owned()
                    } else {
                        bits.join(" | ")
                    }
                );
            } else {
                let value = if field.is_reserved() {
                    field.wire.nothing().to_owned()
                } else {
                    format!("self.{}", field.rust())
                };
                let _ = writeln!(out, "put_{}({value}, out);", field.wire.verb());
            }
        }
        out += "}\n";
        out
    }
}

impl Field {
    /// `NAME TYPE: meaning`, `NAME TYPE secret: meaning`.
    fn read(text: &str, domains: &Table) -> Result<Self, String> {
        let (head, doc) = text.split_once(": ").unwrap_or((text, ""));
        let (head, secret) = head
            .strip_suffix(" secret")
            .map_or((head, false), |head| (head, true));
        let (name, kind) = head
            .split_once(' ')
            .ok_or_else(|| format!("`{text}` is not NAME TYPE: meaning"))?;
        let wire = domains.get(kind).and_then(Value::as_str).unwrap_or(kind);
        let wire = Wire::of(wire).ok_or_else(|| format!("`{kind}` is no type and no domain"))?;
        let name = if name == "type" {
            "kind".to_owned()
        } else {
            name.replace('-', "_")
        };
        let field = Self {
            name,
            wire,
            secret,
            doc: doc.to_owned(),
        };
        if field.doc.is_empty() && !field.is_reserved() {
            return Err(format!("`{text}` says nothing"));
        }
        Ok(field)
    }

    fn is_reserved(&self) -> bool {
        self.name.starts_with("reserved")
    }

    fn rust(&self) -> &str {
        &self.name
    }
}

fn tables<'t>(table: &'t Table, key: &str) -> impl Iterator<Item = &'t Table> {
    table
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_table)
}

fn word(table: &Table, key: &str) -> Result<String, String> {
    table
        .get(key)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| format!("no `{key}` in {table:?}"))
}

fn int(table: &Table, key: &str) -> Result<i64, String> {
    table
        .get(key)
        .and_then(Value::as_integer)
        .ok_or_else(|| format!("no `{key}` in {table:?}"))
}

fn camel(name: &str) -> String {
    name.split('-').map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|first| first.to_ascii_uppercase())
        .into_iter()
        .chain(iter::from_fn(|| chars.next()))
        .collect()
}

fn sentence(doc: &str) -> String {
    capital(doc)
}

/// The text as rustfmt lays it out.
fn rustfmt(text: &str) -> Result<String, String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start rustfmt: {error}"))?;
    let mut stdin = child.stdin.take().ok_or("rustfmt has no input")?;
    stdin
        .write_all(text.as_bytes())
        .map_err(|error| format!("rustfmt: {error}"))?;
    drop(stdin);
    let output = child
        .wait_with_output()
        .map_err(|error| format!("rustfmt: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "rustfmt: {}\n{text}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("rustfmt: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_methods_of_amqp_are_what_their_description_says() {
        let outcome = run(true);
        assert_eq!(outcome.failed, 0, "run `cargo xtask amqp-methods`");
        assert!(outcome.passed > 8);
    }

    #[test]
    fn neighbouring_bits_share_an_octet() {
        let spec = "[[class]]\nname = \"c\"\nid = 1\ndoc = \"d\"\n[[class.method]]\nname = \"m\"\nid = 2\nfrom = \"client\"\n\
            doc = \"d\"\nfields = [\"a bit: x\", \"reserved-1 bit\", \"b bit: x\", \"c short: x\", \"d bit: x\"]";
        let spec = Spec::read(spec).expect("it is valid");
        let groups: Vec<usize> = spec.classes[0].methods[0]
            .packed()
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(groups, [3, 1, 1]);
        assert!(spec.classes[0].module().contains("let b = bits & 4 != 0;"));
    }

    #[test]
    fn a_description_that_makes_no_sense_is_refused() {
        let with = |fields: &str, reply: &str| {
            let text = format!(
                "[[class]]\nname = \"c\"\nid = 1\ndoc = \"d\"\n[[class.method]]\nname = \"m\"\nid = 2\nfrom = \"client\"\n\
                 doc = \"d\"\nfields = [{fields}]\nreply = [{reply}]"
            );
            Spec::read(&text).err()
        };
        assert_eq!(with("", ""), None);
        assert!(with("\"a nothing: x\"", "").is_some_and(|why| why.contains("no type")));
        assert!(with("\"a bit\"", "").is_some_and(|why| why.contains("says nothing")));
        assert!(with("", "\"n\"").is_some_and(|why| why.contains("no method n")));
    }
}
