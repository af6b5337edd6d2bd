//! Running: dims, state, donation, atomicity, aliasing, limits, threads.

mod common;

use common::*;
use dala_runtime::dtype::DType;
use dala_runtime::{Arg, Engine, HostArray, Loaded, Status, Tensor};
use serde_json::json;

fn state(engine: &dyn Engine, program: &dyn Loaded) -> Vec<f32> {
    to_f32(&engine.read(&*program.get_state("w").unwrap()).unwrap())
}

#[test]
fn test_state_follows_the_runs_and_can_be_set() {
    let engine = flex("{}");
    let program = load(&*engine, &train()).unwrap();
    for _ in 0..3 {
        run(&*engine, &*program, 0, &[(&[2, 4], &[1.0; 8])]).unwrap();
    }
    assert_eq!(state(&*engine, &*program), [-2.0, -1.0, 0.0, 1.0]);
    let old = program.get_state("w").unwrap();
    let fresh = tensor(&*engine, &[4], &[5.0; 4]);
    program
        .set_state(
            "w",
            Arg::Tensor {
                tensor: &*fresh,
                donate: false,
            },
        )
        .unwrap();
    run(&*engine, &*program, 0, &[(&[1, 4], &[2.0; 4])]).unwrap();
    assert_eq!(state(&*engine, &*program), [4.0; 4]);
    assert_eq!(to_f32(&engine.read(&*fresh).unwrap()), [5.0; 4]);
    assert_eq!(to_f32(&engine.read(&*old).unwrap()), [-2.0, -1.0, 0.0, 1.0]);
    let wrong = tensor(&*engine, &[3], &[0.0; 3]);
    let arg = Arg::Tensor {
        tensor: &*wrong,
        donate: true,
    };
    assert_eq!(
        program.set_state("w", arg).unwrap_err().status,
        Status::InvalidArgument
    );
    assert!(program.get_state("v").is_err());
}

#[test]
fn test_wrong_arguments_name_what_is_wrong() {
    let engine = flex("{}");
    let main = function(
        vec![json!(["f32", ["b", "n"]]), json!(["f32", ["n", "2*b"]])],
        vec![],
        &[0],
    );
    let p = program(
        vec![main],
        vec![entry("f", 0, &[("x", "arg"), ("w", "arg")], &["result"])],
    );
    let p = load(&*engine, &file(&p, &[])).unwrap();
    let try_with = |x: &[i64], w: &[i64]| {
        let zeros = |s: &[i64]| vec![0.0; s.iter().product::<i64>() as usize];
        run(&*engine, &*p, 0, &[(x, &zeros(x)), (w, &zeros(w))])
    };
    assert!(try_with(&[2, 3], &[3, 4]).is_ok());
    assert!(try_with(&[5, 0], &[0, 10]).is_ok());
    let e = try_with(&[2, 3], &[4, 4]).unwrap_err();
    assert_eq!(e.code, "dim-conflict");
    assert!(e.message.contains("dim n") && e.message.contains('3') && e.message.contains('4'));
    let e = try_with(&[2, 3], &[3, 5]).unwrap_err();
    assert!(e.message.contains("\"w\""), "{e}");
    assert_eq!(try_with(&[0, 3], &[3, 0]).unwrap_err().code, "dim-bounds");
    assert!(try_with(&[2, 3, 1], &[3, 4]).is_err());
    let bytes = [0u8; 24];
    let ints = HostArray::dense(DType::I32, &[2, 3], &bytes).unwrap();
    let e = p
        .run(0, &[Arg::Array(ints), Arg::Array(ints)], None)
        .err()
        .unwrap();
    assert_eq!(
        (e.status, e.code.as_str()),
        (Status::InvalidArgument, "dtype")
    );
    assert_eq!(p.run(0, &[], None).err().unwrap().code, "argument-count");
    assert_eq!(
        p.run(7, &[], None).err().unwrap().status,
        Status::InvalidArgument
    );
}

