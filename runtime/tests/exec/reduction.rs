use dala_runtime::dtype::DType;
use dala_runtime::infer::infer;
use dala_runtime::op::Op;
use half::f16;

use crate::array::{Item, arr, noise, run, try_run, ty};

#[test]
fn sums_and_products() {
    let x = arr(&[2, 3], &[1i8, 2, 3, 100, 100, 100]);
    let sum = |axes: &[i64]| Op::Sum {
        axes: axes.to_vec(),
    };
    assert_eq!(
        run(&sum(&[1]), &[&x], &ty(DType::I8, &[2])).to::<i8>(),
        [6, 44]
    );
    assert_eq!(
        run(&sum(&[0]), &[&x], &ty(DType::I8, &[3])).to::<i8>(),
        [101, 102, 103]
    );
    assert_eq!(
        run(&sum(&[0, 1]), &[&x], &ty(DType::I8, &[])).to::<i8>(),
        [50]
    );
    assert_eq!(run(&sum(&[]), &[&x], &ty(DType::I8, &[2, 3])), x);
    let prod = Op::Prod { axes: vec![0] };
    assert_eq!(
        run(&prod, &[&arr::<u64>(&[0], &[])], &ty(DType::U64, &[])).to::<u64>(),
        [1]
    );
    let got = run(&prod, &[&arr(&[2], &[1u64 << 63, 3])], &ty(DType::U64, &[]));
    assert_eq!(got.to::<u64>(), [1 << 63]);
    let none = arr::<f32>(&[3, 0], &[]);
    assert_eq!(
        run(&sum(&[1]), &[&none], &ty(DType::F32, &[3])).to::<f32>(),
        [0.0; 3]
    );
    let halves = arr(&[5000], &[f16::ONE; 5000]);
    assert_eq!(
        run(&sum(&[0]), &[&halves], &ty(DType::F16, &[])).to::<f16>()[0].to_f32(),
        5000.0
    );
}

#[test]
fn sums_are_accurate_and_right_for_every_layout() {
    let n = 200_000;
    let x: Vec<f32> = noise(3, n).iter().map(|&v| v as f32 + 2.0).collect();
    for shape in [
        vec![n],
        vec![100, 2000],
        vec![2000, 100],
        vec![50, 5, 800],
        vec![25_000, 8],
    ] {
        let a = arr(&shape, &x);
        for axis in 0..shape.len() {
            let mut out = shape.clone();
            out.remove(axis);
            let got = run(
                &Op::Sum {
                    axes: vec![axis as i64],
                },
                &[&a],
                &ty(DType::F32, &out),
            );
            let inner: usize = shape[axis + 1..].iter().product();
            for (i, v) in got.to::<f32>().into_iter().enumerate() {
                let first = i / inner * inner * shape[axis] + i % inner;
                let exact: f64 = (0..shape[axis]).map(|k| x[first + k * inner] as f64).sum();
                assert!(
                    (v as f64 - exact).abs() <= exact.abs() * 3e-7,
                    "{v} {exact}"
                );
            }
        }
    }
    let a = arr(&[50, 5, 800], &x);
    let got = run(&Op::Sum { axes: vec![0, 2] }, &[&a], &ty(DType::F32, &[5])).to::<f32>();
    for (j, v) in got.into_iter().enumerate() {
        let exact: f64 = (0..40_000)
            .map(|i| x[i / 800 * 4000 + j * 800 + i % 800] as f64)
            .sum();
        assert!((v as f64 - exact).abs() <= exact.abs() * 3e-7);
    }
}

#[test]
fn extremes_propagate_nan() {
    let nan = f32::NAN;
    let x = arr(&[2, 3], &[1.0f32, nan, 3.0, -1.0, -2.0, -3.0]);
    let out = ty(DType::F32, &[2]);
    let got = run(&Op::Max { axes: vec![1] }, &[&x], &out).to::<f32>();
    assert!(got[0].is_nan() && got[1] == -1.0);
    let got = run(&Op::Min { axes: vec![1] }, &[&x], &out).to::<f32>();
    assert!(got[0].is_nan() && got[1] == -3.0);
    let got = run(&Op::Max { axes: vec![0] }, &[&x], &ty(DType::F32, &[3])).to::<f32>();
    assert!(got[0] == 1.0 && got[1].is_nan() && got[2] == 3.0);
    let none = arr::<bool>(&[0, 2], &[]);
    let out = ty(DType::Bool, &[2]);
    assert_eq!(
        run(&Op::Max { axes: vec![0] }, &[&none], &out).to::<bool>(),
        [false, false]
    );
    assert_eq!(
        run(&Op::Min { axes: vec![0] }, &[&none], &out).to::<bool>(),
        [true, true]
    );
    let none = arr::<i32>(&[0], &[]);
    assert!(try_run(&Op::Max { axes: vec![0] }, &[&none], &ty(DType::I32, &[])).is_err());
    let arg = |op: Op<usize>, x: &[f32]| {
        run(&op, &[&arr(&[x.len()], x)], &ty(DType::I32, &[])).to::<i32>()[0]
    };
    assert_eq!(arg(Op::Argmax { axis: 0 }, &[1.0, 3.0, 3.0]), 1);
    assert_eq!(arg(Op::Argmax { axis: 0 }, &[1.0, nan, 3.0, nan]), 1);
    assert_eq!(arg(Op::Argmin { axis: 0 }, &[2.0, 1.0, 1.0]), 1);
    assert_eq!(arg(Op::Argmin { axis: 0 }, &[2.0, 1.0, nan]), 2);
    assert_eq!(arg(Op::Argmax { axis: 0 }, &[f32::NEG_INFINITY; 2]), 0);
    let b = arr(&[2, 2], &[false, true, true, true]);
    let got = run(&Op::Argmax { axis: 0 }, &[&b], &ty(DType::I32, &[2]));
    assert_eq!(got.to::<i32>(), [1, 0]);
    let big = arr(&[3], &[u64::MAX - 1, u64::MAX, 0]);
    assert_eq!(
        run(&Op::Argmax { axis: 0 }, &[&big], &ty(DType::I32, &[])).to::<i32>(),
        [1]
    );
}

