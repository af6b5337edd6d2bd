//! Programs that must not run.

use dala_runtime::Status;
use serde_json::{Value, json};

use crate::common::*;
use crate::control::{cond, doubling, running};
use crate::effects::{effects, token};
use crate::*;

/// A change to a program, by the path to a place in it.
pub fn changed(program: &Value, path: &str, value: Value) -> Value {
    let mut p = program.clone();
    *p.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    p
}

#[test]
fn test_hostile_control_flow_is_refused() {
    let x2 = || In::F(&[2], &[1.0, 2.0]);
    let p = cond(json!([0, 1]));
    let at = "/functions/3/nodes/0";
    for (path, value) in [
        ("/attrs/branches", json!([])),
        ("/attrs/branches", json!([0, 3])),
        ("/attrs/branches", json!([0, 99])),
        ("/attrs/branches", json!([0, -1])),
        ("/attrs/branches", json!(0)),
        ("/in", json!([0])),
        ("/in", json!([])),
        ("/in", json!([1, 1])),
        ("/in", json!([0, 1, 1])),
        ("/in", json!([0, 0])),
        ("/out", json!([f32t(&[3])])),
        ("/out", json!([f32t(&[2]), f32t(&[2])])),
        ("/out", json!([])),
    ] {
        refused(
            &changed(&p, &format!("{at}{path}"), value),
            &[In::I(0), x2()],
        );
    }
    // Branches of different types.
    let longer = function(
        vec![f32t(&[2])],
        vec![node("concatenate", &[0, 0], f32t(&[4]), json!({"axis": 0}))],
        &[1],
    );
    let e = refused(&changed(&p, "/functions/1", longer), &[In::I(0), x2()]);
    assert_eq!(
        (e.op.as_deref(), e.code.as_str()),
        (Some("cond"), "type-mismatch")
    );

    let one = |x: &'static [f32]| In::F(&[], x);
    let p = doubling();
    let at = "/functions/2/nodes/0";
    for (path, value) in [
        ("/attrs/consts", json!(-1)),
        ("/attrs/consts", json!(2)),
        ("/attrs/consts", json!(3)),
        ("/attrs/consts", json!(0)),
        ("/attrs/cond", json!(1)),
        ("/attrs/cond", json!(2)),
        ("/attrs/body", json!(0)),
        ("/in", json!([0])),
        ("/out", json!([])),
    ] {
        refused(
            &changed(&p, &format!("{at}{path}"), value),
            &[one(&[1.0]), one(&[2.0])],
        );
    }
    let vector = function(
        vec![f32t(&[]), f32t(&[])],
        vec![node(
            "broadcast_to",
            &[0],
            f32t(&[2]),
            json!({"shape": [2]}),
        )],
        &[2],
    );
    refused(
        &changed(&p, "/functions/1", vector),
        &[one(&[1.0]), one(&[2.0])],
    );

    let p = running(json!("n"), false);
    let at = "/functions/1/nodes/0";
    for (path, value) in [
        ("/attrs/consts", json!(-1)),
        ("/attrs/consts", json!(4)),
        ("/attrs/consts", json!(0)),
        ("/attrs/carries", json!(-1)),
        ("/attrs/carries", json!(2)),
        ("/attrs/carries", json!(i64::MAX)),
        ("/attrs/length", json!([])),
        ("/attrs/length", json!(["n", "n"])),
        ("/attrs/length", json!(["n+1"])),
        ("/attrs/length", json!(["z"])),
        ("/attrs/length", json!([4])),
        ("/attrs/body", json!(1)),
        ("/in", json!([0, 1, 0])),
        ("/in", json!([0, 1])),
        ("/out/1", f32t(&[])),
        ("/out/1", json!(["f32", ["n", 3]])),
        ("/out/0", json!(["f32", ["n", 2]])),
    ] {
        let p = changed(&p, &format!("{at}{path}"), value);
        refused(&p, &[one(&[1.0]), x2(), In::F(&[3, 2], &[1.0; 6])]);
    }
}

