use dala_runtime::dtype::DType;
use dala_runtime::op::Op;
use half::{bf16, f16};

use crate::array::{Array, arr, flat, noise, places, run, scalar, ty};

fn dot(cx: &[i64], cy: &[i64], bx: &[i64], by: &[i64]) -> Op<usize> {
    Op::DotGeneral {
        contract_x: cx.to_vec(),
        contract_y: cy.to_vec(),
        batch_x: bx.to_vec(),
        batch_y: by.to_vec(),
    }
}

#[test]
fn integer_products_wrap() {
    let x = arr(&[2, 2], &[1i8, 2, 100, 100]);
    let got = run(
        &dot(&[1], &[0], &[], &[]),
        &[&x, &x],
        &ty(DType::I8, &[2, 2]),
    );
    assert_eq!(
        got.to::<i8>(),
        [
            201u8 as i8,
            202u8 as i8,
            (10_100 % 256) as u8 as i8,
            (10_200 % 256) as u8 as i8
        ]
    );
    let (a, b) = (arr(&[2], &[u64::MAX, 1]), arr(&[2], &[3u64, 4]));
    let got = run(&dot(&[0], &[0], &[], &[]), &[&a, &b], &ty(DType::U64, &[]));
    assert_eq!(got.to::<u64>(), [1]);
    let got = run(
        &dot(&[], &[], &[], &[]),
        &[&scalar(3i32), &scalar(4i32)],
        &ty(DType::I32, &[]),
    );
    assert_eq!(got.to::<i32>(), [12]);
}

/// Shapes, and the axes of `dot`.
type DotCase<'a> = (&'a [usize], &'a [usize], [&'a [i64]; 4]);

#[test]
fn any_rank_and_order() {
    let cases: [DotCase; 7] = [
        (&[3, 4], &[4, 5], [&[1], &[0], &[], &[]]),
        (&[4, 3], &[5, 4], [&[0], &[1], &[], &[]]),
        (&[2, 3, 4], &[2, 4, 5], [&[2], &[1], &[0], &[0]]),
        (&[2, 5, 3, 4], &[2, 6, 3, 4], [&[3], &[3], &[0, 2], &[0, 2]]),
        (&[2, 3, 4], &[4, 3, 5], [&[1, 2], &[1, 0], &[], &[]]),
        (&[3], &[3, 2], [&[], &[], &[0], &[0]]),
        (&[2, 3], &[4], [&[], &[], &[], &[]]),
    ];
    for (xs, ys, [cx, cy, bx, by]) in cases {
        let x = noise(5, xs.iter().product());
        let y = noise(6, ys.iter().product());
        let rest = |rank: usize, a: &[i64], b: &[i64]| -> Vec<usize> {
            (0..rank)
                .filter(|k| !a.contains(&(*k as i64)) && !b.contains(&(*k as i64)))
                .collect()
        };
        let (fx, fy) = (rest(xs.len(), cx, bx), rest(ys.len(), cy, by));
        let batch: Vec<usize> = bx.iter().map(|&a| xs[a as usize]).collect();
        let sums: Vec<usize> = cx.iter().map(|&a| xs[a as usize]).collect();
        let out = [
            batch.clone(),
            fx.iter().map(|&a| xs[a]).collect(),
            fy.iter().map(|&a| ys[a]).collect(),
        ]
        .concat();
        let mut want = Vec::new();
        for o in places(&out) {
            let mut sum = 0.0;
            for c in places(&sums) {
                let (mut i, mut j) = (vec![0; xs.len()], vec![0; ys.len()]);
                for (k, &v) in o[..batch.len()].iter().enumerate() {
                    (i[bx[k] as usize], j[by[k] as usize]) = (v, v);
                }
                for (k, &v) in c.iter().enumerate() {
                    (i[cx[k] as usize], j[cy[k] as usize]) = (v, v);
                }
                fx.iter()
                    .enumerate()
                    .for_each(|(k, &a)| i[a] = o[batch.len() + k]);
                fy.iter()
                    .enumerate()
                    .for_each(|(k, &a)| j[a] = o[batch.len() + fx.len() + k]);
                sum += x[flat(xs, &i)] * y[flat(ys, &j)];
            }
            want.push(sum);
        }
        let op = dot(cx, cy, bx, by);
        let got = run(&op, &[&arr(xs, &x), &arr(ys, &y)], &ty(DType::F64, &out)).to::<f64>();
        near(&got, &want, 1e-12);
    }
}

