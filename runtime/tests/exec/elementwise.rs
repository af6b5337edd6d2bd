use dala_runtime::dtype::DType;
use dala_runtime::op::{Binary, Op, Unary};
use half::{bf16, f16};

use crate::array::{Array, Item, arr, keys, noise, run, scalar, ty};

fn un<T: Item, R: Item>(op: Op<usize>, x: &[T]) -> Vec<R> {
    run(&op, &[&arr(&[x.len()], x)], &ty(R::DTYPE, &[x.len()])).to()
}

fn bin<T: Item, R: Item>(op: Op<usize>, x: &[T], y: &[T]) -> Vec<R> {
    let n = x.len();
    run(&op, &[&arr(&[n], x), &arr(&[n], y)], &ty(R::DTYPE, &[n])).to()
}

fn cast<T: Item, R: Item>(x: &[T]) -> Vec<R> {
    un(Op::Cast { dtype: R::DTYPE }, x)
}

fn same(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        assert!(
            x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()),
            "{a:?} is not {b:?}"
        );
    }
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn integers_wrap() {
    assert_eq!(un::<i8, i8>(Op::Unary(Unary::Neg), &[-128, 5]), [-128, -5]);
    assert_eq!(un::<u8, u8>(Op::Unary(Unary::Neg), &[1, 0]), [255, 0]);
    assert_eq!(
        un::<i16, i16>(Op::Unary(Unary::Abs), &[i16::MIN, -3]),
        [i16::MIN, 3]
    );
    assert_eq!(
        un::<u64, u64>(Op::Unary(Unary::Abs), &[u64::MAX]),
        [u64::MAX]
    );
    assert_eq!(
        un::<i64, i64>(Op::Unary(Unary::Sign), &[i64::MIN, 0, 9]),
        [-1, 0, 1]
    );
    assert_eq!(un::<u32, u32>(Op::Unary(Unary::Sign), &[0, 9]), [0, 1]);
    assert_eq!(
        bin::<u64, u64>(Op::Binary(Binary::Add), &[u64::MAX], &[2]),
        [1]
    );
    assert_eq!(
        bin::<i64, i64>(Op::Binary(Binary::Mul), &[1 << 62], &[4]),
        [0]
    );
    assert_eq!(bin::<u8, u8>(Op::Binary(Binary::Sub), &[1], &[2]), [255]);
}

#[test]
fn integer_division_floors() {
    let x = [7, -7, 7, -7, 5, i32::MIN, i32::MIN, 0];
    let y = [2, 2, -2, -2, 0, -1, 0, -3];
    assert_eq!(
        bin::<i32, i32>(Op::Binary(Binary::FloorDivide), &x, &y),
        [3, -4, -4, 3, 0, i32::MIN, 0, 0]
    );
    assert_eq!(
        bin::<i32, i32>(Op::Binary(Binary::Remainder), &x, &y),
        [1, 1, -1, -1, 0, 0, 0, 0]
    );
    assert_eq!(
        bin::<u64, u64>(Op::Binary(Binary::FloorDivide), &[u64::MAX, 3], &[2, 0]),
        [u64::MAX / 2, 0]
    );
    assert_eq!(
        bin::<u64, u64>(Op::Binary(Binary::Remainder), &[u64::MAX, 3], &[10, 0]),
        [5, 0]
    );
}

#[test]
fn integer_powers_and_shifts() {
    assert_eq!(
        bin::<i32, i32>(
            Op::Binary(Binary::Power),
            &[2, -1, -1, 1, 0, 0, 3, 2],
            &[-1, -3, -2, -9, -1, 0, 5, 33]
        ),
        [0, -1, 1, 1, 0, 1, 243, 0]
    );
    assert_eq!(
        bin::<u8, u8>(Op::Binary(Binary::Power), &[255, 3], &[2, 6]),
        [1, 217]
    );
    assert_eq!(
        bin::<i8, i8>(
            Op::Binary(Binary::LeftShift),
            &[1, 1, 1, -1],
            &[7, 8, -1, 1]
        ),
        [-128, 0, 0, -2]
    );
    assert_eq!(
        bin::<i8, i8>(
            Op::Binary(Binary::RightShift),
            &[-128, -1, 64, -5, 5],
            &[7, 8, 100, -1, -1]
        ),
        [-1, -1, 0, -1, 0]
    );
    assert_eq!(
        bin::<u16, u16>(Op::Binary(Binary::RightShift), &[0x8000, 9], &[15, 16]),
        [1, 0]
    );
    assert_eq!(
        un::<u8, u8>(Op::Unary(Unary::BitwiseNot), &[0, 0xF0]),
        [255, 15]
    );
    assert_eq!(
        un::<bool, bool>(Op::Unary(Unary::BitwiseNot), &[true, false]),
        [false, true]
    );
    assert_eq!(
        bin::<bool, bool>(
            Op::Binary(Binary::BitwiseXor),
            &[true, true, false],
            &[true, false, false]
        ),
        [false, true, false]
    );
    assert_eq!(
        bin::<i64, i64>(Op::Binary(Binary::BitwiseAnd), &[-1], &[i64::MIN]),
        [i64::MIN]
    );
}

