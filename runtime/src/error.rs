//! One error type: data first, the sentence second.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value, json};

/// What kind of failure it is; the numbers are those of `dala.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    InvalidFile = 1,
    InvalidProgram = 2,
    InvalidArgument = 3,
    RuntimeError = 4,
    Unsupported = 5,
    OutOfMemory = 6,
    Panic = 7,
    IoError = 8,
    Interrupted = 9,
}

impl Status {
    /// The name as it stands in the JSON form of an error.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::InvalidFile => "invalid-file",
            Status::InvalidProgram => "invalid-program",
            Status::InvalidArgument => "invalid-argument",
            Status::RuntimeError => "runtime-error",
            Status::Unsupported => "unsupported",
            Status::OutOfMemory => "out-of-memory",
            Status::Panic => "panic",
            Status::IoError => "io-error",
            Status::Interrupted => "interrupted",
        }
    }
}

/// A place in the user's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub function: String,
    /// The path of the layer, such as `dense_1`; may be empty.
    pub layer: String,
}

/// The content of an [`Error`].
#[derive(Clone, Debug)]
pub struct Fault {
    pub status: Status,
    /// A stable word such as `index-out-of-range`.
    pub code: String,
    pub message: String,
    pub op: Option<String>,
    /// Index of the node in its function.
    pub node: Option<usize>,
    pub location: Option<Location>,
    pub details: Map<String, Value>,
}

/// An error; boxed, so that a `Result` stays small.
#[derive(Clone, Debug)]
pub struct Error(Box<Fault>);

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Deref for Error {
    type Target = Fault;
    fn deref(&self) -> &Fault {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Fault {
        &mut self.0
    }
}

impl Error {
    /// An error of `status` whose code is the status' own name.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Error(Box::new(Fault {
            status,
            code: status.name().to_string(),
            message: message.into(),
            op: None,
            node: None,
            location: None,
            details: Map::new(),
        }))
    }

    /// An op that is not in the table.
    pub fn unknown_op(name: &str) -> Self {
        Error::invalid_program(format!("there is no op named {:?}", clip(name)))
            .with_code("unknown-op")
    }

    /// The graph does not verify.
    pub fn invalid_program(message: impl Into<String>) -> Self {
        Error::new(Status::InvalidProgram, message)
    }

    /// The container is damaged.
    pub fn invalid_file(message: impl Into<String>) -> Self {
        Error::new(Status::InvalidFile, message)
    }

    /// The caller passed something wrong.
    pub fn argument(message: impl Into<String>) -> Self {
        Error::new(Status::InvalidArgument, message)
    }

    /// An operation failed while running.
    pub fn runtime(message: impl Into<String>) -> Self {
        Error::new(Status::RuntimeError, message)
    }

    /// The engine cannot do this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(Status::Unsupported, message)
    }

    /// The run would pass the memory limit.
    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Error::new(Status::OutOfMemory, message)
    }

    /// A file could not be read.
    pub fn io(message: impl Into<String>) -> Self {
        Error::new(Status::IoError, message)
    }

    /// Replaces the code.
    pub fn with_code(mut self, code: &str) -> Self {
        self.code = code.to_string();
        self
    }

    /// Adds an entry to the details.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_string(), value.into());
        self
    }

    /// Names the op, unless one is named already.
    pub fn at_op(mut self, op: &str) -> Self {
        self.op.get_or_insert_with(|| op.to_string());
        self
    }

    /// Names the node and where it was written.
    pub fn at_node(mut self, node: usize, location: Option<Location>) -> Self {
        self.node = Some(node);
        self.location = location;
        self
    }

    /// Gives another status (and its code, where the code was the status' name).
    pub fn with_status(mut self, status: Status) -> Self {
        if self.code == self.status.name() {
            self.code = status.name().to_string();
        }
        self.status = status;
        self
    }

    /// Puts `path` before the message.
    pub fn inside(mut self, path: impl fmt::Display) -> Self {
        self.message = format!("{path}: {}", self.message);
        self
    }

    /// The JSON form of `dala_error_json`.
    pub fn to_json(&self) -> Value {
        json!({
            "status": self.status.name(),
            "code": self.code,
            "message": self.message,
            "op": self.op,
            "node": self.node,
            "location": self.location.as_ref().map(|at| json!({
                "file": at.file, "line": at.line, "column": at.column,
                "function": at.function, "layer": at.layer,
            })),
            "details": self.details,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.location {
            write!(f, "{}:{}:{}: ", at.file, at.line, at.column)?;
        }
        if let Some(op) = &self.op {
            write!(f, "{op}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// At most 80 characters of a string that came from outside.
pub fn clip(text: &str) -> String {
    let mut out: String = text.chars().take(80).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
