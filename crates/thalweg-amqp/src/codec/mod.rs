//! Encoding of AMQP 0-9-1: frames, fields, tables, content headers. The methods are in [`crate::methods`].

mod arguments;
pub(crate) mod frame;
mod header;
mod method_id;
mod properties;
mod table;
mod table_writer;

pub(crate) use arguments::{
    Arguments, fitting, put_id, put_long, put_long_long, put_long_str, put_octet, put_short,
    put_short_str, put_table,
};
pub use arguments::{DecodeError, Malformed};
pub use header::{ContentHeader, TooLarge};
pub(crate) use header::{HeaderStart, put_content};
pub use method_id::MethodId;
pub(crate) use method_id::Sender;
pub use properties::BasicProperties;
pub use table::{Array, FieldValue, Table};
pub use table_writer::{ArrayWriter, TableWriter};