#[test]
fn float_division_is_that_of_numpy() {
    // Columns: what NumPy 2 gives for `x // y` and `x % y`.
    let x = [
        7.5, -7.5, 1.0, -1.0, 1.0, 0.0, -0.0, INF, 1.0, 0.0, NAN, -1.0, 1.0,
    ];
    let y = [
        2.0, 2.0, -2.0, INF, -INF, 3.0, 3.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.1,
    ];
    same(
        &bin::<f64, f64>(Op::Binary(Binary::FloorDivide), &x, &y),
        &[
            3.0, -4.0, -1.0, -1.0, -1.0, 0.0, -0.0, NAN, INF, NAN, NAN, -INF, 9.0,
        ],
    );
    same(
        &bin::<f64, f64>(Op::Binary(Binary::Remainder), &x, &y),
        &[
            1.5,
            0.5,
            -1.0,
            INF,
            -INF,
            0.0,
            0.0,
            NAN,
            NAN,
            NAN,
            NAN,
            NAN,
            1.0 % 0.1,
        ],
    );
    assert_eq!(
        bin::<f16, f16>(
            Op::Binary(Binary::Remainder),
            &[f16::from_f32(-1.0)],
            &[f16::from_f32(3.0)]
        )[0]
        .to_f32(),
        2.0
    );
}

#[test]
fn nan_wins_maxima() {
    same(
        &bin::<f64, f64>(
            Op::Binary(Binary::Maximum),
            &[NAN, 1.0, 1.0],
            &[1.0, NAN, 2.0],
        ),
        &[NAN, NAN, 2.0],
    );
    same(
        &bin::<f64, f64>(
            Op::Binary(Binary::Minimum),
            &[NAN, 1.0, 1.0],
            &[1.0, NAN, 2.0],
        ),
        &[NAN, NAN, 1.0],
    );
    assert_eq!(
        bin::<bool, bool>(Op::Binary(Binary::Maximum), &[true, false], &[false, false]),
        [true, false]
    );
    assert_eq!(
        bin::<bool, bool>(Op::Binary(Binary::Minimum), &[true, true], &[false, true]),
        [false, true]
    );
    assert_eq!(
        bin::<u64, u64>(Op::Binary(Binary::Maximum), &[u64::MAX], &[1]),
        [u64::MAX]
    );
    same(
        &bin::<f64, f64>(
            Op::Binary(Binary::MulStrongZero),
            &[0.0, -0.0, 2.0],
            &[INF, NAN, INF],
        ),
        &[0.0, 0.0, INF],
    );
}

#[test]
fn comparisons() {
    let (x, y) = ([1.0, NAN, 0.0], [1.0, NAN, -0.0]);
    assert_eq!(
        bin::<f64, bool>(Op::Binary(Binary::Equal), &x, &y),
        [true, false, true]
    );
    assert_eq!(
        bin::<f64, bool>(Op::Binary(Binary::NotEqual), &x, &y),
        [false, true, false]
    );
    assert_eq!(
        bin::<f64, bool>(Op::Binary(Binary::LessEqual), &x, &y),
        [true, false, true]
    );
    assert_eq!(
        bin::<bool, bool>(Op::Binary(Binary::Less), &[false, true], &[true, false]),
        [true, false]
    );
    assert_eq!(
        bin::<u64, bool>(Op::Binary(Binary::Greater), &[1 << 63], &[1]),
        [true]
    );
    let (a, b) = ((1i64 << 53) + 1, 1i64 << 53);
    assert_eq!(
        bin::<i64, bool>(Op::Binary(Binary::Greater), &[a], &[b]),
        [true]
    );
    assert_eq!(
        bin::<i8, bool>(Op::Binary(Binary::GreaterEqual), &[-1], &[1]),
        [false]
    );
}

