//! Types whose values are known: those of ROS 2 that most use, and those of `.msg`, `.srv` and
//! `.idl` files.

use crate::announced::TypeId;
use crate::cdr;
use crate::idl;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The type of a field. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    Bool,
    Unsigned(usize),
    Signed(usize),
    Float(usize),
    Text,
    /// Four bytes, with a name for each number.
    Enum(Arc<[(String, u32)]>),
    Array(Box<FieldType>, usize),
    Sequence(Box<FieldType>),
    /// By its name: `package/msg/Name`.
    Struct(String),
    Union(Arc<Union>),
}

/// Bytes of the largest payload that is made JSON of, or CDR of JSON: as JSON it is several times as large.
pub const JSON_MAX: usize = 1 << 20;
/// Elements of the largest array.
pub const ARRAY_MAX: usize = 1 << 20;

/// Extensibility of a structure or union (DDS-XTypes 1.3 §7.2.2.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Final,
    /// In XCDR2 its length precedes it.
    Appendable,
    /// Each member has a header with its id; only of structures.
    Mutable,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: FieldType,
    /// In the headers of optional and of mutable members.
    pub id: u32,
    pub is_optional: bool,
}

impl Field {
    /// One that each value has, whose id is its place.
    pub fn required(place: usize, name: &str, kind: FieldType) -> Field {
        Field {
            name: name.to_owned(),
            kind,
            id: place as u32,
            is_optional: false,
        }
    }
}

/// A structure: its fields in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    pub name: String,
    pub fields: Vec<Field>,
    /// The fields that are its key, by their places.
    pub keys: Vec<usize>,
    /// Nothing if its text does not say it: then it is as the payload's encoding says of the outermost one.
    pub form: Option<Form>,
}

/// A union: the value of its discriminator says which case it has, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// A truth value, a number without fraction or an enumeration.
    pub discriminator: FieldType,
    pub cases: Vec<Case>,
    /// As of a structure, and never mutable.
    pub form: Option<Form>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub kind: FieldType,
    pub labels: Vec<i64>,
    /// Whether it is that of all values without a label.
    pub is_default: bool,
}

impl Union {
    /// The case of a value of the discriminator.
    pub fn case_of(&self, label: i64) -> Option<&Case> {
        let labelled = self.cases.iter().find(|it| it.labels.contains(&label));
        labelled.or_else(|| self.cases.iter().find(|it| it.is_default))
    }

    /// A value of the discriminator that has this case.
    pub fn label_of(&self, case: &Case) -> Option<i64> {
        let is_free = |label: &i64| self.cases.iter().all(|it| !it.labels.contains(label));
        let first = case.labels.first().copied();
        first.or_else(|| match &self.discriminator {
            FieldType::Bool => (0..=1).find(is_free),
            FieldType::Enum(names) => names.iter().map(|(_, it)| i64::from(*it)).find(is_free),
            _ => (0..).find(is_free),
        })
    }
}

/// A type, and those that it names.
#[derive(Clone, Debug)]
pub struct Known {
    pub of: Arc<Struct>,
    pub types: Arc<Types>,
    /// Of a type that a peer has announced; nothing if a file describes it.
    pub id: Option<TypeId>,
}

impl Known {
    /// Whether an endpoint's samples are of it that announces this: a file's type is every one of its name.
    pub fn is_of(&self, announced: Option<TypeId>) -> bool {
        self.id.is_none() || announced.is_none() || self.id == announced
    }

    /// A payload as JSON; nothing, and it stays as it is, if it is too long or not of the type.
    pub fn text_of(&self, payload: &[u8], bytes_max: usize) -> Option<String> {
        if payload.len() > JSON_MAX {
            return None;
        }
        let value = cdr::to_json(payload, &self.of, &self.types).ok()?;
        let text = value.to_string();
        (text.len() <= bytes_max).then_some(text)
    }
}

/// All types that are known, by name: `package/msg/Name`.
#[derive(Clone, Debug, Default)]
pub struct Types(BTreeMap<String, Arc<Struct>>);

