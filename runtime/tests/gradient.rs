//! Gradients by Burn's own backward pass.
#![cfg(feature = "autodiff")]

mod common;

use common::*;
use dala_runtime::dtype::DType;
use dala_runtime::{Arg, Engine, HostArray, Options, Result, Status, Wanted, engine};
use serde_json::json;

fn recording() -> Box<dyn Engine> {
    engine("flex-autodiff", Options::default()).unwrap()
}

/// `sum(x * x)` and `x * x`.
fn squares() -> Vec<u8> {
    let (x, s) = (json!(["f32", ["n"]]), json!(["f32", []]));
    let nodes = vec![
        node("mul", &[0, 0], x.clone(), json!({})),
        node("sum", &[1], s, json!({"axes": [0]})),
    ];
    let main = function(vec![x], nodes, &[2, 1]);
    let entries = vec![entry("main", 0, &[("x", "arg")], &["result", "result"])];
    file(&program(vec![main], entries), &[])
}

fn gradient(
    engine: &dyn Engine,
    bytes: &[u8],
    x: &[f32],
    output: usize,
    cotangent: Option<&[f32]>,
) -> Result<Vec<Vec<f32>>> {
    let program = load(engine, bytes)?;
    let (shape, x) = ([x.len() as i64], f32s(x));
    let ct = cotangent.map(f32s);
    let dense = |bytes| HostArray::dense(DType::F32, &shape, bytes).map(Arg::Array);
    let wanted = Wanted {
        output,
        cotangent: ct.as_deref().map(dense).transpose()?,
        wrt: &[0],
    };
    let results = program.gradient(0, &[dense(&x)?], wanted)?;
    let read = results.iter().map(|t| engine.read(&**t));
    read.map(|bytes| bytes.map(|b| to_f32(&b))).collect()
}

#[test]
fn test_results_come_first_and_then_the_gradients() {
    let engine = recording();
    let found = gradient(&*engine, &squares(), &[1.0, -2.0, 3.0], 0, None).unwrap();
    assert_eq!(
        found,
        [vec![14.0], vec![1.0, 4.0, 9.0], vec![2.0, -4.0, 6.0]]
    );
    let found = gradient(&*engine, &squares(), &[1.0, 2.0], 1, Some(&[1.0, 10.0])).unwrap();
    assert_eq!(found[2], [2.0, 40.0]);
    let found = gradient(&*engine, &squares(), &[], 0, None).unwrap();
    assert_eq!(found, [vec![0.0], vec![], vec![]]);
}

#[test]
fn test_what_cannot_be_differentiated_is_told() {
    let (record, plain) = (recording(), flex("{}"));
    let status = |engine: &dyn Engine, bytes: &[u8], output, ct| {
        gradient(engine, bytes, &[1.0], output, ct)
            .unwrap_err()
            .status
    };
    assert_eq!(status(&*plain, &squares(), 0, None), Status::Unsupported);
    assert_eq!(
        status(&*record, &squares(), 1, None),
        Status::InvalidArgument
    );
    assert_eq!(
        status(&*record, &squares(), 2, None),
        Status::InvalidArgument
    );
    // An entry that replaces state.
    assert_eq!(status(&*record, &train(), 0, None), Status::Unsupported);
}

#[test]
fn test_a_loop_is_refused_and_not_taken_for_a_constant() {
    let (x, s) = (json!(["f32", [3]]), json!(["f32", []]));
    let body = json!({"name": "body", "inputs": [s, s], "outputs": [2, 2],
        "nodes": [node("mul", &[0, 1], s.clone(), json!({}))]});
    let attrs = json!({"body": 0, "consts": 0, "carries": 1, "length": [3], "reverse": false});
    let scan = json!({"op": "scan", "in": [1, 0], "out": [s, x], "attrs": attrs, "loc": 0});
    let main = function(vec![x, s], vec![scan], &[2]);
    let entries = vec![entry("main", 1, &[("x", "arg"), ("c", "arg")], &["result"])];
    let engine = recording();
    let program = load(&*engine, &file(&program(vec![body, main], entries), &[])).unwrap();
    let (three, one) = (f32s(&[1.0, 2.0, 3.0]), f32s(&[1.0]));
    let args = [
        Arg::Array(HostArray::dense(DType::F32, &[3], &three).unwrap()),
        Arg::Array(HostArray::dense(DType::F32, &[], &one).unwrap()),
    ];
    let wanted = Wanted {
        output: 0,
        cotangent: None,
        wrt: &[0],
    };
    let error = program.gradient(0, &args, wanted).err().unwrap();
    assert_eq!(error.status, Status::Unsupported);
    assert_eq!(error.op.as_deref(), Some("scan"));
}

#[test]
fn test_the_engine_runs_programs_and_keeps_state_like_any_other() {
    let engine = recording();
    let program = load(&*engine, &train()).unwrap();
    let out = run(&*engine, &*program, 0, &[(&[1, 4], &[1.0, 0.0, 0.0, 2.0])]).unwrap();
    assert_eq!(out[0].len(), 4);
    let w = program.get_state("w").unwrap();
    assert_eq!(to_f32(&engine.read(&*w).unwrap()), [0.5, 2.0, 3.0, 3.0]);
}