fn near(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (a, b) in got.iter().zip(want) {
        assert!(
            (a - b).abs() <= tolerance * (1.0 + b.abs()),
            "{a} is not {b}"
        );
    }
}

#[test]
fn small_floats_add_up_in_f32() {
    let n = 5000;
    let x = arr(&[1, n], &vec![f16::ONE; n]);
    let got = run(
        &dot(&[1], &[1], &[], &[]),
        &[&x, &x],
        &ty(DType::F16, &[1, 1]),
    );
    assert_eq!(got.to::<f16>()[0].to_f32(), 5000.0);
    let x = arr(&[n], &vec![bf16::from_f32(0.5); n]);
    let got = run(&dot(&[0], &[0], &[], &[]), &[&x, &x], &ty(DType::BF16, &[]));
    assert_eq!(got.to::<bf16>()[0], bf16::from_f32(1250.0));
}

#[test]
fn nothing_to_contract_gives_zeros() {
    let (x, y) = (arr::<f32>(&[2, 0], &[]), arr::<f32>(&[0, 3], &[]));
    let got = run(
        &dot(&[1], &[0], &[], &[]),
        &[&x, &y],
        &ty(DType::F32, &[2, 3]),
    );
    assert_eq!(got.to::<f32>(), [0.0; 6]);
    let got = run(
        &dot(&[0], &[1], &[], &[]),
        &[&y, &x],
        &ty(DType::F32, &[3, 2]),
    );
    assert_eq!(got.to::<f32>(), [0.0; 6]);
}

struct Case {
    n: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    spatial: Vec<[usize; 6]>,
}

/// Sizes: channels and filters are per group; spatial rows are input, kernel, stride, low, high, dilation.
fn cases() -> Vec<Case> {
    let case = |n, groups, channels, filters, spatial: &[[usize; 6]]| Case {
        n,
        groups,
        channels,
        filters,
        spatial: spatial.to_vec(),
    };
    vec![
        case(2, 1, 1, 1, &[[5, 3, 1, 0, 0, 1]]),
        case(1, 1, 3, 2, &[[7, 3, 2, 1, 0, 1]]),
        case(2, 2, 2, 3, &[[8, 2, 3, 0, 2, 2]]),
        case(2, 1, 3, 4, &[[6, 3, 1, 1, 1, 1], [5, 3, 1, 1, 1, 1]]),
        case(1, 1, 5, 2, &[[6, 3, 2, 0, 1, 1], [7, 2, 3, 2, 1, 2]]),
        case(2, 3, 1, 2, &[[6, 3, 1, 1, 1, 1], [6, 3, 2, 2, 0, 1]]),
        case(3, 1, 8, 8, &[[5, 1, 1, 0, 0, 1], [4, 1, 1, 0, 0, 1]]),
        case(1, 4, 1, 1, &[[9, 3, 1, 2, 2, 2], [9, 5, 1, 2, 2, 1]]),
        case(1, 1, 2, 3, &[[3, 3, 1, 4, 4, 1], [3, 2, 2, 3, 0, 1]]),
        case(
            1,
            1,
            2,
            2,
            &[[4, 2, 1, 0, 1, 1], [3, 2, 1, 1, 0, 1], [5, 3, 2, 1, 1, 1]],
        ),
        case(
            2,
            2,
            1,
            2,
            &[[4, 2, 2, 1, 1, 1], [3, 1, 1, 0, 0, 1], [4, 2, 1, 0, 0, 2]],
        ),
        case(2, 1, 2, 2, &[[2, 3, 1, 0, 0, 1]]),
        case(0, 1, 2, 2, &[[4, 3, 1, 0, 0, 1]]),
        case(1, 1, 16, 16, &[[12, 3, 1, 1, 1, 1], [12, 3, 1, 1, 1, 1]]),
    ]
}

