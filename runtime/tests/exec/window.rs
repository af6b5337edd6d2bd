use dala_runtime::dtype::DType;
use dala_runtime::op::Op;

use crate::array::{arr, flat, noise, places, run, ty};

struct Case {
    shape: Vec<usize>,
    window: Vec<usize>,
    strides: Vec<usize>,
    low: Vec<usize>,
    high: Vec<usize>,
}

fn case(rows: &[[usize; 5]]) -> Case {
    let column = |k: usize| rows.iter().map(|row| row[k]).collect();
    Case {
        shape: column(0),
        window: column(1),
        strides: column(2),
        low: column(3),
        high: column(4),
    }
}

/// Rows are size, window, stride, low, high.
fn cases() -> Vec<Case> {
    vec![
        case(&[[6, 2, 2, 0, 0]]),
        case(&[[2, 1, 1, 0, 0], [5, 3, 1, 1, 1], [4, 2, 2, 0, 1]]),
        case(&[
            [2, 1, 1, 0, 0],
            [5, 3, 2, 2, 2],
            [4, 2, 1, 1, 0],
            [3, 1, 1, 0, 0],
        ]),
        case(&[[3, 2, 1, 3, 3]]),
        case(&[[3, 5, 1, 0, 0], [2, 1, 1, 0, 0]]),
        case(&[[3, 1, 2, 0, 0], [2, 1, 1, 0, 0]]),
        case(&[]),
        case(&[[0, 1, 1, 0, 0], [3, 2, 1, 0, 0]]),
    ]
}

#[test]
fn windows_and_their_adjoints() {
    for c in cases() {
        let rank = c.shape.len();
        let out: Vec<usize> = (0..rank)
            .map(|k| {
                let room = (c.shape[k] + c.low[k] + c.high[k]) as i64 - c.window[k] as i64;
                if room < 0 {
                    0
                } else {
                    room as usize / c.strides[k] + 1
                }
            })
            .collect();
        let n: usize = c.shape.iter().product();
        let x: Vec<f64> = noise(3, n).iter().map(|v| (v * 2.0).round()).collect();
        let t = noise(4, n);
        let ct = noise(5, out.iter().product());
        let (mut sum, mut max, mut pick) = (vec![], vec![], vec![]);
        let mut spread = vec![0.0; n];
        for (o, at) in places(&out).iter().enumerate() {
            let mut inside = Vec::new();
            for k in places(&c.window) {
                let place: Option<Vec<usize>> = (0..rank)
                    .map(|a| {
                        let i = (at[a] * c.strides[a] + k[a]).checked_sub(c.low[a])?;
                        (i < c.shape[a]).then_some(i)
                    })
                    .collect();
                inside.extend(place.map(|p| flat(&c.shape, &p)));
            }
            let best = inside
                .iter()
                .map(|&i| x[i])
                .fold(f64::NEG_INFINITY, f64::max);
            let at_best: Vec<usize> = inside.iter().copied().filter(|&i| x[i] == best).collect();
            sum.push(inside.iter().map(|&i| x[i]).sum::<f64>());
            max.push(best);
            let count = at_best.len().max(1) as f64;
            pick.push(at_best.iter().map(|&i| t[i]).sum::<f64>() / count);
            at_best.iter().for_each(|&i| spread[i] += ct[o] / count);
        }
        let ints = |v: &[usize]| -> Vec<i64> { v.iter().map(|&v| v as i64).collect() };
        let (window, strides, low, high) = (
            ints(&c.window),
            ints(&c.strides),
            ints(&c.low),
            ints(&c.high),
        );
        let (wide, same) = (ty(DType::F64, &out), ty(DType::F64, &c.shape));
        let (x, t, ct) = (arr(&c.shape, &x), arr(&c.shape, &t), arr(&out, &ct));
        macro_rules! op {
            ($Op:ident) => {
                Op::$Op {
                    window: window.clone(),
                    strides: strides.clone(),
                    low: low.clone(),
                    high: high.clone(),
                }
            };
        }
        let near = |a: Vec<f64>, b: Vec<f64>| {
            assert_eq!(a.len(), b.len());
            assert!(
                a.iter()
                    .zip(&b)
                    .all(|(a, b)| a == b || (a - b).abs() < 1e-12),
                "{a:?} {b:?}"
            );
        };
        near(run(&op!(WindowSum), &[&x], &wide).to(), sum);
        near(run(&op!(WindowMax), &[&x], &wide).to(), max);
        near(run(&op!(WindowMaxSpread), &[&x, &ct], &same).to(), spread);
        near(run(&op!(WindowMaxPick), &[&x, &t], &wide).to(), pick);
    }
}

#[test]
fn windows_of_integers_and_nan() {
    let (window, strides, low, high) = (vec![2], vec![1], vec![2], vec![0]);
    let x = arr(&[2], &[100i8, 100]);
    let op = Op::WindowMax {
        window: window.clone(),
        strides: strides.clone(),
        low: low.clone(),
        high: high.clone(),
    };
    assert_eq!(
        run(&op, &[&x], &ty(DType::I8, &[3])).to::<i8>(),
        [-128, 100, 100]
    );
    let low_ones = [
        run(&op, &[&arr(&[2], &[7i16, 7])], &ty(DType::I16, &[3])).to::<i16>()[0] as i64,
        run(&op, &[&arr(&[2], &[7u16, 7])], &ty(DType::U16, &[3])).to::<u16>()[0] as i64,
        run(&op, &[&arr(&[2], &[7u32, 7])], &ty(DType::U32, &[3])).to::<u32>()[0] as i64,
        run(&op, &[&arr(&[2], &[7i32, 7])], &ty(DType::I32, &[3])).to::<i32>()[0] as i64,
        run(&op, &[&arr(&[2], &[7u64, 7])], &ty(DType::U64, &[3])).to::<u64>()[0] as i64,
    ];
    assert_eq!(low_ones, [i16::MIN as i64, 0, 0, i32::MIN as i64, 0]);
    let nan = arr(&[2], &[f32::NAN, 1.0]);
    let got = run(&op, &[&nan], &ty(DType::F32, &[3])).to::<f32>();
    assert!(got[0] == f32::NEG_INFINITY && got[1].is_nan() && got[2].is_nan());
    let op = Op::WindowSum {
        window: window.clone(),
        strides: strides.clone(),
        low: low.clone(),
        high: high.clone(),
    };
    assert_eq!(
        run(&op, &[&x], &ty(DType::I8, &[3])).to::<i8>(),
        [0, 100, -56]
    );
    let op = Op::WindowMaxSpread {
        window,
        strides,
        low,
        high,
    };
    let ct = arr(&[3], &[1.0f32, 2.0, 4.0]);
    assert_eq!(
        run(&op, &[&nan, &ct], &ty(DType::F32, &[2])).to::<f32>(),
        [6.0, 0.0]
    );
}