#[test]
fn float_functions_at_the_edge() {
    same(
        &un::<f64, f64>(Op::Unary(Unary::Round), &[0.5, 1.5, -2.5, -0.4]),
        &[0.0, 2.0, -2.0, -0.0],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Sign), &[NAN, -0.0, 3.0]),
        &[NAN, -0.0, 1.0],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Rsqrt), &[0.0, -0.0, INF, -1.0]),
        &[INF, -INF, 0.0, NAN],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Log), &[0.0, -1.0, INF]),
        &[-INF, NAN, INF],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Log1p), &[-1.0, -0.0, -2.0]),
        &[-INF, -0.0, NAN],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Expm1), &[-INF, -0.0, 1e-300]),
        &[-1.0, -0.0, 1e-300],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Arcsinh), &[-0.0, INF, 0.0]),
        &[-0.0, INF, 0.0],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Arccosh), &[1.0, 0.5, INF]),
        &[0.0, NAN, INF],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Arctanh), &[1.0, -1.0, 2.0, -0.0]),
        &[INF, -INF, NAN, -0.0],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Erf), &[INF, -INF, NAN, -0.0]),
        &[1.0, -1.0, NAN, -0.0],
    );
    same(
        &un::<f64, f64>(Op::Unary(Unary::Sigmoid), &[INF, -INF, 0.0, NAN]),
        &[1.0, 0.0, 0.5, NAN],
    );
    let small = un::<f32, f32>(Op::Unary(Unary::Sigmoid), &[-100.0])[0];
    assert!((small as f64 - 3.783506e-44).abs() < 2e-45, "{small:e}");
    let large = un::<f32, f32>(Op::Unary(Unary::Arccosh), &[3e38])[0];
    assert!((large - 89.289_99).abs() < 1e-4, "{large}");
    assert_eq!(
        un::<f64, bool>(Op::Unary(Unary::Isfinite), &[1.0, INF, NAN]),
        [true, false, false]
    );
    assert_eq!(
        un::<f16, bool>(Op::Unary(Unary::Isnan), &[f16::NAN, f16::INFINITY]),
        [true, false]
    );
    same(
        &bin::<f64, f64>(
            Op::Binary(Binary::Power),
            &[1.0, NAN, 0.0],
            &[NAN, 0.0, -1.0],
        ),
        &[1.0, 1.0, INF],
    );
    same(
        &bin::<f64, f64>(
            Op::Binary(Binary::Arctan2),
            &[0.0, -0.0, 1.0],
            &[-1.0, -1.0, 0.0],
        ),
        &[
            std::f64::consts::PI,
            -std::f64::consts::PI,
            std::f64::consts::FRAC_PI_2,
        ],
    );
}

#[test]
fn small_floats_round_once() {
    let x = [f16::from_f32(0.1), f16::from_f32(1000.0)];
    let y: Vec<f16> = un(Op::Unary(Unary::Exp), &x[..1]);
    assert_eq!(y[0], f16::from_f32(f32::exp(x[0].to_f32())));
    let z: Vec<bf16> = bin(
        Op::Binary(Binary::Mul),
        &[bf16::from_f32(1.01)],
        &[bf16::from_f32(3.3)],
    );
    let exact = bf16::from_f32(1.01).to_f32() * bf16::from_f32(3.3).to_f32();
    assert_eq!(z[0], bf16::from_f32(exact));
}

#[test]
fn casts_saturate_wrap_and_round() {
    let x = [300.9, -300.9, NAN, INF, -INF, -1.9];
    assert_eq!(cast::<f64, i8>(&x), [127, -128, 0, 127, -128, -1]);
    assert_eq!(cast::<f64, u8>(&x), [255, 0, 0, 255, 0, 0]);
    assert_eq!(cast::<f32, u64>(&[1e30, -5.0]), [u64::MAX, 0]);
    assert_eq!(
        cast::<f16, i16>(&[f16::INFINITY, f16::from_f32(-2.5)]),
        [i16::MAX, -2]
    );
    assert_eq!(cast::<i32, u8>(&[-1, 256, 257]), [255, 0, 1]);
    assert_eq!(cast::<u64, i64>(&[u64::MAX]), [-1]);
    assert_eq!(cast::<i64, i32>(&[(1 << 40) + 7]), [7]);
    assert_eq!(
        cast::<f32, bool>(&[0.0, -0.0, f32::NAN, 0.1]),
        [false, false, true, true]
    );
    assert_eq!(cast::<u8, bool>(&[0, 2]), [false, true]);
    assert_eq!(cast::<bool, f16>(&[true, false]), [f16::ONE, f16::ZERO]);
    assert_eq!(cast::<bool, i64>(&[true]), [1]);
    assert_eq!(cast::<u64, f64>(&[u64::MAX]), [18446744073709551615.0]);
    // Just above a tie of f16, by less than f32 can hold.
    let tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(cast::<f64, f16>(&[tie])[0].to_bits(), 0x3C01);
    assert_eq!(cast::<f64, f16>(&[1e6])[0], f16::INFINITY);
    assert_eq!(cast::<f64, f32>(&[1e300, 0.1]), [f32::INFINITY, 0.1]);
}

