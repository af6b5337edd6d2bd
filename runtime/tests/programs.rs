//! Programs that must not run: each is refused with a status, never by a panic.

mod common;

use common::*;
use dala_runtime::{Error, Result, Status};
use serde_json::{Value, json};

/// Loads and runs the one entry on an array of `shape`.
fn attempt(program: &Value, shape: &[i64]) -> Result<Vec<Vec<f32>>> {
    let engine = flex("{\"memory_limit\": 1000000000}");
    let loaded = load(&*engine, &file(program, &[]))?;
    let n = shape.iter().product::<i64>() as usize;
    run(&*engine, &*loaded, 0, &[(shape, &vec![1.0; n])])
}

fn single(op: &str, inputs: &[usize], out: Value, attrs: Value) -> Value {
    let main = function(
        vec![json!(["f32", ["b", 3]])],
        vec![node(op, inputs, out, attrs)],
        &[1],
    );
    program(
        vec![main],
        vec![entry("run", 0, &[("x", "arg")], &["result"])],
    )
}

fn refused(program: &Value) -> Error {
    let error = attempt(program, &[2, 3]).expect_err(&program.to_string());
    assert_eq!(error.status, Status::InvalidProgram, "{error}");
    error
}

#[test]
fn test_a_wrong_attribute_or_type_names_op_and_place() {
    let f = |shape: Value| json!(["f32", shape]);
    let cases = [
        single("sum", &[0], f(json!(["b"])), json!({"axes": [2]})),
        single("sum", &[0], f(json!(["b"])), json!({"axes": [-1]})),
        single("sum", &[0], f(json!([])), json!({"axes": [1, 0]})),
        single("sum", &[0], f(json!(["b"])), json!({"axes": [1, 1]})),
        single("sum", &[0], f(json!([3])), json!({"axes": [1]})),
        single("tanh", &[0], json!(["f64", ["b", 3]]), json!({})),
        single("tanh", &[0, 0], f(json!(["b", 3])), json!({})),
        single("isnan", &[0], f(json!(["b", 3])), json!({})),
        single("bitwise_not", &[0], f(json!(["b", 3])), json!({})),
        single("transpose", &[0], f(json!([3, "b"])), json!({"axes": [1]})),
        single(
            "transpose",
            &[0],
            f(json!([3, "b"])),
            json!({"axes": [1, 1]}),
        ),
        single(
            "reshape",
            &[0],
            f(json!(["b", 4])),
            json!({"shape": ["b", 4]}),
        ),
        single(
            "broadcast_to",
            &[0],
            f(json!(["b", 4])),
            json!({"shape": ["b", 4]}),
        ),
        single(
            "slice",
            &[0],
            f(json!(["b", 3])),
            json!({"start": [0, 0], "stop": ["b+1", 3], "step": [1, 1]}),
        ),
        single(
            "slice",
            &[0],
            f(json!(["b", 3])),
            json!({"start": [0, 0], "stop": ["b", 3], "step": [1, 0]}),
        ),
        single(
            "slice",
            &[0],
            f(json!(["b", 3])),
            json!({"start": [0], "stop": ["b"], "step": [1]}),
        ),
        single(
            "concatenate",
            &[0, 0],
            f(json!(["b", 3])),
            json!({"axis": 0}),
        ),
        single("concatenate", &[], f(json!(["b", 3])), json!({"axis": 0})),
        single("argmax", &[0], json!(["i32", ["b"]]), json!({"axis": 5})),
        single("sort", &[0], f(json!(["b", 3])), json!({"axis": 2})),
        single(
            "gather",
            &[0, 0],
            f(json!(["b", 3])),
            json!({"axis": 0, "batch_dims": 0, "mode": "clip"}),
        ),
        single(
            "dot_general",
            &[0, 0],
            f(json!(["b", "b"])),
            json!({"contract_x": [1], "contract_y": [0], "batch_x": [], "batch_y": []}),
        ),
        single(
            "dot_general",
            &[0, 0],
            f(json!(["b", "b"])),
            json!({"contract_x": [1, 1], "contract_y": [1, 1], "batch_x": [], "batch_y": []}),
        ),
        single(
            "window_sum",
            &[0],
            f(json!(["b", 3])),
            json!({"window": [0, 1], "strides": [1, 1], "low": [0, 0], "high": [0, 0]}),
        ),
        single(
            "window_sum",
            &[0],
            f(json!(["b", 3])),
            json!({"window": [1, 1], "strides": [1, 1], "low": [0, i64::MAX], "high": [0, i64::MAX]}),
        ),
        single(
            "conv",
            &[0, 0],
            f(json!(["b", 3])),
            json!({"strides": [], "low": [], "high": [], "dilation": [], "groups": 1}),
        ),
        single(
            "random_bits",
            &[0],
            json!(["u32", [3]]),
            json!({"shape": [3], "dtype": "u32"}),
        ),
        single("random_wrap", &[0], json!(["key", ["b"]]), json!({})),
        single(
            "constant",
            &[],
            f(json!([2])),
            json!({"value": {"hex": "00"}}),
        ),
        single("select", &[0, 0, 0], f(json!(["b", 3])), json!({})),
    ];
    for case in &cases {
        let error = refused(case);
        assert!(error.op.is_some(), "{error}");
        assert_eq!(error.node, Some(0), "{error}");
        let at = error.location.as_ref().unwrap();
        assert_eq!((at.file.as_str(), at.line), ("model.py", 12));
    }
}