/// Definitions of ROS 2's packages, in the text of their files.
const ROS: &[(&str, &str)] = &[
    ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec"),
    (
        "builtin_interfaces/msg/Duration",
        "int32 sec\nuint32 nanosec",
    ),
    ("std_msgs/msg/Bool", "bool data"),
    ("std_msgs/msg/Int32", "int32 data"),
    ("std_msgs/msg/Int64", "int64 data"),
    ("std_msgs/msg/UInt32", "uint32 data"),
    ("std_msgs/msg/Float32", "float32 data"),
    ("std_msgs/msg/Float64", "float64 data"),
    ("std_msgs/msg/String", "string data"),
    (
        "std_msgs/msg/Header",
        "builtin_interfaces/Time stamp\nstring frame_id",
    ),
    (
        "geometry_msgs/msg/Vector3",
        "float64 x\nfloat64 y\nfloat64 z",
    ),
    ("geometry_msgs/msg/Point", "float64 x\nfloat64 y\nfloat64 z"),
    (
        "geometry_msgs/msg/Quaternion",
        "float64 x\nfloat64 y\nfloat64 z\nfloat64 w",
    ),
    (
        "geometry_msgs/msg/Pose",
        "Point position\nQuaternion orientation",
    ),
    (
        "geometry_msgs/msg/PoseStamped",
        "std_msgs/Header header\nPose pose",
    ),
    ("geometry_msgs/msg/Twist", "Vector3 linear\nVector3 angular"),
    (
        "geometry_msgs/msg/TwistStamped",
        "std_msgs/Header header\nTwist twist",
    ),
    (
        "sensor_msgs/msg/Temperature",
        "std_msgs/Header header\nfloat64 temperature\nfloat64 variance",
    ),
    (
        "sensor_msgs/msg/Image",
        "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n\
     uint8 is_bigendian\nuint32 step\nuint8[] data",
    ),
    (
        "rcl_interfaces/msg/ParameterValue",
        "uint8 type\nbool bool_value\nint64 integer_value\nfloat64 double_value\nstring string_value\n\
     byte[] byte_array_value\nbool[] bool_array_value\nint64[] integer_array_value\n\
     float64[] double_array_value\nstring[] string_array_value",
    ),
    (
        "rcl_interfaces/msg/Parameter",
        "string name\nParameterValue value",
    ),
    (
        "rcl_interfaces/msg/SetParametersResult",
        "bool successful\nstring reason",
    ),
    (
        "rcl_interfaces/msg/ListParametersResult",
        "string[] names\nstring[] prefixes",
    ),
];

/// Services: a request and an answer each.
const ROS_SERVICES: &[(&str, &str)] = &[
    ("std_srvs/srv/Empty", "---"),
    (
        "std_srvs/srv/SetBool",
        "bool data\n---\nbool success\nstring message",
    ),
    ("std_srvs/srv/Trigger", "---\nbool success\nstring message"),
    (
        "example_interfaces/srv/AddTwoInts",
        "int64 a\nint64 b\n---\nint64 sum",
    ),
    (
        "rcl_interfaces/srv/GetParameters",
        "string[] names\n---\nParameterValue[] values",
    ),
    (
        "rcl_interfaces/srv/SetParameters",
        "Parameter[] parameters\n---\nSetParametersResult[] results",
    ),
    (
        "rcl_interfaces/srv/ListParameters",
        "string[] prefixes\nuint64 depth\n---\nListParametersResult result",
    ),
];

/// The field, a byte, of structures that have none: IDL has no such structures.
pub const PLACEHOLDER: &str = "structure_needs_at_least_one_member";

impl Types {
    /// Those of ROS 2 that are built in.
    pub fn of_ros() -> Types {
        let mut types = Types::default();
        for (name, text) in ROS {
            // A test adds them all.
            let _ = types.add(name, text);
        }
        for (name, text) in ROS_SERVICES {
            let _ = types.add_service(name, text);
        }
        types
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Struct>> {
        self.0.get(name)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Struct>> {
        self.0.values()
    }

    /// Returns the type of a topic by its DDS or ROS name: `std_msgs::msg::dds_::String_`, or `std_msgs/msg/String`.
    pub fn find(&self, type_name: &str) -> Option<&Arc<Struct>> {
        self.get(&plain_name(type_name))
    }

    /// The same, with the types that it names.
    pub fn known(self: &Arc<Self>, type_name: &str) -> Option<Known> {
        Some(Known {
            of: self.find(type_name)?.clone(),
            types: self.clone(),
            id: None,
        })
    }

    /// Adds the type of a `.msg` file's text. Returns the error and its line, if it cannot be used.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        let package = name.split('/').next().unwrap_or_default();
        let mut fields = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let (Some(kind), Some(field)) = (words.next(), words.next()) else {
                if line.trim().is_empty() {
                    continue;
                }
                return Err(format!("line {number} of {name} is not a type and a name"));
            };
            // A constant takes no place in a value. Text after the name of a field is its default.
            let is_constant =
                field.contains('=') || words.next().is_some_and(|it| it.starts_with('='));
            if is_constant {
                continue;
            }
            let kind = kind_of(kind, package)
                .ok_or_else(|| format!("line {number} of {name} has a type that is not known"))?;
            fields.push(Field::required(fields.len(), field, kind));
        }
        if fields.is_empty() {
            fields.push(Field::required(0, PLACEHOLDER, FieldType::Unsigned(1)));
        }
        self.insert(Struct {
            name: name.to_owned(),
            fields,
            keys: Vec::new(),
            form: Some(Form::Final),
        });
        Ok(())
    }

