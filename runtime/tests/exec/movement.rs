use dala_runtime::dtype::DType;
use dala_runtime::op::Op;

use crate::array::{arr, keys, run, scalar, ty};

#[test]
fn reshape_transpose_broadcast_flip() {
    let x = arr(&[2, 3], &[1u16, 2, 3, 4, 5, 6]);
    let got = run(
        &Op::Reshape {
            shape: vec![3, 1, 2],
        },
        &[&x],
        &ty(DType::U16, &[3, 1, 2]),
    );
    assert_eq!(got.to::<u16>(), [1, 2, 3, 4, 5, 6]);
    let got = run(
        &Op::Transpose { axes: vec![1, 0] },
        &[&x],
        &ty(DType::U16, &[3, 2]),
    );
    assert_eq!(got.to::<u16>(), [1, 4, 2, 5, 3, 6]);
    let got = run(
        &Op::BroadcastTo {
            shape: vec![2, 2, 3],
        },
        &[&x],
        &ty(DType::U16, &[2, 2, 3]),
    );
    assert_eq!(got.to::<u16>(), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
    let got = run(&Op::Flip { axes: vec![1] }, &[&x], &ty(DType::U16, &[2, 3]));
    assert_eq!(got.to::<u16>(), [3, 2, 1, 6, 5, 4]);
    let one = scalar(true);
    let got = run(
        &Op::BroadcastTo { shape: vec![0, 2] },
        &[&one],
        &ty(DType::Bool, &[0, 2]),
    );
    assert!(got.bytes.is_empty());
    let k = keys(&[2, 1], &[1, 2, 3, 4]);
    let got = run(
        &Op::Transpose { axes: vec![1, 0] },
        &[&k],
        &ty(DType::Key, &[1, 2]),
    );
    assert_eq!(got, keys(&[1, 2], &[1, 2, 3, 4]));
    let k = keys(&[2], &[1, 2, 3, 4]);
    let got = run(
        &Op::BroadcastTo { shape: vec![2, 2] },
        &[&k],
        &ty(DType::Key, &[2, 2]),
    );
    assert_eq!(got, keys(&[2, 2], &[1, 2, 3, 4, 1, 2, 3, 4]));
    let got = run(&Op::Flip { axes: vec![0] }, &[&k], &ty(DType::Key, &[2]));
    assert_eq!(got, keys(&[2], &[3, 4, 1, 2]));
    let got = run(
        &Op::Reshape { shape: vec![1, 2] },
        &[&k],
        &ty(DType::Key, &[1, 2]),
    );
    assert_eq!(got, keys(&[1, 2], &[1, 2, 3, 4]));
    let s = scalar(1.5f32);
    let got = run(&Op::Transpose { axes: vec![] }, &[&s], &ty(DType::F32, &[]));
    assert_eq!(got.to::<f32>(), [1.5]);
    let got = run(&Op::Flip { axes: vec![] }, &[&s], &ty(DType::F32, &[]));
    assert_eq!(got.to::<f32>(), [1.5]);
}

#[test]
fn slices() {
    let x = arr(&[3, 5], &(0..15).collect::<Vec<i64>>());
    let op = |start: [usize; 2], stop: [usize; 2], step: [i64; 2]| Op::Slice {
        start: start.to_vec(),
        stop: stop.to_vec(),
        step: step.to_vec(),
    };
    let got = run(&op([1, 0], [3, 5], [1, 2]), &[&x], &ty(DType::I64, &[2, 3]));
    assert_eq!(got.to::<i64>(), [5, 7, 9, 10, 12, 14]);
    let got = run(&op([0, 4], [3, 5], [2, 9]), &[&x], &ty(DType::I64, &[2, 1]));
    assert_eq!(got.to::<i64>(), [4, 14]);
    let got = run(&op([3, 0], [3, 5], [1, 1]), &[&x], &ty(DType::I64, &[0, 5]));
    assert!(got.bytes.is_empty());
}

#[test]
fn pad_with_interior() {
    let x = arr(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    let op = Op::Pad {
        low: vec![0, 1],
        high: vec![1, 0],
        interior: vec![1, 2],
    };
    let got = run(&op, &[&x, &scalar(9.0f32)], &ty(DType::F32, &[4, 5]));
    let mut want = vec![9.0; 20];
    (want[1], want[4], want[11], want[14]) = (1.0, 2.0, 3.0, 4.0);
    assert_eq!(got.to::<f32>(), want);
    let none = arr::<u8>(&[0], &[]);
    let op = Op::Pad {
        low: vec![2],
        high: vec![1],
        interior: vec![3],
    };
    assert_eq!(
        run(&op, &[&none, &scalar(7u8)], &ty(DType::U8, &[3])).to::<u8>(),
        [7, 7, 7]
    );
}

#[test]
fn concatenate_and_iota() {
    let (a, b) = (
        arr(&[2, 1], &[true, false]),
        arr(&[2, 2], &[true, true, false, false]),
    );
    let e = arr::<bool>(&[2, 0], &[]);
    let got = run(
        &Op::Concatenate { axis: 1 },
        &[&a, &e, &b],
        &ty(DType::Bool, &[2, 3]),
    );
    assert_eq!(got.to::<bool>(), [true, true, true, false, false, false]);
    let k = keys(&[1], &[1, 2]);
    let got = run(
        &Op::Concatenate { axis: 0 },
        &[&k, &k],
        &ty(DType::Key, &[2]),
    );
    assert_eq!(got, keys(&[2], &[1, 2, 1, 2]));
    let op = Op::Iota {
        shape: vec![2, 3],
        axis: 1,
        dtype: DType::F16,
    };
    let got = run(&op, &[], &ty(DType::F16, &[2, 3])).to::<half::f16>();
    assert_eq!(
        got.iter().map(|x| x.to_f32()).collect::<Vec<_>>(),
        [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]
    );
    let op = Op::Iota {
        shape: vec![300],
        axis: 0,
        dtype: DType::I8,
    };
    assert_eq!(
        run(&op, &[], &ty(DType::I8, &[300])).to::<i8>()[126..130],
        [126, 127, -128, -127]
    );
    let op = Op::Iota {
        shape: vec![0, 3],
        axis: 0,
        dtype: DType::I8,
    };
    assert!(run(&op, &[], &ty(DType::I8, &[0, 3])).bytes.is_empty());
}
