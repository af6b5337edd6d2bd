//! The program as data, and its strict reading from JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::attrs::{self, Attrs};
use crate::dim::{Dim, is_name};
use crate::error::{Error, Location, Result, clip};
use crate::op::Op;
use crate::symbolic::{Bounds, SymTy};

/// One application of an op.
#[derive(Clone, Debug)]
pub struct Node {
    pub op: Op<Dim>,
    pub inputs: Vec<usize>,
    pub outs: Vec<SymTy>,
    /// Row of the location table.
    pub loc: Option<usize>,
}

/// A closed function: inputs are numbered first, then the outputs of the nodes in order.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub inputs: Vec<SymTy>,
    pub nodes: Vec<Node>,
    pub outputs: Vec<usize>,
}

/// What an argument or a result is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Arg,
    Key,
    Result,
    /// Held by the program under a path.
    State(String),
}

/// An argument of an entry.
#[derive(Clone, Debug)]
pub struct ArgSpec {
    pub name: String,
    pub role: Role,
    pub donate: bool,
}

/// A result of an entry.
#[derive(Clone, Debug)]
pub struct ResultSpec {
    pub name: String,
    pub role: Role,
}

/// A function that can be run from outside.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub function: usize,
    pub args: Vec<ArgSpec>,
    pub results: Vec<ResultSpec>,
}

/// The location table.
#[derive(Clone, Debug, Default)]
pub struct Locations {
    files: Vec<String>,
    functions: Vec<String>,
    table: Vec<(usize, u32, u32, usize, String)>,
}

impl Locations {
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The location of a row.
    pub fn get(&self, row: Option<usize>) -> Option<Location> {
        let (file, line, column, function, layer) = self.table.get(row?)?;
        Some(Location {
            file: self.files.get(*file)?.clone(),
            line: *line,
            column: *column,
            function: self.functions.get(*function)?.clone(),
            layer: layer.clone(),
        })
    }
}

/// A program: data only, not yet verified.
#[derive(Clone, Debug)]
pub struct Program {
    pub functions: Vec<Function>,
    pub entries: Vec<Entry>,
    pub dims: BTreeMap<String, Bounds>,
    pub locations: Locations,
}

impl Program {
    /// Reads the JSON form: a missing or unknown field or a wrong type is an error that names its path.
    pub fn decode(value: Value) -> Result<Self> {
        let mut root = Fields::new(value, "program".to_string())?;
        let version = root.size("version")?;
        if version != 1 {
            return Err(Error::invalid_program(format!(
                "program version {version}; this reader knows version 1"
            ))
            .with_code("version"));
        }
        let program = Program {
            functions: root.list("functions", function)?,
            entries: root.list("entries", entry)?,
            dims: dims(root.take("dims")?)?,
            locations: match root.optional("locations") {
                Some(value) => locations(value)?,
                None => Locations::default(),
            },
        };
        root.finish()?;
        Ok(program)
    }

    /// Entries, arguments, results and dims as JSON, for callers.
    pub fn info(&self) -> Value {
        let ty = |t: &SymTy| {
            let shape: Vec<Value> = t
                .shape
                .iter()
                .map(|d| match d {
                    Dim::Const(n) => json!(n),
                    other => json!(other.to_string()),
                })
                .collect();
            json!([t.dtype.name(), shape])
        };
        let role = |r: &Role| match r {
            Role::Arg => "arg".to_string(),
            Role::Key => "key".to_string(),
            Role::Result => "result".to_string(),
            Role::State(path) => format!("state:{path}"),
        };
        let entries: Vec<Value> = self
            .entries
            .iter()
            .map(|e| {
                let f = &self.functions[e.function];
                let args: Vec<Value> = e
                    .args
                    .iter()
                    .zip(&f.inputs)
                    .map(|(a, t)| {
                        json!({"name": a.name, "role": role(&a.role), "donate": a.donate, "type": ty(t)})
                    })
                    .collect();
                let results: Vec<Value> = e
                    .results
                    .iter()
                    .zip(&f.outputs)
                    .map(|(r, v)| {
                        json!({"name": r.name, "role": role(&r.role), "type": f.value_type(*v).map(ty)})
                    })
                    .collect();
                json!({"name": e.name, "args": args, "results": results})
            })
            .collect();
        let dims: Map<String, Value> = self
            .dims
            .iter()
            .map(|(name, b)| (name.clone(), json!({"min": b.min, "max": b.max})))
            .collect();
        json!({"version": 1, "entries": entries, "dims": dims})
    }
}

impl Function {
    /// The declared type of a value.
    pub fn value_type(&self, value: usize) -> Option<&SymTy> {
        if let Some(ty) = self.inputs.get(value) {
            return Some(ty);
        }
        self.nodes
            .iter()
            .flat_map(|n| &n.outs)
            .nth(value - self.inputs.len())
    }
}

/// The fields of one JSON object, with the path to it.
struct Fields {
    map: Map<String, Value>,
    path: String,
}