#[test]
fn convolutions_and_their_adjoints() {
    for (number, c) in cases().iter().enumerate() {
        let column = |k: usize| -> Vec<usize> { c.spatial.iter().map(|row| row[k]).collect() };
        let ints = |k: usize| -> Vec<i64> { column(k).iter().map(|&v| v as i64).collect() };
        let (input, kernel) = (column(0), column(1));
        let output: Vec<usize> = c
            .spatial
            .iter()
            .map(|&[s, k, stride, low, high, d]| {
                let room = (s + low + high) as i64 - (d * (k - 1)) as i64 - 1;
                if room < 0 {
                    0
                } else {
                    room as usize / stride + 1
                }
            })
            .collect();
        let xs = [vec![c.n, c.channels * c.groups], input.clone()].concat();
        let ws = [vec![c.filters * c.groups, c.channels], kernel.clone()].concat();
        let os = [vec![c.n, c.filters * c.groups], output.clone()].concat();
        let x = noise(7, xs.iter().product());
        let w = noise(8, ws.iter().product());
        let ct = noise(9, os.iter().product());
        let mut y = vec![0.0; ct.len()];
        let mut dx = vec![0.0; x.len()];
        let mut dw = vec![0.0; w.len()];
        for o in places(&os) {
            for k in places(&ws[1..]) {
                let mut i = vec![o[0], o[1] / c.filters * c.channels + k[0]];
                let mut inside = true;
                for (axis, row) in c.spatial.iter().enumerate() {
                    let at = o[2 + axis] * row[2] + k[1 + axis] * row[5];
                    inside &= at >= row[3] && at - row[3] < row[0];
                    i.push(at.wrapping_sub(row[3]));
                }
                if inside {
                    let (i, o) = (flat(&xs, &i), (flat(&os, &o), o[1]));
                    let k = flat(&ws, &[vec![o.1], k].concat());
                    y[o.0] += x[i] * w[k];
                    dx[i] += ct[o.0] * w[k];
                    dw[k] += ct[o.0] * x[i];
                }
            }
        }
        let (strides, low, high, dilation) = (ints(2), ints(3), ints(4), ints(5));
        let groups = c.groups as i64;
        let forward = Op::Conv {
            strides: strides.clone(),
            low: low.clone(),
            high: high.clone(),
            dilation: dilation.clone(),
            groups,
        };
        let input_grad = Op::ConvInputGrad {
            strides: strides.clone(),
            low: low.clone(),
            high: high.clone(),
            dilation: dilation.clone(),
            groups,
            size: input,
        };
        let weight_grad = Op::ConvWeightGrad {
            strides,
            low,
            high,
            dilation,
            groups,
            size: kernel.iter().map(|&k| k as i64).collect(),
        };
        let check = |op: &Op<usize>,
                     a: (&[usize], &[f64]),
                     b: (&[usize], &[f64]),
                     out: &[usize],
                     want: &[f64]| {
            println!("case {number}: {op:?}");
            let got = run(op, &[&arr(a.0, a.1), &arr(b.0, b.1)], &ty(DType::F64, out));
            near(&got.to::<f64>(), want, 1e-12);
            let single = |v: (&[usize], &[f64])| -> Array {
                arr(v.0, &v.1.iter().map(|&v| v as f32).collect::<Vec<_>>())
            };
            let got = run(op, &[&single(a), &single(b)], &ty(DType::F32, out)).to::<f32>();
            near(
                &got.iter().map(|&v| v as f64).collect::<Vec<_>>(),
                want,
                3e-5,
            );
            let half = |v: (&[usize], &[f64])| -> Array {
                arr(
                    v.0,
                    &v.1.iter().map(|&v| bf16::from_f64(v)).collect::<Vec<_>>(),
                )
            };
            let got = run(op, &[&half(a), &half(b)], &ty(DType::BF16, out)).to::<bf16>();
            near(
                &got.iter().map(|&v| v.to_f64()).collect::<Vec<_>>(),
                want,
                0.3,
            );
        };
        check(&forward, (&xs, &x), (&ws, &w), &os, &y);
        check(&input_grad, (&os, &ct), (&ws, &w), &xs, &dx);
        check(&weight_grad, (&xs, &x), (&os, &ct), &ws, &dw);
    }
}
