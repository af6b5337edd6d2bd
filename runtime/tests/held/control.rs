//! cond, while_loop, scan, and what is written out.

use dala_runtime::{Arg, Status};
use serde_json::{Value, json};

use crate::common::*;
use crate::*;

pub fn cond(branches: Value) -> Value {
    let main = function(
        vec![scalar("i32"), f32t(&[2])],
        vec![many(
            "cond",
            &[0, 1],
            vec![f32t(&[2])],
            json!({"branches": branches}),
        )],
        &[2],
    );
    whole(vec![
        unary("neg", &[2]),
        unary("abs", &[2]),
        unary("exp", &[2]),
        main,
    ])
}

#[test]
fn test_cond_runs_the_branch_of_the_clamped_index() {
    let p = cond(json!([0, 1, 2]));
    let x = [-1.0, 2.0];
    let e = vec![(-1.0f32).exp(), 2.0f32.exp()];
    for (index, wanted) in [
        (0, vec![1.0, -2.0]),
        (1, vec![1.0, 2.0]),
        (2, e.clone()),
        (7, e),
        (-3, vec![1.0, -2.0]),
    ] {
        let got = &results(&p, &[In::I(index), In::F(&[2], &x)])[0];
        for (a, b) in got.iter().zip(&wanted) {
            assert!((a - b).abs() <= 1e-6 * b.abs(), "{index}: {got:?}");
        }
    }
    let one = cond(json!([1]));
    assert_eq!(results(&one, &[In::I(5), In::F(&[2], &x)])[0], [1.0, 2.0]);
}

#[test]
fn test_cond_gives_several_results_and_takes_the_index_again() {
    let swap = function(
        vec![scalar("i32"), f32t(&[]), f32t(&[])],
        vec![],
        &[2, 1, 1],
    );
    let keep = function(
        vec![scalar("i32"), f32t(&[]), f32t(&[])],
        vec![node("cast", &[0], f32t(&[]), json!({"dtype": "f32"}))],
        &[1, 2, 3],
    );
    let main = function(
        vec![scalar("i32"), f32t(&[]), f32t(&[])],
        vec![many(
            "cond",
            &[0, 0, 1, 2],
            vec![f32t(&[]); 3],
            json!({"branches": [0, 1]}),
        )],
        &[3, 4, 5],
    );
    let p = whole(vec![swap, keep, main]);
    let run = |i| results(&p, &[In::I(i), In::F(&[], &[3.0]), In::F(&[], &[4.0])]);
    assert_eq!(run(0), [[4.0], [3.0], [3.0]]);
    assert_eq!(run(9), [[3.0], [4.0], [9.0]]);
}

/// `while x < limit: x = x + x`.
pub fn doubling() -> Value {
    let two = || vec![f32t(&[]), f32t(&[])];
    let cond = function(
        two(),
        vec![node("less", &[1, 0], scalar("bool"), json!({}))],
        &[2],
    );
    let body = function(
        two(),
        vec![node("add", &[1, 1], f32t(&[]), json!({}))],
        &[2],
    );
    let main = function(
        two(),
        vec![many(
            "while_loop",
            &[0, 1],
            vec![f32t(&[])],
            json!({"cond": 0, "body": 1, "consts": 1}),
        )],
        &[2],
    );
    whole(vec![cond, body, main])
}

#[test]
fn test_while_runs_from_no_trip_to_many() {
    let p = doubling();
    let run = |limit: f32, x: f32| results(&p, &[In::F(&[], &[limit]), In::F(&[], &[x])])[0][0];
    assert_eq!(run(0.0, 5.0), 5.0);
    assert_eq!(run(100.0, 3.0), 192.0);
    assert_eq!(run(f32::MAX, 1.0), f32::INFINITY);
}

