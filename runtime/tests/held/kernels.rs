//! Native kernels.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use dala_runtime::dtype::DType;
use dala_runtime::{Status, kernels};
use serde_json::{Value, json};

use crate::common::*;
use crate::*;

/// `exp(x) * y`, with `y` of one row. Counts its calls.
static CALLS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn scaled(
    data: *const *mut c_void,
    extents: *const i64,
    strides: *const i64,
    begin: i64,
    end: i64,
) -> i32 {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as `Kernel` says, for the name it is registered under: two operands, one result, two axes.
    unsafe {
        let at = |k: usize, i: i64, j: i64| {
            let s = |axis: usize| *strides.add(2 * k + axis);
            (*data.add(k))
                .cast::<u8>()
                .offset((i * s(0) + j * s(1)) as isize)
                .cast::<f32>()
        };
        for i in begin..end {
            for j in 0..*extents.add(1) {
                *at(2, i, j) = (*at(0, i, j)).exp() * *at(1, i, j);
            }
        }
    }
    0
}

/// Calls that wrote over their first operand.
static OVER: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn over_operand(
    data: *const *mut c_void,
    extents: *const i64,
    strides: *const i64,
    begin: i64,
    end: i64,
) -> i32 {
    // SAFETY: as for `scaled`.
    unsafe {
        OVER.fetch_add(usize::from(*data == *data.add(2)), Ordering::Relaxed);
        scaled(data, extents, strides, begin, end)
    }
}

/// Fails, so that it shows where it was called.
unsafe extern "C" fn failing(
    _: *const *mut c_void,
    _: *const i64,
    _: *const i64,
    _: i64,
    _: i64,
) -> i32 {
    3
}

/// `x, y -> fused(exp(x) * y)`, on the transposed `x` if so wanted.
fn fused(
    key: &str,
    rows: Value,
    columns: i64,
    transposed: bool,
    axes: Value,
    parallel: i64,
) -> Value {
    let full = json!(["f32", [rows, columns]]);
    let row = json!(["f32", [1, columns]]);
    let graph = function(
        vec![full.clone(), row.clone()],
        vec![
            node("exp", &[0], full.clone(), json!({})),
            node("mul", &[2, 1], full.clone(), json!({})),
        ],
        &[3],
    );
    let attrs = json!({
        "function": 0, "key": key, "space": [rows, columns], "axes": axes, "parallel": parallel,
    });
    let given = if transposed {
        json!(["f32", [columns, rows]])
    } else {
        full.clone()
    };
    let nodes = if transposed {
        vec![
            node("transpose", &[0], full.clone(), json!({"axes": [1, 0]})),
            node("fused", &[2, 1], full, attrs),
        ]
    } else {
        vec![node("fused", &[0, 1], full, attrs)]
    };
    let last = 1 + nodes.len();
    whole(vec![graph, function(vec![given, row], nodes, &[last])])
}

fn name(key: &str) -> String {
    let f = DType::F32;
    kernels::name(key, &[(f, &[0, 1]), (f, &[-1, 1])], &[(f, &[0, 1])], 2, 1)
}

#[test]
fn test_a_registered_kernel_gives_what_its_graph_gives() {
    // SAFETY: the kernels take what their names say.
    unsafe {
        kernels::register(&name("scaled"), scaled, 1).unwrap();
        kernels::register(&name("failing"), failing, 1).unwrap();
    }
    let axes = json!([0, 1, -1, 1, 0, 1]);
    for (rows, columns, transposed) in [
        (3, 4, false),
        (5, 2, true),
        (0, 4, false),
        (3, 0, false),
        (700, 100, true),
    ] {
        let n = (rows * columns) as usize;
        let x: Vec<f32> = (0..n).map(|i| ((i * 37) % 11) as f32 / 5.0).collect();
        let y: Vec<f32> = (0..columns).map(|i| i as f32 - 1.0).collect();
        let shape = if transposed {
            [columns, rows]
        } else {
            [rows, columns]
        };
        let row = [1, columns];
        let args = || [In::F(&shape, &x), In::F(&row, &y)];
        let before = CALLS.load(Ordering::Relaxed);
        let native = results(
            &fused("scaled", json!("n"), columns, transposed, axes.clone(), 1),
            &args(),
        );
        let calls = CALLS.load(Ordering::Relaxed) - before;
        let plain = results(
            &fused("unknown", json!("n"), columns, transposed, axes.clone(), 1),
            &args(),
        );
        assert_eq!(native[0].len(), n);
        for (a, b) in native[0].iter().zip(&plain[0]) {
            assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} {b}");
        }
        assert_eq!(calls > 0, rows > 0);
        if n > 1 << 16 {
            assert!(calls > 1, "the space is split");
        }
    }
    let args = [In::F(&[3, 4], &[0.0; 12]), In::F(&[1, 4], &[2.0; 4])];
    let e = try_run(&fused("failing", json!(3), 4, false, axes, 1), &args).unwrap_err();
    assert_eq!(
        (e.status, e.code.as_str()),
        (Status::RuntimeError, "kernel")
    );
    assert_eq!(e.op.as_deref(), Some("fused"));
}