    /// Adds a type, in place of one of that name.
    pub fn insert(&mut self, of: Struct) {
        self.0.insert(of.name.clone(), Arc::new(of));
    }

    /// Adds the types of a service, as the text of a `.srv` file describes them: `Name_Request` and `Name_Response`.
    pub fn add_service(&mut self, name: &str, text: &str) -> Result<(), String> {
        let is_line = |line: &str| line.trim_end() == "---";
        let request: Vec<&str> = text.lines().take_while(|line| !is_line(line)).collect();
        let mut answer = text.lines().skip(request.len());
        if answer.next().is_none() {
            return Err(format!("{name} has no line --- before its answer"));
        }
        let answer: Vec<&str> = answer.collect();
        self.add(&format!("{name}_Request"), &request.join("\n"))?;
        self.add(&format!("{name}_Response"), &answer.join("\n"))
    }

    /// Adds the types of a folder of packages, `<package>/msg/<Name>.msg` and `<package>/srv/<Name>.srv`, and of its
    /// files `<name>.idl`. Returns the unusable ones with the reasons.
    pub fn add_folder(&mut self, folder: &Path) -> Result<(), String> {
        let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
            let entries =
                fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
            let mut paths: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
            paths.sort();
            Ok(paths)
        };
        let word = |path: &Path| path.file_stem().map(|it| it.to_string_lossy().into_owned());
        let mut names = idl::Names::default();
        for package in list(folder)? {
            if package.extension().is_some_and(|it| it == "idl") {
                let text = fs::read_to_string(&package)
                    .map_err(|why| format!("{}: {why}", package.display()))?;
                idl::add(&text, &mut names, self).map_err(|it| {
                    format!("line {} of {}: {}", it.line, package.display(), it.what)
                })?;
                continue;
            }
            for kind in ["msg", "srv"] {
                let files = package.join(kind);
                if !files.is_dir() {
                    continue;
                }
                for file in list(&files)? {
                    let names = (word(&package), word(&file));
                    let (true, (Some(package), Some(name))) =
                        (file.extension().is_some_and(|it| it == kind), names)
                    else {
                        continue;
                    };
                    let text = fs::read_to_string(&file)
                        .map_err(|why| format!("{}: {why}", file.display()))?;
                    let name = format!("{package}/{kind}/{name}");
                    match kind {
                        "msg" => self.add(&name, &text)?,
                        _ => self.add_service(&name, &text)?,
                    }
                }
            }
        }
        match &self.missing()[..] {
            [] => Ok(()),
            missing => Err(format!("these types are missing: {}", missing.join(", "))),
        }
    }

    /// Types that fields name and that are not known.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let fields = self.0.values().flat_map(|it| &it.fields);
        let mut kinds: Vec<&FieldType> = fields.map(|it| &it.kind).collect();
        while let Some(kind) = kinds.pop() {
            match kind {
                FieldType::Array(of, _) | FieldType::Sequence(of) => kinds.push(of),
                FieldType::Union(of) => kinds.extend(of.cases.iter().map(|it| &it.kind)),
                FieldType::Struct(name)
                    if !self.0.contains_key(name) && !missing.contains(name) =>
                {
                    missing.push(name.clone());
                }
                _ => {}
            }
        }
        missing
    }
}

/// `package::msg::dds_::Name_` of ROS 2 is `package/msg/Name`.
pub fn plain_name(type_name: &str) -> String {
    let Some((package, name)) = type_name.rsplit_once("::dds_::") else {
        return type_name.replace("::", "/");
    };
    let name = name.strip_suffix('_').unwrap_or(name);
    format!("{}/{name}", package.replace("::", "/"))
}