#[test]
fn scans() {
    let x = arr(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
    let out = ty(DType::I32, &[2, 3]);
    let sum = |axis, reverse| run(&Op::Cumsum { axis, reverse }, &[&x], &out).to::<i32>();
    assert_eq!(sum(1, false), [1, 3, 6, 4, 9, 15]);
    assert_eq!(sum(1, true), [6, 5, 3, 15, 11, 6]);
    assert_eq!(sum(0, false), [1, 2, 3, 5, 7, 9]);
    assert_eq!(sum(0, true), [5, 7, 9, 4, 5, 6]);
    let x = arr(&[4], &[1.0f32, f32::NAN, 0.0, 9.0]);
    let op = Op::Cummax {
        axis: 0,
        reverse: false,
    };
    let got = run(&op, &[&x], &ty(DType::F32, &[4])).to::<f32>();
    assert!(got[0] == 1.0 && got[1..].iter().all(|v| v.is_nan()));
    let op = Op::Cummax {
        axis: 0,
        reverse: true,
    };
    let got = run(&op, &[&x], &ty(DType::F32, &[4])).to::<f32>();
    assert!(got[3] == 9.0 && got[2] == 9.0 && got[1].is_nan() && got[0].is_nan());
    let none = arr::<f32>(&[2, 0], &[]);
    let op = Op::Cumsum {
        axis: 1,
        reverse: false,
    };
    assert!(
        run(&op, &[&none], &ty(DType::F32, &[2, 0]))
            .bytes
            .is_empty()
    );
}

#[test]
fn sorting_is_stable_with_nan_last() {
    fn check<T: Item + PartialEq + std::fmt::Debug>(x: &[T], order: &[i32]) {
        let n = x.len();
        let a = arr(&[n], x);
        let got = run(&Op::Argsort { axis: 0 }, &[&a], &ty(DType::I32, &[n])).to::<i32>();
        assert_eq!(got, order);
        let got = run(&Op::Sort { axis: 0 }, &[&a], &ty(T::DTYPE, &[n]));
        let want: Vec<T> = order.iter().map(|&i| x[i as usize]).collect();
        assert_eq!(got, arr(&[n], &want));
    }
    check(
        &[f32::NAN, 0.0, -0.0, f32::INFINITY, -1.0, f32::NAN],
        &[4, 1, 2, 3, 0, 5],
    );
    check(&[3u64, u64::MAX, 0, 3], &[2, 0, 3, 1]);
    check(&[true, false, true, false], &[1, 3, 0, 2]);
    check(&[5i8, -128, 127, 5], &[1, 0, 3, 2]);
    let x = arr(&[3, 2], &[3i32, 1, 1, 2, 2, 0]);
    let got = run(&Op::Sort { axis: 0 }, &[&x], &ty(DType::I32, &[3, 2]));
    assert_eq!(got.to::<i32>(), [1, 0, 2, 1, 3, 2]);
}

#[test]
fn products_and_recurrences() {
    let x = arr(&[2, 3], &[1i8, 2, 3, 100, 100, 100]);
    let out = ty(DType::I8, &[2, 3]);
    let product = |axis, reverse| run(&Op::Cumprod { axis, reverse }, &[&x], &out).to::<i8>();
    assert_eq!(product(1, false), [1, 2, 6, 100, 16, 64]);
    assert_eq!(product(1, true), [6, 6, 3, 64, 16, 100]);
    assert_eq!(product(0, false), [1, 2, 3, 100, -56, 44]);
    let a = arr(&[4], &[9.0f32, 0.5, 0.0, 2.0]);
    let b = arr(&[4], &[1.0f32, 2.0, 3.0, f32::INFINITY]);
    let out = ty(DType::F32, &[4]);
    let scan = |reverse| {
        let op = Op::LinearScan { axis: 0, reverse };
        run(&op, &[&a, &b], &out).to::<f32>()
    };
    assert_eq!(scan(false), [1.0, 2.5, 3.0, f32::INFINITY]);
    assert_eq!(scan(true), [32.5, 3.5, 3.0, f32::INFINITY]);
    let op = Op::Cumlogsumexp {
        axis: 0,
        reverse: false,
    };
    let x = arr(&[3], &[f32::NEG_INFINITY, 500.0, 500.0]);
    let got = run(&op, &[&x], &ty(DType::F32, &[3])).to::<f32>();
    assert_eq!(got[..2], [f32::NEG_INFINITY, 500.0]);
    assert!((got[2] - 500.0 - 2f32.ln()).abs() < 1e-4);
    let op = Op::LinearScan {
        axis: 0,
        reverse: false,
    };
    assert!(infer(&op, &[out.clone(), ty(DType::F32, &[3])]).is_err());
    assert!(infer(&op, &[out]).is_err());
}