#[test]
fn test_broken_structure_is_refused_at_load() {
    let good = single("tanh", &[0], json!(["f32", ["b", 3]]), json!({}));
    assert!(attempt(&good, &[2, 3]).is_ok());
    let set = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        bad
    };
    let mut cases = vec![
        set("/functions/0/nodes/0/in", json!([1])),
        set("/functions/0/nodes/0/in", json!([-1])),
        set("/functions/0/nodes/0/in", json!([0.5])),
        set("/functions/0/nodes/0/op", json!("tan_h")),
        set("/functions/0/nodes/0/op", json!(null)),
        set("/functions/0/nodes/0/attrs", json!({"axis": 1})),
        set("/functions/0/nodes/0/attrs", json!([])),
        set("/functions/0/nodes/0/loc", json!(9)),
        set("/functions/0/nodes/0/out", json!([])),
        set(
            "/functions/0/nodes/0/out",
            json!([["f32", ["b", 3]], ["f32", ["b", 3]]]),
        ),
        set("/functions/0/nodes/0/out/0", json!(["f32", ["q", 3]])),
        set("/functions/0/nodes/0/out/0", json!(["f32", ["b +", 3]])),
        set("/functions/0/nodes/0/out/0", json!(["float", ["b", 3]])),
        set("/functions/0/outputs", json!([2])),
        set("/functions/0/inputs", json!([["f32", vec![1; 99]]])),
        set("/entries/0/function", json!(1)),
        set("/entries/0/args", json!([])),
        set("/entries/0/results", json!([])),
        set("/entries/0/args/0/role", json!("other")),
        set("/entries/0/args/0/role", json!("key")),
        set("/entries/0/args/0/role", json!("state:w")),
        set("/entries/0/results/0/role", json!("state:w")),
        set("/dims", json!({"b b": {"min": 0, "max": null}})),
        set("/dims", json!({"b": {"min": 0}})),
        set("/version", json!(2)),
        set("/locations/table/0", json!([1, 1, 1, 0, ""])),
        set(
            "/functions/0/nodes/0",
            json!({"op": "tanh", "in": [0], "out": [], "more": 1}),
        ),
        json!([]),
        json!(null),
    ];
    for key in ["version", "functions", "entries", "dims"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(key);
        cases.push(bad);
    }
    let mut twice = good.clone();
    twice["entries"] = json!([good["entries"][0], good["entries"][0]]);
    cases.push(twice);
    for case in &cases {
        let engine = flex("{}");
        let error = load(&*engine, &file(case, &[])).err();
        let status = error.map(|e| e.status);
        assert_eq!(status, Some(Status::InvalidProgram), "{case}");
    }
}