#[test]
fn test_a_kernel_writes_over_an_operand_that_nobody_else_holds() {
    // SAFETY: as above.
    unsafe { kernels::register(&name("here"), over_operand, 1).unwrap() };
    let mut p = fused("here", json!(3), 4, false, json!([0, 1, -1, 1, 0, 1]), 1);
    // The operand of the kernel is a value of the run.
    let nodes = p["functions"][1]["nodes"].as_array_mut().unwrap();
    nodes.insert(0, node("sum", &[0], f32t(&[4]), json!({"axes": [0]})));
    nodes.insert(0, node("sqrt", &[0], f32t(&[3, 4]), json!({})));
    nodes[2]["in"] = json!([2, 1]);
    p["functions"][1]["outputs"] = json!([4, 3]);
    p["entries"][0]["results"] =
        json!([{"name": "0", "role": "result"}, {"name": "1", "role": "result"}]);
    let args = || {
        [
            In::F(&[3, 4], &[4.0; 12]),
            In::F(&[1, 4], &[1.0, 2.0, 3.0, 4.0]),
        ]
    };
    let out = results(&p, &args());
    let e = 2.0f32.exp();
    for (i, x) in out[0].iter().enumerate() {
        assert!((x - e * (i % 4 + 1) as f32).abs() < 1e-4);
    }
    assert_eq!(out[1], [12.0; 4]);
    assert_eq!(OVER.load(Ordering::Relaxed) % 10, 1);
    // Needed later: not written to.
    p["functions"][1]["outputs"] = json!([4, 2]);
    assert_eq!(results(&p, &args())[1], [2.0; 12]);
    assert_eq!(OVER.load(Ordering::Relaxed) % 10, 1);
}

/// `x, y -> x + y, x - y` of vectors, and whether each result is over an operand.
unsafe extern "C" fn both(
    data: *const *mut c_void,
    _: *const i64,
    strides: *const i64,
    begin: i64,
    end: i64,
) -> i32 {
    // SAFETY: as for `scaled`, with four vectors.
    unsafe {
        let at = |k: usize, i: i64| {
            let start = (*data.add(k)).cast::<u8>();
            start.offset((i * *strides.add(k)) as isize).cast::<f32>()
        };
        let over = |k: usize| *data.add(k) == *data || *data.add(k) == *data.add(1);
        OVER.fetch_add(
            10 * (usize::from(over(2)) + usize::from(over(3))),
            Ordering::Relaxed,
        );
        for i in begin..end {
            let (x, y) = (*at(0, i), *at(1, i));
            (*at(2, i), *at(3, i)) = (x + y, x - y);
        }
    }
    0
}

#[test]
fn test_several_results_take_the_memory_of_several_operands() {
    let (f, v) = (DType::F32, f32t(&[4]));
    let axes: &[i64] = &[0];
    let name = kernels::name(
        "both",
        &[(f, axes), (f, axes)],
        &[(f, axes), (f, axes)],
        1,
        1,
    );
    // SAFETY: as above.
    unsafe { kernels::register(&name, both, 1).unwrap() };
    let graph = function(
        vec![v.clone(), v.clone()],
        vec![
            node("add", &[0, 1], v.clone(), json!({})),
            node("sub", &[0, 1], v.clone(), json!({})),
        ],
        &[2, 3],
    );
    let attrs =
        json!({"function": 0, "key": "both", "space": [4], "axes": [0, 0, 0, 0], "parallel": 1});
    let main = function(
        vec![v.clone(), v.clone()],
        vec![
            node("neg", &[0], v.clone(), json!({})),
            node("neg", &[1], v.clone(), json!({})),
            many("fused", &[2, 3], vec![v.clone(), v], attrs),
        ],
        &[4, 5],
    );
    let args = [In::F(&[4], &[1.0, 2.0, 3.0, 4.0]), In::F(&[4], &[1.0; 4])];
    let before = OVER.load(Ordering::Relaxed) / 10;
    let out = results(&whole(vec![graph, main]), &args);
    assert_eq!(out, [[-2.0, -3.0, -4.0, -5.0], [0.0, -1.0, -2.0, -3.0]]);
    assert_eq!(OVER.load(Ordering::Relaxed) / 10 - before, 2);
}

#[test]
fn test_a_file_that_lies_about_a_kernel_does_not_get_it() {
    // SAFETY: as above.
    unsafe { kernels::register(&name("lie"), failing, 1).unwrap() };
    let args = || [In::F(&[3, 4], &[0.0; 12]), In::F(&[1, 4], &[1.0; 4])];
    let good = fused("lie", json!(3), 4, false, json!([0, 1, -1, 1, 0, 1]), 1);
    assert_eq!(try_run(&good, &args()).unwrap_err().code, "kernel");
    // Another way to split: not the kernel's.
    let other = fused("lie", json!(3), 4, false, json!([0, 1, -1, 1, 0, 1]), 2);
    assert_eq!(results(&other, &args())[0], [1.0; 12]);
    for axes in [
        json!([0, 1, -1, 1, 0]),
        json!([0, 1, -1, 1, 0, 1, 1]),
        json!([0, 1, -1, 1, 0, 2]),
        json!([0, 1, -1, 1, 1, 0]),
        json!([0, 1, 0, 1, 0, 1]),
        json!([-1, 1, -1, 1, 0, 1]),
        json!([0, 1, -2, 1, 0, 1]),
    ] {
        refused(&fused("lie", json!(3), 4, false, axes, 1), &args());
    }
    for parallel in [-1, 3] {
        let axes = json!([0, 1, -1, 1, 0, 1]);
        refused(&fused("lie", json!(3), 4, false, axes, parallel), &args());
    }
    // The node says more rows than its graph gives.
    let mut wrong = good.clone();
    wrong["functions"][0]["nodes"][1]["in"] = json!([1, 1]);
    wrong["functions"][0]["nodes"][1]["out"] = json!([["f32", [1, 4]]]);
    assert_eq!(refused(&wrong, &args()).code, "type-mismatch");
    let mut huge = good;
    huge["functions"][1]["nodes"][0]["attrs"]["space"] = json!([3, 4, 1i64 << 45]);
    refused(&huge, &args());
}
