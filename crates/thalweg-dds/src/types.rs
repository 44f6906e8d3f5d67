//! Types whose values are known: those of ROS 2 that most use, and those of `.msg` files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The type of a field. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Unsigned(usize),
    Signed(usize),
    Float(usize),
    Text,
    Array(Box<Kind>, usize),
    Sequence(Box<Kind>),
    /// By its name: `package/msg/Name`.
    Struct(String),
}

/// A structure: its fields in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    pub name: String,
    pub fields: Vec<(String, Kind)>,
}

/// All types that are known, by name: `package/msg/Name`.
#[derive(Clone, Debug, Default)]
pub struct Types(BTreeMap<String, Arc<Struct>>);

/// What ROS 2 has in its packages, as the text of its files says it.
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
];

impl Types {
    /// Those of ROS 2 that are built in.
    pub fn of_ros() -> Types {
        let mut types = Types::default();
        for (name, text) in ROS {
            // A test adds them all.
            let _ = types.add(name, text);
        }
        types
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Struct>> {
        self.0.get(name)
    }

    /// The type of a topic by what its peers call it: `std_msgs::msg::dds_::String_`, or `std_msgs/msg/String`.
    pub fn find(&self, type_name: &str) -> Option<&Arc<Struct>> {
        self.get(&plain_name(type_name))
    }

    /// Adds the type that the text of a `.msg` file describes. What is wrong in which line, if it cannot be used.
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
            // A constant takes no place in a value. What follows the name of a field is its default.
            let is_constant =
                field.contains('=') || words.next().is_some_and(|it| it.starts_with('='));
            if is_constant {
                continue;
            }
            let kind = kind_of(kind, package)
                .ok_or_else(|| format!("line {number} of {name} has a type that is not known"))?;
            fields.push((field.to_owned(), kind));
        }
        let name = name.to_owned();
        self.0
            .insert(name.clone(), Arc::new(Struct { name, fields }));
        Ok(())
    }

    /// Adds the types of a folder of packages, `<package>/msg/<Name>.msg`. What cannot be used, and why.
    pub fn add_folder(&mut self, folder: &Path) -> Result<(), String> {
        let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
            let entries =
                fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
            let mut paths: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
            paths.sort();
            Ok(paths)
        };
        let word = |path: &Path| path.file_stem().map(|it| it.to_string_lossy().into_owned());
        for package in list(folder)? {
            let messages = package.join("msg");
            if !messages.is_dir() {
                continue;
            }
            for file in list(&messages)? {
                let names = (word(&package), word(&file));
                let (true, (Some(package), Some(name))) =
                    (file.extension().is_some_and(|it| it == "msg"), names)
                else {
                    continue;
                };
                let text = fs::read_to_string(&file)
                    .map_err(|why| format!("{}: {why}", file.display()))?;
                self.add(&format!("{package}/msg/{name}"), &text)?;
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
        for (_, kind) in self.0.values().flat_map(|it| &it.fields) {
            let mut kind = kind;
            while let Kind::Array(of, _) | Kind::Sequence(of) = kind {
                kind = of;
            }
            if let Kind::Struct(name) = kind
                && !self.0.contains_key(name)
                && !missing.contains(name)
            {
                missing.push(name.clone());
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

fn kind_of(word: &str, package: &str) -> Option<Kind> {
    if let Some((of, count)) = word.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        let of = Box::new(kind_of(of, package)?);
        return match count.parse() {
            Ok(count) => Some(Kind::Array(of, count)),
            Err(_) if count.is_empty() || count.starts_with("<=") => Some(Kind::Sequence(of)),
            Err(_) => None,
        };
    }
    // A bound does not change how it is written.
    let word = word.split("<=").next()?;
    Some(match word {
        "bool" => Kind::Bool,
        "byte" | "char" | "uint8" => Kind::Unsigned(1),
        "int8" => Kind::Signed(1),
        "uint16" => Kind::Unsigned(2),
        "int16" => Kind::Signed(2),
        "uint32" => Kind::Unsigned(4),
        "int32" => Kind::Signed(4),
        "uint64" => Kind::Unsigned(8),
        "int64" => Kind::Signed(8),
        "float32" => Kind::Float(4),
        "float64" => Kind::Float(8),
        "string" => Kind::Text,
        "wstring" => return None,
        name => match name.split('/').collect::<Vec<_>>()[..] {
            [name] if !name.is_empty() => Kind::Struct(format!("{package}/msg/{name}")),
            [package, name] => Kind::Struct(format!("{package}/msg/{name}")),
            [package, "msg", name] => Kind::Struct(format!("{package}/msg/{name}")),
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
        assert_eq!(types.0.len(), ROS.len());
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
    fn msg_files_are_read() {
        let mut types = Types::of_ros();
        let text = "# a comment\nuint8 IDLE=0\nint16 BUSY = 1\nstd_msgs/Header header # when\nfloat32[3] at\n\
                    string<=10[] words\nint32[<=5] few\nPart part\nuint8 mode 3\n";
        types.add("plant/msg/State", text).expect("good");
        let state = types.get("plant/msg/State").expect("there");
        let names: Vec<&str> = state.fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["header", "at", "words", "few", "part", "mode"]);
        assert_eq!(state.fields[1].1, Kind::Array(Box::new(Kind::Float(4)), 3));
        assert_eq!(state.fields[2].1, Kind::Sequence(Box::new(Kind::Text)));
        assert_eq!(types.missing(), ["plant/msg/Part"]);
        for wrong in ["uint8", "wstring a", "a/b/c/d e", "uint8[x] a"] {
            assert!(types.add("plant/msg/Wrong", wrong).is_err(), "{wrong}");
        }
    }
}
