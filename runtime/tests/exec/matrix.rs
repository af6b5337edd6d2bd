use dala_runtime::dtype::DType;
use dala_runtime::op::Op;

use crate::array::{arr, run, ty};

#[test]
fn factors_are_packed() {
    let x = arr(&[2, 2], &[4.0f64, 2.0, 2.0, 2.0]);
    let got = run(
        &Op::Cholesky { pairs: false },
        &[&x],
        &ty(DType::F64, &[2, 2]),
    );
    assert_eq!(got.to::<f64>(), [2.0, 0.0, 1.0, 1.0]);

    let x = arr(&[2, 2], &[1.0f32, 2.0, 4.0, 2.0]);
    let got = run(&Op::Lu { pairs: false }, &[&x], &ty(DType::F32, &[2, 3]));
    assert_eq!(got.to::<f32>(), [4.0, 2.0, 1.0, 0.25, 1.5, 0.0]);

    let op = Op::Svd {
        vectors: false,
        pairs: false,
    };
    let x = arr(&[2, 3], &[3.0f64, 0.0, 0.0, 0.0, 4.0, 0.0]);
    let got = run(&op, &[&x], &ty(DType::F64, &[1, 2]));
    assert_eq!(got.to::<f64>(), [4.0, 3.0]);
}

#[test]
fn parts_of_complex_numbers_lie_in_the_last_axis() {
    // 2i times x is 4, and 1 times x is 3i.
    let a = arr(&[2, 2, 2], &[0.0f64, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let b = arr(&[2, 1, 2], &[4.0f64, 0.0, 0.0, 3.0]);
    let got = run(
        &Op::Solve { pairs: true },
        &[&a, &b],
        &ty(DType::F64, &[2, 1, 2]),
    );
    assert_eq!(got.to::<f64>(), [0.0, -2.0, 0.0, 3.0]);
}

#[test]
fn a_matrix_that_is_not_finite_gives_nan_and_leaves_others_alone() {
    let x = arr(&[2, 1, 1], &[f64::INFINITY, 4.0]);
    for (op, rows) in [
        (Op::Cholesky { pairs: false }, 1),
        (Op::Qr { pairs: false }, 2),
        (
            Op::Eigh {
                vectors: true,
                pairs: false,
            },
            2,
        ),
    ] {
        let got = run(&op, &[&x], &ty(DType::F64, &[2, rows, 1])).to::<f64>();
        assert!(got[..rows].iter().all(|v| v.is_nan()), "{op:?}: {got:?}");
        assert!(got[rows..].iter().all(|v| v.is_finite()), "{op:?}: {got:?}");
    }
}
