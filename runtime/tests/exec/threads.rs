use dala_runtime::dtype::DType;
use dala_runtime::op::{Op, Unary};

use crate::array::{Array, arr, keys, noise, run, ty};

/// The results of some ops large enough to be split.
fn results() -> Vec<Array> {
    let n = 400 * 700;
    let x: Vec<f32> = noise(11, n).iter().map(|&v| v as f32).collect();
    let (flat, wide) = (arr(&[n], &x), arr(&[400, 700], &x));
    let sum = |axes: &[i64], shape: &[usize], x: &Array| {
        run(
            &Op::Sum {
                axes: axes.to_vec(),
            },
            &[x],
            &ty(DType::F32, shape),
        )
    };
    let dot = Op::DotGeneral {
        contract_x: vec![1],
        contract_y: vec![1],
        batch_x: vec![],
        batch_y: vec![],
    };
    let bits = Op::RandomBits {
        shape: vec![n],
        dtype: DType::U16,
    };
    let scan = Op::Cumsum {
        axis: 0,
        reverse: true,
    };
    let image: Vec<f32> = x[..4 * 16 * 40 * 40].to_vec();
    let (image, kernel) = (
        arr(&[4, 16, 40, 40], &image),
        arr(&[20, 16, 3, 3], &x[..20 * 16 * 9]),
    );
    let (strides, pad) = (vec![1, 1], vec![1, 1]);
    let conv = Op::Conv {
        strides: strides.clone(),
        low: pad.clone(),
        high: pad.clone(),
        dilation: strides.clone(),
        groups: 1,
    };
    let y = run(&conv, &[&image, &kernel], &ty(DType::F32, &[4, 20, 40, 40]));
    let input_grad = Op::ConvInputGrad {
        strides: strides.clone(),
        low: pad.clone(),
        high: pad.clone(),
        dilation: strides.clone(),
        groups: 1,
        size: vec![40, 40],
    };
    let weight_grad = Op::ConvWeightGrad {
        strides: strides.clone(),
        low: pad.clone(),
        high: pad,
        dilation: strides,
        groups: 1,
        size: vec![3, 3],
    };
    vec![
        run(&input_grad, &[&y, &kernel], &image.ty),
        run(&weight_grad, &[&image, &y], &kernel.ty),
        y,
        run(&Op::Unary(Unary::Exp), &[&flat], &flat.ty),
        sum(&[0], &[], &flat),
        sum(&[0], &[700], &wide),
        sum(&[1], &[400], &wide),
        run(&scan, &[&wide], &wide.ty),
        run(&dot, &[&wide, &wide], &ty(DType::F32, &[400, 400])),
        run(&bits, &[&keys(&[], &[1, 2])], &ty(DType::U16, &[n])),
    ]
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(results)
    };
    let one = with(1);
    for threads in [2, 3] {
        assert!(with(threads) == one, "{threads} threads differ from one");
    }
}