#[test]
fn test_many_sizes_pass_through_the_bounded_cache() {
    let engine = flex("{}");
    let program = load(&*engine, &train()).unwrap();
    for round in 0..2 {
        for b in 1..150 {
            let out = run(
                &*engine,
                &*program,
                0,
                &[(&[b, 4], &vec![0.5; 4 * b as usize])],
            )
            .unwrap();
            assert_eq!(out[0][0], (0.5 * b as f32).tanh(), "round {round}");
        }
    }
}

/// `exp(tanh(x)) + x` with a sum at the end, so that `exp` is before the commit.
fn chain() -> Vec<u8> {
    let x = json!(["f32", ["b"]]);
    let nodes = vec![
        node("tanh", &[0], x.clone(), json!({})),
        node("exp", &[1], x.clone(), json!({})),
        node("add", &[2, 0], x.clone(), json!({})),
    ];
    let p = program(
        vec![function(vec![x], nodes, &[3])],
        vec![entry("f", 0, &[("x", "arg")], &["result"])],
    );
    file(&p, &[])
}

fn pointer(tensor: &dyn Tensor) -> usize {
    let mut ptr = 0;
    tensor
        .view(&mut |v| ptr = v.map_or(0, |v| v.ptr as usize))
        .unwrap();
    ptr
}

#[test]
fn test_donation_empties_the_handle_and_reuses_the_storage() {
    let engine = flex("{}");
    let x = json!(["f32", ["b"]]);
    let p = program(
        vec![function(
            vec![x.clone()],
            vec![node("neg", &[0], x, json!({}))],
            &[1],
        )],
        vec![entry("f", 0, &[("x", "arg")], &["result"])],
    );
    let p = load(&*engine, &file(&p, &[])).unwrap();
    let values: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let x = tensor(&*engine, &[4096], &values);
    let kept = p
        .run(
            0,
            &[Arg::Tensor {
                tensor: &*x,
                donate: false,
            }],
            None,
        )
        .unwrap();
    assert_ne!(pointer(&*kept[0]), pointer(&*x));
    assert_eq!(to_f32(&engine.read(&*x).unwrap()), values);
    let at = pointer(&*x);
    let out = p
        .run(
            0,
            &[Arg::Tensor {
                tensor: &*x,
                donate: true,
            }],
            None,
        )
        .unwrap();
    assert_eq!(pointer(&*out[0]), at);
    assert_eq!(engine.read(&*x).unwrap_err().code, "donated");
    let again = p.run(
        0,
        &[Arg::Tensor {
            tensor: &*x,
            donate: true,
        }],
        None,
    );
    assert_eq!(again.err().unwrap().code, "donated");
    // A shared handle is copied.
    let twin = out[0].duplicate().unwrap();
    p.run(
        0,
        &[Arg::Tensor {
            tensor: &*out[0],
            donate: true,
        }],
        None,
    )
    .unwrap();
    assert_eq!(to_f32(&engine.read(&*twin).unwrap())[5], -5.0);
}

#[test]
fn test_a_failed_run_leaves_donated_tensors_and_state_as_they_were() {
    let engine = flex("{\"fault\": \"panic:exp\"}");
    let p = load(&*engine, &chain()).unwrap();
    let x = tensor(&*engine, &[4], &[1.0, 2.0, 3.0, 4.0]);
    let e = p
        .run(
            0,
            &[Arg::Tensor {
                tensor: &*x,
                donate: true,
            }],
            None,
        )
        .err()
        .unwrap();
    assert_eq!(e.status, Status::Panic);
    assert_eq!((e.op.as_deref(), e.node), (Some("exp"), Some(1)));
    assert_eq!(e.location.as_ref().unwrap().line, 12);
    assert_eq!(to_f32(&engine.read(&*x).unwrap()), [1.0, 2.0, 3.0, 4.0]);

    for fault in ["sum", "mul", "sub", "tanh"] {
        let engine = flex(&format!("{{\"fault\": \"panic:{fault}\"}}"));
        let p = load(&*engine, &train()).unwrap();
        for _ in 0..2 {
            assert!(run(&*engine, &*p, 0, &[(&[1, 4], &[1.0; 4])]).is_err());
        }
        assert_eq!(state(&*engine, &*p), [1.0, 2.0, 3.0, 4.0], "{fault}");
    }
}