#[test]
fn test_calls_only_look_back_and_do_not_explode() {
    let x = json!(["f32", ["b", 3]]);
    let call = |f: usize| {
        node(
            "call",
            &[0],
            x.clone(),
            json!({"function": f, "composite": ""}),
        )
    };
    let recursive = program(
        vec![function(vec![x.clone()], vec![call(0)], &[1])],
        vec![entry("run", 0, &[("x", "arg")], &["result"])],
    );
    refused(&recursive);

    // Each function calls the one before it twice: 2^60 nodes.
    let mut functions = vec![function(
        vec![x.clone()],
        vec![node("tanh", &[0], x.clone(), json!({}))],
        &[1],
    )];
    for f in 0..60 {
        let nodes = vec![
            call(f),
            node(
                "call",
                &[1],
                x.clone(),
                json!({"function": f, "composite": ""}),
            ),
        ];
        functions.push(function(vec![x.clone()], nodes, &[2]));
    }
    let laughs = program(
        functions.clone(),
        vec![entry("run", 60, &[("x", "arg")], &["result"])],
    );
    assert_eq!(refused(&laughs).code, "program-too-large");

    functions.truncate(6);
    let fine = program(
        functions,
        vec![entry("run", 5, &[("x", "arg")], &["result"])],
    );
    assert!(attempt(&fine, &[2, 3]).is_ok());

    // A chain as deep as the table is long would take the stack.
    let mut functions = vec![function(vec![x.clone()], vec![], &[0])];
    functions.extend((0..20_000).map(|f| function(vec![x.clone()], vec![call(f)], &[1])));
    let deep = program(
        functions,
        vec![entry("run", 20_000, &[("x", "arg")], &["result"])],
    );
    assert_eq!(refused(&deep).code, "program-too-large");
}

#[test]
fn test_sizes_that_overflow_are_refused() {
    for shape in [
        json!(["b*4611686018427387904", 3]),
        json!([1i64 << 45, 3]),
        json!(["b - 5", 3]),
        json!(["b // 0", 3]),
    ] {
        let case = single(
            "broadcast_to",
            &[0],
            json!(["f32", shape]),
            json!({"shape": shape}),
        );
        assert!(attempt(&case, &[1, 3]).is_err(), "{shape}");
    }
    let iota = single(
        "iota",
        &[],
        json!(["i64", [1u64 << 40]]),
        json!({"shape": [1u64 << 40], "axis": 0, "dtype": "i64"}),
    );
    let error = attempt(&iota, &[2, 3]).unwrap_err();
    assert_eq!(error.status, Status::OutOfMemory);
    assert!(error.message.contains("iota"), "{error}");
    // A small result behind a huge padded copy.
    let far = 1i64 << 40;
    let window = single(
        "window_sum",
        &[0],
        json!(["f32", [1, 1]]),
        json!({"window": [1, 1], "strides": [far * 4, far * 4], "low": [0, far], "high": [0, 0]}),
    );
    assert_eq!(
        attempt(&window, &[1, 3]).unwrap_err().status,
        Status::OutOfMemory
    );
}

#[test]
fn test_complex_numbers_and_tokens_do_not_come_in() {
    for (dtype, status) in [
        ("c64", Status::Unsupported),
        ("c128", Status::Unsupported),
        ("token", Status::InvalidProgram),
    ] {
        let case = program(
            vec![function(vec![json!([dtype, []])], vec![], &[0])],
            vec![entry("run", 0, &[("x", "arg")], &["result"])],
        );
        let engine = flex("{}");
        let error = load(&*engine, &file(&case, &[])).err().unwrap();
        assert_eq!(error.status, status);
    }
}