fn kind_of(word: &str, package: &str) -> Option<FieldType> {
    if let Some((of, count)) = word.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        let of = Box::new(kind_of(of, package)?);
        return match count.parse() {
            Ok(count) if count <= ARRAY_MAX => Some(FieldType::Array(of, count)),
            Ok(_) => None,
            Err(_) if count.is_empty() || count.starts_with("<=") => Some(FieldType::Sequence(of)),
            Err(_) => None,
        };
    }
    // A bound does not change how it is written.
    let word = word.split("<=").next()?;
    Some(match word {
        "bool" => FieldType::Bool,
        "byte" | "char" | "uint8" => FieldType::Unsigned(1),
        "int8" => FieldType::Signed(1),
        "uint16" => FieldType::Unsigned(2),
        "int16" => FieldType::Signed(2),
        "uint32" => FieldType::Unsigned(4),
        "int32" => FieldType::Signed(4),
        "uint64" => FieldType::Unsigned(8),
        "int64" => FieldType::Signed(8),
        "float32" => FieldType::Float(4),
        "float64" => FieldType::Float(8),
        "string" => FieldType::Text,
        "wstring" => return None,
        name => match name.split('/').collect::<Vec<_>>()[..] {
            [name] if !name.is_empty() => FieldType::Struct(format!("{package}/msg/{name}")),
            [package, name] => FieldType::Struct(format!("{package}/msg/{name}")),
            [package, "msg", name] => FieldType::Struct(format!("{package}/msg/{name}")),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_built_in_is_complete() {
        let types = Types::of_ros();
        assert_eq!(types.0.len(), ROS.len() + 2 * ROS_SERVICES.len());
        assert_eq!(types.missing(), Vec::<String>::new());
    }

    #[test]
    fn names_of_ros_are_unmangled() {
        assert_eq!(
            plain_name("std_msgs::msg::dds_::String_"),
            "std_msgs/msg/String"
        );
        assert_eq!(plain_name("std_msgs::msg::String"), "std_msgs/msg/String");
        assert_eq!(plain_name("Square"), "Square");
        assert!(
            Types::of_ros()
                .find("geometry_msgs::msg::dds_::Twist_")
                .is_some()
        );
    }

    #[test]
    fn srv_files_are_two_types() {
        let mut types = Types::of_ros();
        let text = "# what for\nstring<=9 name\n---\nbool is_done";
        types.add_service("plant/srv/Do", text).expect("good");
        let fields = |name: &str| types.get(name).expect("there").fields.clone();
        assert_eq!(
            fields("plant/srv/Do_Request"),
            [Field::required(0, "name", FieldType::Text)]
        );
        let answer = types.find("plant::srv::dds_::Do_Response_");
        assert_eq!(answer.expect("there").fields[0].kind, FieldType::Bool);
        let placeholder = [Field::required(0, PLACEHOLDER, FieldType::Unsigned(1))];
        assert_eq!(fields("std_srvs/srv/Trigger_Request"), placeholder);
        assert!(types.add_service("plant/srv/Wrong", "bool a").is_err());
    }

    #[test]
    fn msg_files_are_read() {
        let mut types = Types::of_ros();
        let text = "# a comment\nuint8 IDLE=0\nint16 BUSY = 1\nstd_msgs/Header header # when\nfloat32[3] at\n\
                    string<=10[] words\nint32[<=5] few\nPart part\nuint8 mode 3\n";
        types.add("plant/msg/State", text).expect("good");
        let state = types.get("plant/msg/State").expect("there");
        let names: Vec<&str> = state.fields.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["header", "at", "words", "few", "part", "mode"]);
        assert_eq!(
            state.fields[1].kind,
            FieldType::Array(Box::new(FieldType::Float(4)), 3)
        );
        assert_eq!(
            state.fields[2].kind,
            FieldType::Sequence(Box::new(FieldType::Text))
        );
        assert_eq!(types.missing(), ["plant/msg/Part"]);
        for wrong in [
            "uint8",
            "wstring a",
            "a/b/c/d e",
            "uint8[x] a",
            "uint8[2000000] a",
        ] {
            assert!(types.add("plant/msg/Wrong", wrong).is_err(), "{wrong}");
        }
    }
}
