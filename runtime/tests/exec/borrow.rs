use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn_flex::{Flex, FlexDevice};
use dala_runtime::backend::ExecBackend;
use dala_runtime::dtype::DType;
use dala_runtime::exec::execute;
use dala_runtime::op::{Binary, Op, Unary};
use dala_runtime::value::Val;

use crate::array::{read, ty};

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn borrow(
    data: &[f32],
    first: usize,
    strides: &[isize],
    shape: &[usize],
) -> (Val<Flex>, Arc<AtomicUsize>) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let owner = Box::new(Guard(dropped.clone()));
    let ptr = data[first..].as_ptr().cast();
    let ty = ty(DType::F32, shape);
    // SAFETY: the tests' arrays outlive the values over them, and strides stay within.
    let val = unsafe { Flex::borrow(ptr, strides, &ty, owner, &FlexDevice) }.unwrap();
    (val, dropped)
}

#[test]
fn borrowed_memory_is_not_copied_and_never_written() {
    let data: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let before = data.clone();
    let t = ty(DType::F32, &[4096]);
    let ops: [(Op<usize>, usize); 4] = [
        (Op::Unary(Unary::Neg), 1),
        (Op::Binary(Binary::Add), 2),
        (Op::Unary(Unary::Exp), 1),
        (
            Op::ScatterSet {
                axis: 0,
                batch_dims: 0,
                mode: "clip".into(),
            },
            3,
        ),
    ];
    for (op, n) in ops {
        let (val, dropped) = borrow(&data, 0, &[4], &[4096]);
        assert_eq!(Flex::view(&val).unwrap().ptr, data.as_ptr().cast());
        let other = borrow(&data, 0, &[4], &[4096]).0;
        let (args, types) = match n {
            1 => (vec![val], vec![t.clone()]),
            2 => (vec![val, other], vec![t.clone(); 2]),
            _ => {
                let i = crate::array::arr(&[4096], &[3i32; 4096]);
                let types = vec![t.clone(), i.ty.clone(), t.clone()];
                (vec![val, i.upload(), other], types)
            }
        };
        let out = execute::<Flex>(&FlexDevice, &op, args, &types, &t).unwrap();
        assert_eq!(data, before, "{op:?} wrote to borrowed memory");
        drop(out);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn borrowed_memory_goes_through_burn_unharmed() {
    let data: Vec<f32> = (0..4096).map(|i| i as f32 / 4096.0).collect();
    let before = data.clone();
    let (x, _) = borrow(&data, 0, &[256, 4], &[64, 64]);
    let (y, _) = borrow(&data, 0, &[4, 256], &[64, 64]);
    let op = Op::DotGeneral {
        contract_x: vec![1],
        contract_y: vec![0],
        batch_x: vec![],
        batch_y: vec![],
    };
    let t = ty(DType::F32, &[64, 64]);
    let got = execute::<Flex>(&FlexDevice, &op, vec![x, y], &[t.clone(), t.clone()], &t).unwrap();
    let got = read(&got, &t).to::<f32>();
    let want: f64 = (0..64).map(|k| (data[64 + k] as f64).powi(2)).sum();
    assert!((got[65] as f64 - want).abs() < 1e-5);
    assert_eq!(data, before);
}

#[test]
fn strides_may_be_negative_zero_or_odd() {
    let data: Vec<f32> = (0..8192).map(|i| i as f32).collect();
    let (val, dropped) = borrow(&data, 8191, &[-4], &[8192]);
    let got = read(&val, &ty(DType::F32, &[8192])).to::<f32>();
    assert!(got.iter().enumerate().all(|(i, &v)| v == (8191 - i) as f32));
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    let (val, _) = borrow(&data, 5, &[0, 4], &[3, 4000]);
    let got = read(&val, &ty(DType::F32, &[3, 4000])).to::<f32>();
    assert!(
        got.iter()
            .enumerate()
            .all(|(i, &v)| v == (5 + i % 4000) as f32)
    );
    // A field of a packed record of 6 bytes.
    let packed: Vec<u8> = (0..2000)
        .flat_map(|i: i32| [i.to_le_bytes().to_vec(), vec![1, 2]].concat())
        .collect();
    let dropped = Arc::new(AtomicUsize::new(0));
    let owner = Box::new(Guard(dropped.clone()));
    let t = ty(DType::I32, &[2000]);
    // SAFETY: the tests' arrays outlive the values over them, and strides stay within.
    let val = unsafe { Flex::borrow(packed.as_ptr(), &[6], &t, owner, &FlexDevice) }.unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_eq!(read(&val, &t).to::<i32>(), (0..2000).collect::<Vec<_>>());
    let (val, dropped) = borrow(&data, 0, &[4], &[16]);
    assert_ne!(Flex::view(&val).unwrap().ptr, data.as_ptr().cast());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let (val, _) = borrow(&data, 0, &[4, 4], &[0, 7]);
    assert!(read(&val, &ty(DType::F32, &[0, 7])).bytes.is_empty());
}