/// `(total, rows) = scan((c, x) -> (c + x, c * k), start, xs)`, with `k` a constant operand.
pub fn running(length: Value, reverse: bool) -> Value {
    let row = f32t(&[2]);
    let body = function(
        vec![f32t(&[]), row.clone(), row.clone()],
        vec![
            node("add", &[1, 2], row.clone(), json!({})),
            node("mul", &[1, 0], row.clone(), json!({})),
        ],
        &[3, 4],
    );
    let stacked = json!(["f32", [length, 2]]);
    let main = function(
        vec![f32t(&[]), row.clone(), stacked.clone()],
        vec![many(
            "scan",
            &[0, 1, 2],
            vec![row, stacked],
            json!({"body": 0, "consts": 1, "carries": 1, "length": [length], "reverse": reverse}),
        )],
        &[3, 4],
    );
    whole(vec![body, main])
}

#[test]
fn test_scan_runs_forward_in_reverse_and_not_at_all() {
    let xs = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
    let args = |n: usize| {
        [
            (vec![], vec![10.0]),
            (vec![2], vec![0.0, 100.0]),
            (vec![n as i64, 2], xs[..2 * n].to_vec()),
        ]
    };
    let run = |p: &Value, n: usize| {
        let args = args(n);
        let args: Vec<In> = args.iter().map(|(s, v)| In::F(s, v)).collect();
        results(p, &args)
    };
    for length in [json!("n"), json!(3)] {
        let out = run(&running(length.clone(), false), 3);
        assert_eq!(out[0], [6.0, 160.0]);
        assert_eq!(out[1], [0.0, 1000.0, 10.0, 1100.0, 30.0, 1300.0]);
        let out = run(&running(length, true), 3);
        assert_eq!(out[0], [6.0, 160.0]);
        assert_eq!(out[1], [50.0, 1500.0, 30.0, 1300.0, 0.0, 1000.0]);
    }
    let out = run(&running(json!("n"), true), 0);
    assert_eq!(out[0], [0.0, 100.0]);
    assert!(out[1].is_empty());
    assert_eq!(
        refused_shape(&running(json!(3), false), &args(2)),
        Status::InvalidArgument
    );
}

fn refused_shape(p: &Value, args: &[(Vec<i64>, Vec<f32>)]) -> Status {
    let args: Vec<In> = args.iter().map(|(s, v)| In::F(s, v)).collect();
    try_run(p, &args).unwrap_err().status
}

