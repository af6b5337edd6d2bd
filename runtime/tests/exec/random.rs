use dala_runtime::dtype::DType;
use dala_runtime::op::Op;

use crate::array::{arr, keys, run, ty};

#[test]
fn known_vectors() {
    let key = keys(&[3], &[0, 0, u32::MAX, u32::MAX, 7, 9]);
    let data = arr(&[3], &[0u32, 1, 2]);
    let got = run(&Op::RandomFoldIn, &[&key, &data], &ty(DType::Key, &[3]));
    let first = got.bytes[..8].to_vec();
    assert_eq!(first, keys(&[], &[0x6b200159, 0x99ba4efe]).bytes);
}

#[test]
fn bits_of_every_width_agree() {
    let key = keys(&[2], &[1, 2, 3, 4]);
    let bits = |dtype| {
        let op = Op::RandomBits {
            shape: vec![2, 3],
            dtype,
        };
        run(&op, &[&key], &ty(dtype, &[2, 2, 3]))
    };
    let (wide, word) = (bits(DType::U64).to::<u64>(), bits(DType::U32).to::<u32>());
    let (half, byte) = (bits(DType::U16).to::<u16>(), bits(DType::U8).to::<u8>());
    for i in 0..12 {
        assert_eq!(word[i], (wide[i] >> 32) as u32 ^ wide[i] as u32);
        assert_eq!(half[i], word[i] as u16);
        assert_eq!(byte[i], word[i] as u8);
    }
    let zero = keys(&[], &[0, 0]);
    let op = Op::RandomBits {
        shape: vec![1],
        dtype: DType::U64,
    };
    let got = run(&op, &[&zero], &ty(DType::U64, &[1])).to::<u64>();
    assert_eq!(got, [0x6b200159_99ba4efe]);
    let op = Op::RandomBits {
        shape: vec![0],
        dtype: DType::U8,
    };
    assert!(run(&op, &[&key], &ty(DType::U8, &[2, 0])).bytes.is_empty());
}

#[test]
fn wrap_and_unwrap_keep_the_words() {
    let words = arr(&[2, 2], &[1u32, 2, 3, 4]);
    let key = run(&Op::RandomWrap, &[&words], &ty(DType::Key, &[2]));
    assert_eq!(key, keys(&[2], &[1, 2, 3, 4]));
    assert_eq!(
        run(&Op::RandomUnwrap, &[&key], &ty(DType::U32, &[2, 2])),
        words
    );
}
