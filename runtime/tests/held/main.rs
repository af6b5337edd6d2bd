//! Control flow, effects and kernels: programs that hold functions.

#[path = "../common/mod.rs"]
mod common;
mod control;
mod effects;
mod hostile;
mod kernels;

use common::*;
use dala_runtime::dtype::DType;
use dala_runtime::{Arg, Engine, Error, HostArray, Loaded, Result, Status};
use serde_json::{Value, json};

pub fn f32t(shape: &[i64]) -> Value {
    json!(["f32", shape])
}

pub fn scalar(dtype: &str) -> Value {
    json!([dtype, []])
}

/// A node with several results.
pub fn many(op: &str, inputs: &[usize], outs: Vec<Value>, attrs: Value) -> Value {
    json!({"op": op, "in": inputs, "out": outs, "attrs": attrs, "loc": 0})
}

pub fn lit(hex: &str, ty: Value) -> Value {
    node("constant", &[], ty, json!({"value": {"hex": hex}}))
}

pub const ONE: &str = "0000803f";
pub const TEN: &str = "00002041";

/// A program whose last function is the one entry.
pub fn whole(functions: Vec<Value>) -> Value {
    let last = functions.len() - 1;
    let n_args = functions[last]["inputs"].as_array().unwrap().len();
    let n_results = functions[last]["outputs"].as_array().unwrap().len();
    let names: Vec<String> = (0..n_args).map(|i| format!("a{i}")).collect();
    let args: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "arg")).collect();
    program(
        functions,
        vec![entry("run", last, &args, &vec!["result"; n_results])],
    )
}

pub enum In<'a> {
    F(&'a [i64], &'a [f32]),
    I(i32),
}

pub fn bytes(arg: &In) -> (DType, Vec<i64>, Vec<u8>) {
    match arg {
        In::F(shape, values) => (DType::F32, shape.to_vec(), f32s(values)),
        In::I(n) => (DType::I32, vec![], n.to_le_bytes().to_vec()),
    }
}

pub fn call(engine: &dyn Engine, loaded: &dyn Loaded, args: &[In]) -> Result<Vec<Vec<f32>>> {
    let data: Vec<_> = args.iter().map(bytes).collect();
    let args: Vec<Arg> = data
        .iter()
        .map(|(d, s, b)| HostArray::dense(*d, s, b).map(Arg::Array))
        .collect::<Result<_>>()?;
    let results = loaded.run(0, &args, None)?;
    results
        .iter()
        .map(|t| engine.read(&**t).map(|b| to_f32(&b)))
        .collect()
}

pub fn try_run(program: &Value, args: &[In]) -> Result<Vec<Vec<f32>>> {
    let engine = flex("{\"memory_limit\": 1000000000}");
    let loaded = load(&*engine, &file(program, &[]))?;
    call(&*engine, &*loaded, args)
}

pub fn results(program: &Value, args: &[In]) -> Vec<Vec<f32>> {
    try_run(program, args).unwrap_or_else(|e| panic!("{e}: {program}"))
}

pub fn refused(program: &Value, args: &[In]) -> Error {
    let error = try_run(program, args).expect_err(&program.to_string());
    assert_eq!(error.status, Status::InvalidProgram, "{error}");
    error
}

/// `x -> op(x)`.
pub fn unary(op: &str, shape: &[i64]) -> Value {
    function(
        vec![f32t(shape)],
        vec![node(op, &[0], f32t(shape), json!({}))],
        &[1],
    )
}

pub fn binary(op: &str, shape: &[i64]) -> Value {
    let ty = f32t(shape);
    function(
        vec![ty.clone(), ty.clone()],
        vec![node(op, &[0, 1], ty, json!({}))],
        &[2],
    )
}