#[test]
fn broadcasting_both_ways() {
    let (a, b) = (arr(&[3, 1], &[1i32, 2, 3]), arr(&[2], &[10, 20]));
    let out = ty(DType::I32, &[3, 2]);
    assert_eq!(
        run(&Op::Binary(Binary::Sub), &[&a, &b], &out).to::<i32>(),
        [-9, -19, -8, -18, -7, -17]
    );
    assert_eq!(
        run(&Op::Binary(Binary::Sub), &[&b, &a], &out).to::<i32>(),
        [9, 19, 8, 18, 7, 17]
    );
    let s = scalar(100i32);
    let full = arr(&[3, 2], &[1i32, 2, 3, 4, 5, 6]);
    assert_eq!(
        run(&Op::Binary(Binary::Sub), &[&s, &full], &out).to::<i32>(),
        [99, 98, 97, 96, 95, 94]
    );
    assert_eq!(
        run(&Op::Binary(Binary::Sub), &[&full, &s], &out).to::<i32>(),
        [-99, -98, -97, -96, -95, -94]
    );
    assert_eq!(
        run(&Op::Binary(Binary::Sub), &[&full, &a], &out).to::<i32>(),
        [0, 1, 1, 2, 2, 3]
    );
    assert_eq!(
        run(&Op::Binary(Binary::Sub), &[&b, &full], &out).to::<i32>(),
        [9, 18, 7, 16, 5, 14]
    );
    let none = arr::<i32>(&[0, 1], &[]);
    assert!(
        run(
            &Op::Binary(Binary::Add),
            &[&none, &b],
            &ty(DType::I32, &[0, 2])
        )
        .bytes
        .is_empty()
    );
    let one = scalar(2.0f32);
    assert_eq!(
        run(
            &Op::Binary(Binary::Mul),
            &[&one, &one],
            &ty(DType::F32, &[])
        )
        .to::<f32>(),
        [4.0]
    );
}

#[test]
fn large_operands_are_split_and_broadcast_right() {
    let n = 300_001;
    let x: Vec<f32> = noise(1, n).iter().map(|&v| v as f32).collect();
    let y: Vec<f32> = noise(2, n).iter().map(|&v| v as f32).collect();
    let got: Vec<f32> = bin(Op::Binary(Binary::Sub), &x, &y);
    assert!((0..n).all(|i| got[i] == x[i] - y[i]));
    let got: Vec<f32> = un(Op::Unary(Unary::Tanh), &x);
    assert!((0..n).all(|i| got[i] == x[i].tanh()));
    let (a, b) = (arr(&[700, 1, 50], &x[..35_000]), arr(&[9, 50], &y[..450]));
    let got = run(
        &Op::Binary(Binary::Sub),
        &[&a, &b],
        &ty(DType::F32, &[700, 9, 50]),
    )
    .to::<f32>();
    for (i, v) in got.into_iter().enumerate() {
        assert_eq!(v, x[i / 450 * 50 + i % 50] - y[i % 450]);
    }
}

#[test]
fn select_broadcasts_all_three() {
    let cond = arr(&[2, 1], &[true, false]);
    let (x, y) = (arr(&[3], &[1i16, 2, 3]), scalar(9i16));
    let out = ty(DType::I16, &[2, 3]);
    assert_eq!(
        run(&Op::Select, &[&cond, &x, &y], &out).to::<i16>(),
        [1, 2, 3, 9, 9, 9]
    );
    let (k, l) = (keys(&[2], &[1, 2, 3, 4]), keys(&[], &[5, 6]));
    let cond = arr(&[2], &[false, true]);
    let got: Array = run(&Op::Select, &[&cond, &k, &l], &ty(DType::Key, &[2]));
    assert_eq!(got, keys(&[2], &[5, 6, 3, 4]));
    let full = arr(&[4], &[1.0f64, 2.0, 3.0, 4.0]);
    let other = arr(&[4], &[-1.0f64, -2.0, -3.0, -4.0]);
    let cond = arr(&[4], &[true, false, false, true]);
    let got = run(&Op::Select, &[&cond, &full, &other], &ty(DType::F64, &[4]));
    assert_eq!(got.to::<f64>(), [1.0, -2.0, -3.0, 4.0]);
    assert_eq!(run(&Op::StopGradient, &[&k], &ty(DType::Key, &[2])), k);
}