#[test]
fn test_hostile_effects_are_refused() {
    let args = || [In::F(&[3], &[1.0; 3]), In::F(&[], &[1.0])];
    let p = effects();
    for (path, value) in [
        ("/functions/1/nodes/0/in", json!([0])),
        ("/functions/1/nodes/0/out", json!([f32t(&[])])),
        ("/functions/1/nodes/0/out", json!([["token", [1]]])),
        ("/functions/0/nodes/0/in", json!([1, 1])),
        ("/functions/0/nodes/0/in", json!([0, 0])),
        ("/functions/0/nodes/0/in", json!([])),
        ("/functions/0/nodes/0/out", json!([f32t(&[])])),
        ("/functions/0/nodes/0/op", json!("neg")),
        ("/functions/0/outputs", json!([1])),
        ("/functions/1/nodes/2/in", json!([1, 1])),
        ("/functions/1/nodes/2/out", json!([token(), f32t(&[])])),
        (
            "/functions/1/nodes/2/attrs/results",
            json!([f32t(&[2]), scalar("bool")]),
        ),
        (
            "/functions/1/nodes/2/attrs/results",
            json!([scalar("token"), scalar("bool")]),
        ),
        (
            "/functions/1/nodes/2/attrs/results",
            json!([scalar("key"), scalar("bool")]),
        ),
        (
            "/functions/1/nodes/2/attrs/results",
            json!([["f32", [-1]], scalar("bool")]),
        ),
        (
            "/functions/1/nodes/2/attrs/results",
            json!([["f32", ["z"]], scalar("bool")]),
        ),
        ("/functions/1/nodes/2/attrs/results", json!(7)),
        ("/functions/1/nodes/3/in", json!([2])),
        ("/functions/1/outputs", json!([4, 7])),
        ("/functions/1/inputs/1", token()),
    ] {
        refused(&changed(&p, path, value), &args());
    }
    let literal = function(vec![f32t(&[])], vec![lit("", token())], &[0]);
    refused(&whole(vec![literal]), &[In::F(&[], &[1.0])]);
    let eager = flex("{}");
    for op in [
        json!({"op": "cond", "attrs": {"branches": [0]}}),
        json!({"op": "token", "attrs": {}}),
        json!({"op": "print", "attrs": {"format": "x"}}),
        json!({"op": "fused", "attrs": {"function": 0, "key": "", "space": [], "axes": [], "parallel": 0}}),
    ] {
        let e = eager.operation(&op.to_string()).err().unwrap();
        assert_eq!(e.status, Status::Unsupported, "{e}");
    }
}

#[test]
fn test_nests_are_bounded() {
    // Each function holds the one before it twice, in a cond and a loop.
    let mut functions = vec![unary("neg", &[])];
    let index = || lit("00000000", scalar("i32"));
    for n in 0..40 {
        functions.push(function(
            vec![f32t(&[])],
            vec![
                index(),
                many(
                    "cond",
                    &[1, 0],
                    vec![f32t(&[])],
                    json!({"branches": [n, n]}),
                ),
            ],
            &[2],
        ));
    }
    assert_eq!(
        refused(&whole(functions), &[In::F(&[], &[1.0])]).code,
        "program-too-large"
    );
    // 190 levels deep is fine, in the stack of a thread too.
    let mut functions = vec![unary("neg", &[])];
    for n in 0..190 {
        functions.push(function(
            vec![f32t(&[])],
            vec![many(
                "scan",
                &[0],
                vec![f32t(&[])],
                json!({"body": n, "consts": 0, "carries": 1, "length": [1], "reverse": false}),
            )],
            &[1],
        ));
    }
    assert_eq!(results(&whole(functions), &[In::F(&[], &[1.0])])[0], [-1.0]);
}
