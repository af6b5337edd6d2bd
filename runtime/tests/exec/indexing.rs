use dala_runtime::dtype::DType;
use dala_runtime::infer::infer;
use dala_runtime::op::Op;
use half::f16;

use crate::array::{arr, keys, run, scalar, try_run, ty};

fn gather(axis: i64, batch_dims: i64, mode: &str) -> Op<usize> {
    Op::Gather {
        axis,
        batch_dims,
        mode: mode.into(),
    }
}

fn add(axis: i64, batch_dims: i64, mode: &str) -> Op<usize> {
    Op::ScatterAdd {
        axis,
        batch_dims,
        mode: mode.into(),
    }
}

fn set(axis: i64, batch_dims: i64, mode: &str) -> Op<usize> {
    Op::ScatterSet {
        axis,
        batch_dims,
        mode: mode.into(),
    }
}

#[test]
fn gather_along_axes() {
    let x = arr(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let i = arr(&[2, 2], &[2i64, 0, 1, 1]);
    let got = run(
        &gather(1, 0, "clip"),
        &[&x, &i],
        &ty(DType::F32, &[2, 2, 2]),
    );
    assert_eq!(got.to::<f32>(), [3.0, 1.0, 2.0, 2.0, 6.0, 4.0, 5.0, 5.0]);
    let got = run(&gather(1, 1, "clip"), &[&x, &i], &ty(DType::F32, &[2, 2]));
    assert_eq!(got.to::<f32>(), [3.0, 1.0, 5.0, 5.0]);
    let got = run(
        &gather(0, 0, "fill"),
        &[&x, &scalar(1u8)],
        &ty(DType::F32, &[3]),
    );
    assert_eq!(got.to::<f32>(), [4.0, 5.0, 6.0]);
    let k = keys(&[3], &[1, 2, 3, 4, 5, 6]);
    let got = run(
        &gather(0, 0, "fill"),
        &[&k, &arr(&[2], &[2i8, 5])],
        &ty(DType::Key, &[2]),
    );
    assert_eq!(got, keys(&[2], &[5, 6, 0, 0]));
}

#[test]
fn gather_out_of_range() {
    let x = arr(&[3], &[1.0f64, 2.0, 3.0]);
    let i = arr(&[4], &[-1i32, 0, 2, 3]);
    let out = ty(DType::F64, &[4]);
    assert_eq!(
        run(&gather(0, 0, "clip"), &[&x, &i], &out).to::<f64>(),
        [1.0, 1.0, 3.0, 3.0]
    );
    let got = run(&gather(0, 0, "fill"), &[&x, &i], &out).to::<f64>();
    assert!(got[0].is_nan() && got[3].is_nan() && got[1..3] == [1.0, 3.0]);
    let huge = arr(&[1], &[u64::MAX]);
    let got = run(&gather(0, 0, "clip"), &[&x, &huge], &ty(DType::F64, &[1]));
    assert_eq!(got.to::<f64>(), [3.0]);
    let error = try_run(&gather(0, 0, "error"), &[&x, &i], &out).unwrap_err();
    assert_eq!(error.code, "index-out-of-range");
    assert_eq!(error.details["index"], -1);
    assert_eq!(error.details["size"], 3);
    let none = arr::<i16>(&[0, 2], &[]);
    let got = run(
        &gather(0, 0, "fill"),
        &[&none, &scalar(0i32)],
        &ty(DType::I16, &[2]),
    );
    assert_eq!(got.to::<i16>(), [0, 0]);
    assert!(
        try_run(
            &gather(0, 0, "clip"),
            &[&none, &scalar(0i32)],
            &ty(DType::I16, &[2])
        )
        .is_err()
    );
    let nowhere = arr::<i32>(&[0], &[]);
    let got = run(
        &gather(0, 0, "clip"),
        &[&none, &nowhere],
        &ty(DType::I16, &[0, 2]),
    );
    assert!(got.bytes.is_empty());
}

#[test]
fn scatter_with_duplicates() {
    let x = arr(&[3, 2], &[0i64, 0, 10, 10, 20, 20]);
    let i = arr(&[3], &[2i32, 0, 2]);
    let u = arr(&[3, 2], &[1i64, 2, 3, 4, 5, 6]);
    let out = ty(DType::I64, &[3, 2]);
    assert_eq!(
        run(&add(0, 0, "clip"), &[&x, &i, &u], &out).to::<i64>(),
        [3, 4, 10, 10, 26, 28]
    );
    assert_eq!(
        run(&set(0, 0, "clip"), &[&x, &i, &u], &out).to::<i64>(),
        [3, 4, 10, 10, 5, 6]
    );
    let far = arr(&[3], &[7i32, -1, 1]);
    assert_eq!(
        run(&add(0, 0, "fill"), &[&x, &far, &u], &out).to::<i64>(),
        [0, 0, 15, 16, 20, 20]
    );
    assert_eq!(
        run(&set(0, 0, "clip"), &[&x, &far, &u], &out).to::<i64>(),
        [3, 4, 5, 6, 1, 2]
    );
    assert!(try_run(&set(0, 0, "error"), &[&x, &far, &u], &out).is_err());
    let b = arr(&[2, 2], &[1u8, 1, 0, 0]);
    let u = arr(&[2, 2], &[1u8, 2, 3, 4]);
    let x = arr(&[2, 2], &[0u8, 0, 0, 250]);
    let got = run(&add(1, 1, "clip"), &[&x, &b, &u], &ty(DType::U8, &[2, 2]));
    assert_eq!(got.to::<u8>(), [0, 3, 7, 250]);
    let (x, i) = (arr(&[1], &[f16::from_f32(2048.0)]), arr(&[4], &[0i32; 4]));
    let u = arr(&[4], &[f16::ONE; 4]);
    let got = run(&add(0, 0, "clip"), &[&x, &i, &u], &ty(DType::F16, &[1]));
    assert_eq!(got.to::<f16>()[0].to_f32(), 2052.0);
}

#[test]
fn dynamic_slices_clamp() {
    let x = arr(&[3, 4], &(0..12).collect::<Vec<i32>>());
    let s = arr(&[2], &[5i64, -3]);
    let op = Op::DynamicSlice { sizes: vec![2, 2] };
    let got = run(&op, &[&x, &s], &ty(DType::I32, &[2, 2]));
    assert_eq!(got.to::<i32>(), [4, 5, 8, 9]);
    let u = arr(&[1, 2], &[-1i32, -2]);
    let got = run(
        &Op::DynamicUpdateSlice,
        &[&x, &u, &s],
        &ty(DType::I32, &[3, 4]),
    );
    assert_eq!(got.to::<i32>(), [0, 1, 2, 3, 4, 5, 6, 7, -1, -2, 10, 11]);
    let k = keys(&[3], &[1, 2, 3, 4, 5, 6]);
    let s = arr(&[1], &[1u32]);
    let op = Op::DynamicSlice { sizes: vec![1] };
    assert_eq!(
        run(&op, &[&k, &s], &ty(DType::Key, &[1])),
        keys(&[1], &[3, 4])
    );
    let empty = arr::<u32>(&[0], &[]);
    let op = Op::DynamicSlice { sizes: vec![] };
    assert_eq!(
        run(&op, &[&scalar(3i8), &empty], &ty(DType::I8, &[])).to::<i8>(),
        [3]
    );
    let got = run(
        &Op::DynamicUpdateSlice,
        &[&scalar(3i8), &scalar(4i8), &empty],
        &ty(DType::I8, &[]),
    );
    assert_eq!(got.to::<i8>(), [4]);
}

#[test]
fn scatters_that_join() {
    let x = arr(&[3], &[1i16, 2, 3]);
    let i = arr(&[4], &[0i32, 0, -1, 2]);
    let u = arr(&[4], &[5i16, -3, 100, 300]);
    let out = ty(DType::I16, &[3]);
    let attrs = || (0, 0, "fill".to_string());
    let (axis, batch_dims, mode) = attrs();
    let mul = Op::ScatterMul {
        axis,
        batch_dims,
        mode,
    };
    let (axis, batch_dims, mode) = attrs();
    let max = Op::ScatterMax {
        axis,
        batch_dims,
        mode,
    };
    let (axis, batch_dims, mode) = attrs();
    let min = Op::ScatterMin {
        axis,
        batch_dims,
        mode,
    };
    assert_eq!(run(&mul, &[&x, &i, &u], &out).to::<i16>(), [-15, 2, 900]);
    assert_eq!(run(&max, &[&x, &i, &u], &out).to::<i16>(), [5, 2, 300]);
    assert_eq!(run(&min, &[&x, &i, &u], &out).to::<i16>(), [-3, 2, 3]);
    let halves = arr(&[1], &[f16::from_f32(1.0)]);
    let many = arr(&[2048], &[f16::from_f32(1.0001); 2048]);
    let at = arr(&[2048], &[0i64; 2048]);
    let got = run(&mul, &[&halves, &at, &many], &ty(DType::F16, &[1]));
    assert_eq!(got.to::<f16>(), [f16::from_f32(1.0)]);
}

#[test]
fn bits_as_another_dtype() {
    let x = arr(&[2, 2], &[1.0f32, -2.0, 0.0, f32::NAN]);
    let as_ = |dtype| Op::Bitcast { dtype };
    let got = run(&as_(DType::U32), &[&x], &ty(DType::U32, &[2, 2])).to::<u32>();
    assert_eq!(got, [0x3f80_0000, 0xc000_0000, 0, 0x7fc0_0000]);
    let got = run(&as_(DType::U16), &[&x], &ty(DType::U16, &[2, 4])).to::<u16>();
    assert_eq!(got, [0, 0x3f80, 0, 0xc000, 0, 0, 0, 0x7fc0]);
    let got = run(&as_(DType::F64), &[&x], &ty(DType::F64, &[2, 1])).to::<f64>();
    assert_eq!(got[0].to_bits(), 0xc000_0000_3f80_0000);
    let refused = |dtype, shape: &[usize]| infer(&as_(dtype), &[ty(DType::F32, shape)]).is_err();
    assert!(!refused(DType::F64, &[4]));
    assert!(refused(DType::F64, &[3]));
    assert!(refused(DType::Bool, &[3]));
    assert!(refused(DType::Key, &[4]));
    assert!(refused(DType::U8, &[]));
}