impl Fields {
    fn new(value: Value, path: String) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Fields { map, path }),
            _ => Err(wrong(&path, "an object")),
        }
    }

    fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn optional(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key)
    }

    fn take(&mut self, key: &str) -> Result<Value> {
        self.optional(key)
            .ok_or_else(|| Error::invalid_program(format!("{} is missing", self.at(key))))
    }

    fn str(&mut self, key: &str) -> Result<String> {
        match self.take(key)? {
            Value::String(s) => Ok(s),
            _ => Err(wrong(&self.at(key), "a string")),
        }
    }

    fn bool(&mut self, key: &str) -> Result<bool> {
        self.take(key)?
            .as_bool()
            .ok_or_else(|| wrong(&self.at(key), "a boolean"))
    }

    fn size(&mut self, key: &str) -> Result<usize> {
        let value = self.take(key)?;
        size(&value, &self.at(key))
    }

    fn list<T>(
        &mut self,
        key: &str,
        mut read: impl FnMut(Value, String) -> Result<T>,
    ) -> Result<Vec<T>> {
        let path = self.at(key);
        match self.take(key)? {
            Value::Array(list) => list
                .into_iter()
                .enumerate()
                .map(|(i, v)| read(v, format!("{path}[{i}]")))
                .collect(),
            _ => Err(wrong(&path, "a list")),
        }
    }

    fn finish(&self) -> Result<()> {
        match self.map.keys().next() {
            Some(key) => Err(Error::invalid_program(format!(
                "{}: unknown field {:?}",
                self.path,
                clip(key)
            ))),
            None => Ok(()),
        }
    }
}

fn wrong(path: &str, wanted: &str) -> Error {
    Error::invalid_program(format!("{path} is not {wanted}"))
}

fn size(value: &Value, path: &str) -> Result<usize> {
    value
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| wrong(path, "a number from 0"))
}

fn function(value: Value, path: String) -> Result<Function> {
    let mut f = Fields::new(value, path)?;
    let out = Function {
        name: f.str("name")?,
        inputs: f.list("inputs", ty)?,
        nodes: f.list("nodes", node)?,
        outputs: f.list("outputs", |v, p| size(&v, &p))?,
    };
    f.finish()?;
    Ok(out)
}

fn ty(value: Value, path: String) -> Result<SymTy> {
    attrs::ty(&value).map_err(|e| e.inside(&path))
}

fn node(value: Value, path: String) -> Result<Node> {
    let mut f = Fields::new(value, path)?;
    let name = f.str("op")?;
    let attrs = match f.optional("attrs") {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(wrong(&f.at("attrs"), "an object")),
    };
    let op = Op::decode(&name, &mut Attrs::new(attrs))
        .map_err(|e| e.at_op(&clip(&name)).inside(&f.path))?;
    let out = Node {
        op,
        inputs: f.list("in", |v, p| size(&v, &p))?,
        outs: f.list("out", ty)?,
        loc: match f.optional("loc") {
            Some(v) => Some(size(&v, &f.at("loc"))?),
            None => None,
        },
    };
    f.finish()?;
    Ok(out)
}

fn entry(value: Value, path: String) -> Result<Entry> {
    let mut f = Fields::new(value, path)?;
    let out = Entry {
        name: f.str("name")?,
        function: f.size("function")?,
        args: f.list("args", |value, path| {
            let mut f = Fields::new(value, path)?;
            let arg = ArgSpec {
                name: f.str("name")?,
                role: role(&f.str("role")?, &f.path, false)?,
                donate: f.bool("donate")?,
            };
            f.finish()?;
            Ok(arg)
        })?,
        results: f.list("results", |value, path| {
            let mut f = Fields::new(value, path)?;
            let result = ResultSpec {
                name: f.str("name")?,
                role: role(&f.str("role")?, &f.path, true)?,
            };
            f.finish()?;
            Ok(result)
        })?,
    };
    f.finish()?;
    Ok(out)
}

fn role(text: &str, path: &str, result: bool) -> Result<Role> {
    match (text, result) {
        ("arg", false) => Ok(Role::Arg),
        ("key", false) => Ok(Role::Key),
        ("result", true) => Ok(Role::Result),
        _ => match text.strip_prefix("state:") {
            Some(at) if !at.is_empty() => Ok(Role::State(at.to_string())),
            _ => Err(Error::invalid_program(format!(
                "{path}: there is no role {:?}",
                clip(text)
            ))),
        },
    }
}

fn dims(value: Value) -> Result<BTreeMap<String, Bounds>> {
    let Value::Object(map) = value else {
        return Err(wrong("program.dims", "an object"));
    };
    map.into_iter()
        .map(|(name, value)| {
            let path = format!("program.dims.{}", clip(&name));
            if !is_name(&name) {
                return Err(wrong(&path, "a dim name"));
            }
            let mut f = Fields::new(value, path)?;
            let bound = |v: Value, path: String| {
                v.as_i64()
                    .filter(|n| *n >= 0)
                    .ok_or_else(|| wrong(&path, "a size"))
            };
            let min = f.take("min")?;
            let min = bound(min, f.at("min"))?;
            let max = match f.take("max")? {
                Value::Null => None,
                v => Some(bound(v, f.at("max"))?),
            };
            f.finish()?;
            Ok((name, Bounds { min, max }))
        })
        .collect()
}

fn locations(value: Value) -> Result<Locations> {
    let mut f = Fields::new(value, "program.locations".to_string())?;
    let text = |v: Value, p: String| match v {
        Value::String(s) => Ok(s),
        _ => Err(wrong(&p, "a string")),
    };
    let (files, functions) = (f.list("files", text)?, f.list("functions", text)?);
    let table = f.list("table", |value, path| {
        let bad = || wrong(&path, "[file, line, column, function, layer]");
        let Value::Array(row) = &value else {
            return Err(bad());
        };
        let [file, line, column, function, Value::String(layer)] = row.as_slice() else {
            return Err(bad());
        };
        let small = |v: &Value| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(bad)
        };
        let (file, function) = (size(file, &path)?, size(function, &path)?);
        if file >= files.len() || function >= functions.len() {
            return Err(bad());
        }
        Ok((file, small(line)?, small(column)?, function, layer.clone()))
    })?;
    f.finish()?;
    Ok(Locations {
        files,
        functions,
        table,
    })
}