#[test]
fn test_scans_nest_and_pass_strided_rows_on() {
    // The inner scan sums a row of the transposed operand; the outer one stacks sums and rows.
    let inner = function(
        vec![f32t(&[]), f32t(&[])],
        vec![node("add", &[0, 1], f32t(&[]), json!({}))],
        &[2],
    );
    let outer = function(
        vec![f32t(&[3])],
        vec![
            lit("00000000", f32t(&[])),
            many(
                "scan",
                &[1, 0],
                vec![f32t(&[])],
                json!({"body": 0, "consts": 0, "carries": 1, "length": [3], "reverse": false}),
            ),
            node("flip", &[0], f32t(&[3]), json!({"axes": [0]})),
        ],
        &[2, 3, 0],
    );
    let main = function(
        vec![f32t(&[3, 2])],
        vec![
            node("transpose", &[0], f32t(&[2, 3]), json!({"axes": [1, 0]})),
            many(
                "scan",
                &[1],
                vec![f32t(&[2]), f32t(&[2, 3]), f32t(&[2, 3])],
                json!({"body": 1, "consts": 0, "carries": 0, "length": [2], "reverse": false}),
            ),
        ],
        &[2, 3, 4],
    );
    let p = whole(vec![inner, outer, main]);
    let out = results(&p, &[In::F(&[3, 2], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0])]);
    assert_eq!(out[0], [6.0, 60.0]);
    assert_eq!(out[1], [3.0, 2.0, 1.0, 30.0, 20.0, 10.0]);
    assert_eq!(out[2], [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
}

#[test]
fn test_a_carry_may_be_a_constant_a_swap_and_a_result_too() {
    // (a, b, k) -> (b, a, k), y = b, with a constant as the third carry and its own stack.
    let ty = || f32t(&[]);
    let body = function(
        vec![ty(), ty(), ty()],
        vec![lit(TEN, ty())],
        &[1, 0, 3, 1, 1],
    );
    let main = function(
        vec![ty(), ty(), ty()],
        vec![many(
            "scan",
            &[0, 1, 2],
            vec![ty(), ty(), ty(), f32t(&[3]), f32t(&[3])],
            json!({"body": 0, "consts": 0, "carries": 3, "length": [3], "reverse": false}),
        )],
        &[3, 4, 5, 6, 7],
    );
    let p = whole(vec![body, main]);
    let one = |x: &'static [f32]| In::F(&[], x);
    let out = results(&p, &[one(&[1.0]), one(&[2.0]), one(&[3.0])]);
    assert_eq!(out[..3], [[2.0], [1.0], [10.0]]);
    assert_eq!(out[3], [2.0, 1.0, 2.0]);
    assert_eq!(out[4], out[3]);
}

#[test]
fn test_a_donated_carry_is_worked_on_in_place_and_survives_a_failure() {
    let p = doubling();
    let engine = flex("{}");
    let loaded = load(&*engine, &file(&p, &[])).unwrap();
    let x = tensor(&*engine, &[], &[3.0]);
    let limit = tensor(&*engine, &[], &[10.0]);
    let args = [
        Arg::Tensor {
            tensor: &*limit,
            donate: false,
        },
        Arg::Tensor {
            tensor: &*x,
            donate: true,
        },
    ];
    let out = loaded.run(0, &args, None).unwrap();
    assert_eq!(to_f32(&engine.read(&*out[0]).unwrap()), [12.0]);
    assert_eq!(to_f32(&engine.read(&*limit).unwrap()), [10.0]);
    assert_eq!(engine.read(&*x).unwrap_err().code, "donated");

    let broken = flex("{\"fault\": \"panic:add\"}");
    let loaded = load(&*broken, &file(&p, &[])).unwrap();
    let x = tensor(&*broken, &[], &[3.0]);
    let limit = tensor(&*broken, &[], &[10.0]);
    let args = [
        Arg::Tensor {
            tensor: &*limit,
            donate: true,
        },
        Arg::Tensor {
            tensor: &*x,
            donate: true,
        },
    ];
    let e = loaded.run(0, &args, None).err().unwrap();
    assert_eq!((e.status, e.op.as_deref()), (Status::Panic, Some("add")));
    assert_eq!(e.location.as_ref().unwrap().line, 12);
    assert_eq!(to_f32(&broken.read(&*x).unwrap()), [3.0]);
    assert_eq!(to_f32(&broken.read(&*limit).unwrap()), [10.0]);
}

#[test]
fn test_calls_of_other_kinds_are_written_out() {
    let pair = |n| vec![f32t(&[]); n];
    // primal x -> -x; forward x -> (-x, x); backward (x, ct) -> ct * x; tangent (x, t) -> (-x, t)
    let forward = function(
        pair(1),
        vec![node("neg", &[0], f32t(&[]), json!({}))],
        &[1, 0],
    );
    let tangent = function(
        pair(2),
        vec![node("neg", &[0], f32t(&[]), json!({}))],
        &[2, 1],
    );
    let main = function(
        pair(1),
        vec![
            node(
                "custom_vjp",
                &[0],
                f32t(&[]),
                json!({"primal": 0, "forward": 1, "backward": 2}),
            ),
            node(
                "checkpoint",
                &[1],
                f32t(&[]),
                json!({"function": 4, "policy": "nothing"}),
            ),
            node(
                "custom_jvp",
                &[2],
                f32t(&[]),
                json!({"primal": 0, "tangent": 3}),
            ),
            node(
                "fused",
                &[3],
                f32t(&[]),
                json!({"function": 4, "key": "00", "space": [], "axes": [], "parallel": 0}),
            ),
        ],
        &[4],
    );
    let p = whole(vec![
        unary("neg", &[]),
        forward,
        binary("mul", &[]),
        tangent,
        unary("sqrt", &[]),
        main,
    ]);
    let nan = results(&p, &[In::F(&[], &[16.0])])[0][0];
    assert!(nan.is_nan());
    assert!((results(&p, &[In::F(&[], &[-16.0])])[0][0]).is_nan());
    let mut swapped = p.clone();
    swapped["functions"][5]["nodes"][0]["attrs"]["forward"] = json!(2);
    refused(&swapped, &[In::F(&[], &[1.0])]);
    let mut swapped = p.clone();
    swapped["functions"][5]["nodes"][0]["attrs"]["backward"] = json!(3);
    refused(&swapped, &[In::F(&[], &[1.0])]);
    let mut swapped = p;
    swapped["functions"][5]["nodes"][2]["attrs"]["tangent"] = json!(0);
    refused(&swapped, &[In::F(&[], &[1.0])]);
}

#[test]
fn test_an_error_inside_a_body_names_the_inner_node() {
    let fill = json!({"axis": 0, "batch_dims": 0, "mode": "error"});
    let body = function(
        vec![f32t(&[3]), scalar("i32")],
        vec![
            node("gather", &[0, 1], f32t(&[]), fill),
            node("cast", &[2], scalar("i32"), json!({"dtype": "i32"})),
        ],
        &[3],
    );
    let main = function(
        vec![f32t(&[3]), scalar("i32")],
        vec![
            many(
                "scan",
                &[0, 1],
                vec![scalar("i32")],
                json!({"body": 0, "consts": 1, "carries": 1, "length": [4], "reverse": false}),
            ),
            node("cast", &[2], f32t(&[]), json!({"dtype": "f32"})),
        ],
        &[3],
    );
    let p = whole(vec![body, main]);
    let out = results(&p, &[In::F(&[3], &[1.0, 2.0, 0.0]), In::I(0)]);
    assert_eq!(out[0], [1.0]);
    let e = try_run(&p, &[In::F(&[3], &[1.0, 7.0, 0.0]), In::I(0)]).unwrap_err();
    assert_eq!(
        (e.status, e.op.as_deref()),
        (Status::RuntimeError, Some("gather"))
    );
    assert_eq!(
        (e.node, e.details["function"].as_str()),
        (Some(0), Some("main"))
    );
    assert_eq!(e.location.as_ref().unwrap().line, 12);
}

#[test]
fn test_memory_of_bodies_counts() {
    // Each step makes a temporary of 4 MB from a scalar.
    let body = function(
        vec![f32t(&[])],
        vec![
            node(
                "broadcast_to",
                &[0],
                f32t(&[1 << 20]),
                json!({"shape": [1 << 20]}),
            ),
            node("exp", &[1], f32t(&[1 << 20]), json!({})),
            node("sum", &[2], f32t(&[]), json!({"axes": [0]})),
        ],
        &[3],
    );
    let main = function(
        vec![f32t(&[])],
        vec![many(
            "scan",
            &[0],
            vec![f32t(&[])],
            json!({"body": 0, "consts": 0, "carries": 1, "length": [2], "reverse": false}),
        )],
        &[1],
    );
    let bytes = file(&whole(vec![body, main]), &[]);
    for (limit, fits) in [(1 << 20, false), (1 << 24, true)] {
        let engine = flex(&format!("{{\"memory_limit\": {limit}}}"));
        let loaded = load(&*engine, &bytes).unwrap();
        let out = call(&*engine, &*loaded, &[In::F(&[], &[-100.0])]);
        match out {
            Ok(_) => assert!(fits),
            Err(e) => assert!(!fits && e.status == Status::OutOfMemory, "{e}"),
        }
    }
}
