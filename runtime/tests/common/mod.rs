//! Builds containers and programs for the tests.
#![allow(dead_code)]

use std::collections::BTreeMap;

use dala_runtime::dtype::DType;
use dala_runtime::file::Container;
use dala_runtime::{Arg, Engine, HostArray, Loaded, Options, Result, Tensor, engine};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn sha(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A tensor of a container: safetensors dtype, shape, bytes.
pub type Stored = (&'static str, Vec<usize>, Vec<u8>);

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn to_f32(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
        .collect()
}

/// The header of a container, its digest still to be filled in, and the data.
pub fn parts(program: &Value, tensors: &[(&str, Stored)]) -> (Value, Vec<u8>) {
    let mut header = serde_json::Map::new();
    let (mut data, mut hashes) = (Vec::new(), BTreeMap::new());
    for (name, (dtype, shape, bytes)) in tensors {
        let range = [data.len(), data.len() + bytes.len()];
        header.insert(
            name.to_string(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": range}),
        );
        hashes.insert(name.to_string(), sha(bytes));
        data.extend_from_slice(bytes);
    }
    header.insert(
        "__metadata__".to_string(),
        json!({
            "dala.version": "1",
            "dala.program": program.to_string(),
            "dala.tensors": json!(hashes).to_string(),
            "dala.digest": "0".repeat(64),
        }),
    );
    (Value::Object(header), data)
}

/// A file with a right digest over whatever the header says.
pub fn seal(header: &Value, data: &[u8]) -> Vec<u8> {
    let blank = header.to_string();
    let key = "\"dala.digest\":\"";
    let text = match blank.find(key) {
        Some(at) => {
            let at = at + key.len();
            format!(
                "{}{}{}",
                &blank[..at],
                sha(blank.as_bytes()),
                &blank[at + 64..]
            )
        }
        None => blank,
    };
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(text.as_bytes());
    file.extend_from_slice(data);
    file
}

pub fn file(program: &Value, tensors: &[(&str, Stored)]) -> Vec<u8> {
    let (header, data) = parts(program, tensors);
    seal(&header, &data)
}

pub fn node(op: &str, inputs: &[usize], out: Value, attrs: Value) -> Value {
    json!({"op": op, "in": inputs, "out": [out], "attrs": attrs, "loc": 0})
}

pub fn function(inputs: Vec<Value>, nodes: Vec<Value>, outputs: &[usize]) -> Value {
    json!({"name": "main", "inputs": inputs, "nodes": nodes, "outputs": outputs})
}

/// An entry; an argument `name:donate` is donated.
pub fn entry(name: &str, function: usize, args: &[(&str, &str)], results: &[&str]) -> Value {
    let args: Vec<Value> = args
        .iter()
        .map(|(n, role)| json!({"name": n, "role": role, "donate": false}))
        .collect();
    let results: Vec<Value> = results
        .iter()
        .enumerate()
        .map(|(i, role)| json!({"name": i.to_string(), "role": role}))
        .collect();
    json!({"name": name, "function": function, "args": args, "results": results})
}

pub fn program(functions: Vec<Value>, entries: Vec<Value>) -> Value {
    json!({
        "version": 1,
        "functions": functions,
        "entries": entries,
        "dims": {"b": {"min": 1, "max": 1000000}, "n": {"min": 0, "max": null}},
        "locations": {"files": ["model.py"], "functions": ["mlp"], "table": [[0, 12, 8, 0, "dense_1"]]},
    })
}

pub fn flex(options: &str) -> Box<dyn Engine> {
    engine("flex", Options::parse(options).unwrap()).unwrap()
}

pub fn load(engine: &dyn Engine, bytes: &[u8]) -> Result<Box<dyn Loaded>> {
    engine.load(Container::load(bytes)?)
}

pub fn tensor(engine: &dyn Engine, shape: &[i64], values: &[f32]) -> Box<dyn Tensor> {
    engine
        .write(HostArray::dense(DType::F32, shape, &f32s(values)).unwrap())
        .unwrap()
}

/// Runs an entry on `f32` arrays.
pub fn run(
    engine: &dyn Engine,
    program: &dyn Loaded,
    entry: usize,
    args: &[(&[i64], &[f32])],
) -> Result<Vec<Vec<f32>>> {
    let bytes: Vec<Vec<u8>> = args.iter().map(|(_, v)| f32s(v)).collect();
    let args: Vec<Arg> = args
        .iter()
        .zip(&bytes)
        .map(|((shape, _), b)| HostArray::dense(DType::F32, shape, b).map(Arg::Array))
        .collect::<Result<_>>()?;
    let results = program.run(entry, &args, None)?;
    results
        .iter()
        .map(|t| engine.read(&**t).map(|b| to_f32(&b)))
        .collect()
}

/// `w - rate * sum(x)` over a state `w`, with a result that is `tanh(sum(x))`.
pub fn train() -> Vec<u8> {
    let (w, x, s) = (
        json!(["f32", [4]]),
        json!(["f32", ["b", 4]]),
        json!(["f32", []]),
    );
    let nodes = vec![
        node("sum", &[0], w.clone(), json!({"axes": [0]})),
        node("constant", &[], s, json!({"value": {"hex": "0000003f"}})),
        node("mul", &[2, 3], w.clone(), json!({})),
        node("sub", &[1, 4], w.clone(), json!({})),
        node("tanh", &[2], w.clone(), json!({})),
    ];
    let main = function(vec![x, w], nodes, &[5, 6]);
    let entries = vec![entry(
        "train",
        0,
        &[("x", "arg"), ("w", "state:w")],
        &["state:w", "result"],
    )];
    file(
        &program(vec![main], entries),
        &[("w", ("F32", vec![4], f32s(&[1.0, 2.0, 3.0, 4.0])))],
    )
}
