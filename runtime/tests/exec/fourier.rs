use dala_runtime::dtype::DType;
use dala_runtime::infer::infer;
use dala_runtime::op::Op;
use dala_runtime::value::Ty;

use crate::array::{arr, noise, run, ty};

/// The sums as they are defined.
fn slow(x: &[(f64, f64)], sign: f64) -> Vec<(f64, f64)> {
    let n = x.len();
    let one = |k: usize| {
        let term = |j: usize| {
            let angle = sign * 2.0 * std::f64::consts::PI * (j * k % n) as f64 / n as f64;
            let ((sin, cos), (re, im)) = (angle.sin_cos(), x[j]);
            (re * cos - im * sin, re * sin + im * cos)
        };
        (0..n)
            .map(term)
            .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
    };
    (0..n).map(one).collect()
}

fn close(found: &[f64], wanted: impl IntoIterator<Item = f64>) {
    let wanted: Vec<f64> = wanted.into_iter().collect();
    assert_eq!(found.len(), wanted.len());
    for (a, b) in found.iter().zip(&wanted) {
        assert!((a - b).abs() < 1e-9, "{found:?} {wanted:?}");
    }
}

#[test]
fn every_length_is_the_sum_that_defines_it() {
    for n in [1, 2, 3, 4, 5, 7, 8, 12, 17, 32, 45, 97] {
        let x = noise(n as u64, 2 * n);
        let pairs: Vec<(f64, f64)> = x.chunks(2).map(|p| (p[0], p[1])).collect();
        let held = arr(&[n, 2], &x);
        let out = ty(DType::F64, &[n, 2]);
        for inverse in [false, true] {
            let got = run(&Op::Fft { axis: 0, inverse }, &[&held], &out).to::<f64>();
            let sign = if inverse { 1.0 } else { -1.0 };
            close(
                &got,
                slow(&pairs, sign).into_iter().flat_map(|p| [p.0, p.1]),
            );
        }
        let real = noise(7, n);
        let whole = slow(&real.iter().map(|&v| (v, 0.0)).collect::<Vec<_>>(), -1.0);
        let half = ty(DType::F64, &[n / 2 + 1, 2]);
        let got = run(&Op::Rfft { axis: 0 }, &[&arr(&[n], &real)], &half).to::<f64>();
        close(&got, whole[..n / 2 + 1].iter().flat_map(|p| [p.0, p.1]));
        let back = Op::Irfft {
            axis: 0,
            length: vec![n],
        };
        let frequencies = arr(&[n / 2 + 1, 2], &got);
        let got = run(&back, &[&frequencies], &ty(DType::F64, &[n])).to::<f64>();
        close(&got, real.iter().map(|v| v * n as f64));
    }
}

#[test]
fn lines_of_any_axis_and_many_lengths_at_once() {
    for n in 1..200 {
        let x = noise(n as u64, 3 * n * 2 * 2);
        let held = arr(&[3, n, 2, 2], &x);
        let op = Op::Fft {
            axis: 1,
            inverse: false,
        };
        let got = run(&op, &[&held], &ty(DType::F64, &[3, n, 2, 2])).to::<f64>();
        for (outer, inner) in [(0, 0), (1, 1), (2, 0)] {
            let at = |j: usize| ((outer * n + j) * 2 + inner) * 2;
            let line: Vec<_> = (0..n).map(|j| (x[at(j)], x[at(j) + 1])).collect();
            let wanted = slow(&line, -1.0);
            let found: Vec<f64> = (0..n).flat_map(|j| [got[at(j)], got[at(j) + 1]]).collect();
            close(&found, wanted.into_iter().flat_map(|p| [p.0, p.1]));
        }
    }
}

#[test]
fn what_fits_nothing_is_refused() {
    let x = ty(DType::F32, &[4, 2]);
    let refused = |op: &Op<usize>, x: &Ty| infer(op, std::slice::from_ref(x)).is_err();
    let fft = |axis| Op::Fft {
        axis,
        inverse: false,
    };
    assert!(!refused(&fft(0), &x));
    assert!(refused(&fft(1), &x));
    assert!(refused(&fft(-1), &x));
    assert!(refused(&fft(0), &ty(DType::F32, &[4])));
    assert!(refused(&fft(0), &ty(DType::F32, &[])));
    assert!(refused(&fft(0), &ty(DType::I32, &[4, 2])));
    assert!(refused(&fft(0), &ty(DType::F16, &[4, 2])));
    assert!(refused(&fft(0), &ty(DType::F32, &[0, 2])));
    assert!(refused(&Op::Rfft { axis: 1 }, &ty(DType::F32, &[4, 0])));
    for length in [vec![], vec![9], vec![0], vec![6, 6], vec![usize::MAX]] {
        assert!(refused(&Op::Irfft { axis: 0, length }, &x));
    }
}