#[test]
fn test_an_index_out_of_range_is_a_runtime_error_with_its_place() {
    let engine = flex("{}");
    let (x, i) = (json!(["f32", ["n"]]), json!(["i32", [2]]));
    let attrs = json!({"axis": 0, "batch_dims": 0, "mode": "error"});
    let p = program(
        vec![function(
            vec![x, i],
            vec![node("gather", &[0, 1], json!(["f32", [2]]), attrs)],
            &[2],
        )],
        vec![entry("f", 0, &[("x", "arg"), ("i", "arg")], &["result"])],
    );
    let p = load(&*engine, &file(&p, &[])).unwrap();
    let x = tensor(&*engine, &[3], &[1.0, 2.0, 3.0]);
    let index = |a: i32, b: i32| [a.to_le_bytes(), b.to_le_bytes()].concat();
    let go = |bytes: &[u8]| {
        let at = HostArray::dense(DType::I32, &[2], bytes).unwrap();
        p.run(
            0,
            &[
                Arg::Tensor {
                    tensor: &*x,
                    donate: true,
                },
                Arg::Array(at),
            ],
            None,
        )
    };
    let e = go(&index(1, 3)).err().unwrap();
    assert_eq!(e.status, Status::RuntimeError);
    assert_eq!((e.op.as_deref(), e.node), (Some("gather"), Some(0)));
    assert!(e.location.is_some());
    let out = go(&index(2, 0)).unwrap();
    assert_eq!(to_f32(&engine.read(&*out[0]).unwrap()), [3.0, 1.0]);
}

#[test]
fn test_a_result_never_lies_in_memory_of_the_caller() {
    let engine = flex("{}");
    let (x, y) = (json!(["f32", [64, 64]]), json!(["f32", [64, 64]]));
    let p = program(
        vec![function(
            vec![x],
            vec![node("transpose", &[0], y, json!({"axes": [1, 0]}))],
            &[0, 1, 0],
        )],
        vec![entry(
            "f",
            0,
            &[("x", "arg")],
            &["result", "result", "result"],
        )],
    );
    let p = load(&*engine, &file(&p, &[])).unwrap();
    let mut bytes = f32s(&(0..4096).map(|i| i as f32).collect::<Vec<_>>());
    let results = {
        let array = HostArray::dense(DType::F32, &[64, 64], &bytes).unwrap();
        p.run(0, &[Arg::Array(array)], None).unwrap()
    };
    bytes.fill(0);
    for (i, result) in results.iter().enumerate() {
        let got = to_f32(&engine.read(&**result).unwrap());
        let want = if i == 1 { 64.0 } else { 1.0 };
        assert_eq!(got[1], want);
    }
}

#[test]
fn test_strided_and_empty_arrays() {
    let engine = flex("{}");
    let p = load(&*engine, &chain()).unwrap();
    let values: Vec<f32> = (0..6000).map(|i| i as f32 / 6000.0).collect();
    for (n, step) in [(4i64, 2i64), (3000, 2), (3000, -2), (4, 0), (6000, 1)] {
        let start = if step < 0 { values.len() - 1 } else { 0 };
        let strides = [step * 4];
        // SAFETY: all elements lie within `values`.
        let array = unsafe {
            HostArray::new(
                DType::F32,
                std::slice::from_ref(&n),
                Some(&strides),
                values.as_ptr().add(start).cast(),
            )
        };
        let out = p.run(0, &[Arg::Array(array.unwrap())], None).unwrap();
        let out = to_f32(&engine.read(&*out[0]).unwrap());
        for (i, got) in out.iter().enumerate() {
            let x = values[(start as i64 + i as i64 * step) as usize];
            assert!((got - (x.tanh().exp() + x)).abs() < 1e-5);
        }
    }
    // SAFETY: refused before anything is read.
    let bad = unsafe {
        HostArray::new(
            DType::F32,
            &[4, 4],
            Some(&[i64::MAX, 4]),
            values.as_ptr().cast(),
        )
    };
    assert!(bad.is_err());
    // SAFETY: an empty array has no elements.
    let empty = unsafe { HostArray::new(DType::F32, &[0, 4], None, std::ptr::null()) };
    assert_eq!(engine.write(empty.unwrap()).unwrap().ty().elements(), 0);
}

#[test]
fn test_the_memory_limit_is_kept_before_anything_runs() {
    let engine = flex("{\"memory_limit\": 10000}");
    let p = load(&*engine, &chain()).unwrap();
    assert!(run(&*engine, &*p, 0, &[(&[100], &[0.0; 100])]).is_ok());
    let e = run(&*engine, &*p, 0, &[(&[2000], &[0.0; 2000])]).unwrap_err();
    assert_eq!(e.status, Status::OutOfMemory);
    assert!(e.message.contains("tanh"), "{e}");
    let json = "{\"op\": \"broadcast_to\", \"attrs\": {\"shape\": [100000]}}";
    let op = engine.operation(json).unwrap();
    let x = tensor(&*engine, &[1], &[1.0]);
    let e = op
        .run(&[Arg::Tensor {
            tensor: &*x,
            donate: false,
        }])
        .err()
        .unwrap();
    assert_eq!(e.status, Status::OutOfMemory);
}

#[test]
fn test_single_operations() {
    let engine = flex("{}");
    let op = engine
        .operation("{\"op\": \"add\", \"attrs\": {}}")
        .unwrap();
    let (x, y) = (
        tensor(&*engine, &[2, 1], &[1.0, 2.0]),
        tensor(&*engine, &[3], &[10.0, 20.0, 30.0]),
    );
    let arg = |t| Arg::Tensor {
        tensor: t,
        donate: false,
    };
    let out = op.run(&[arg(&*x), arg(&*y)]).unwrap();
    assert_eq!(out[0].ty().shape, [2, 3]);
    assert_eq!(
        to_f32(&engine.read(&*out[0]).unwrap()),
        [11.0, 21.0, 31.0, 12.0, 22.0, 32.0]
    );
    let z = tensor(&*engine, &[4], &[0.0; 4]);
    let e = op.run(&[arg(&*y), arg(&*z)]).err().unwrap();
    assert_eq!(
        (e.status, e.op.as_deref()),
        (Status::InvalidArgument, Some("add"))
    );
    assert!(op.run(&[arg(&*y)]).is_err());
    for bad in [
        "{",
        "[]",
        "{\"op\": \"add\"}",
        "{\"op\": \"sum\", \"attrs\": {}}",
        "{\"op\": \"no\", \"attrs\": {}}",
    ] {
        assert_eq!(
            engine.operation(bad).err().unwrap().status,
            Status::InvalidArgument,
            "{bad}"
        );
    }
    let call = "{\"op\": \"call\", \"attrs\": {\"function\": 0, \"composite\": \"\"}}";
    assert_eq!(
        engine.operation(call).err().unwrap().status,
        Status::Unsupported
    );
    assert!(
        op.run(&[
            Arg::Tensor {
                tensor: &*x,
                donate: true
            },
            arg(&*y)
        ])
        .is_ok()
    );
    assert!(engine.read(&*x).is_err());
}

#[test]
fn test_threads_share_a_program() {
    let engine = flex("{}");
    let program = load(&*engine, &train()).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (engine, program) = (&engine, &program);
            scope.spawn(move || {
                for i in 0..200 {
                    let b = 1 + (t + i) % 5;
                    let x = vec![1.0 / b as f32; 4 * b as usize];
                    run(&**engine, &**program, 0, &[(&[b, 4], &x)]).unwrap();
                }
            });
        }
    });
    // 800 steps of 0.5 each, none lost.
    let w = state(&*engine, &*program);
    assert!((w[0] - (1.0 - 400.0)).abs() < 0.1, "{w:?}");
}
