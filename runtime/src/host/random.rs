//! Threefry-2x32 with 20 rounds.

use burn_std::Bytes;

use super::num::Int;
use super::{FINE_GRAIN, HostView, Out, parallel};
use crate::dtype::DType;
use crate::error::Result;

/// The block cipher of Random123.
#[inline(always)]
pub fn threefry2x32(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], 0x1BD1_1BDA ^ key[0] ^ key[1]];
    let mut a = counter[0].wrapping_add(keys[0]);
    let mut b = counter[1].wrapping_add(keys[1]);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(rotation) ^ a;
        }
        a = a.wrapping_add(keys[(group + 1) % 3]);
        b = b
            .wrapping_add(keys[(group + 2) % 3])
            .wrapping_add(group as u32 + 1);
    }
    [a, b]
}

const LANES: usize = 32;

/// The blocks of `LANES` consecutive counters.
#[inline]
fn blocks(key: [u32; 2], counter: u64) -> ([u32; LANES], [u32; LANES]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { fast_blocks(key, counter) };
    }
    plain_blocks(key, counter)
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fast_blocks(key: [u32; 2], counter: u64) -> ([u32; LANES], [u32; LANES]) {
    plain_blocks(key, counter)
}

#[inline(always)]
fn plain_blocks(key: [u32; 2], counter: u64) -> ([u32; LANES], [u32; LANES]) {
    let (mut a, mut b) = ([0; LANES], [0; LANES]);
    for lane in 0..LANES {
        let counter = counter + lane as u64;
        [a[lane], b[lane]] = threefry2x32(key, [(counter >> 32) as u32, counter as u32]);
    }
    (a, b)
}

/// The keys of a dense view whose last dim is 2.
fn key(keys: &HostView<'_>, i: usize) -> [u32; 2] {
    // SAFETY: the caller passes a dense view and an index within it.
    unsafe {
        let at = keys.ptr.cast::<u32>().add(2 * i);
        [*at, *at.add(1)]
    }
}

/// New keys from dense `keys` and dense `data`.
pub fn fold_in(keys: &HostView<'_>, data: &HostView<'_>) -> Bytes {
    let n = data.elements();
    let mut out = Out::new(2 * n, 4);
    let to = out.shared();
    parallel(n, FINE_GRAIN, &|range| {
        for i in range {
            // SAFETY: `data` and the result have as many entries as there are keys.
            unsafe {
                let word = *data.ptr.cast::<u32>().add(i);
                *to.at::<[u32; 2]>(i) = threefry2x32(key(keys, i), [0, word]);
            }
        }
    });
    // SAFETY: filled above.
    unsafe { out.finish() }
}

/// `per_key` random words from each of dense `keys`.
pub fn bits(keys: &HostView<'_>, per_key: usize, dtype: DType) -> Result<Bytes> {
    let n = keys.elements() / 2 * per_key;
    let mut out = Out::new(n, dtype.itemsize());
    let to = out.shared();
    with_int!("random_bits", dtype, T => parallel(n, FINE_GRAIN, &|range| {
        let mut i = range.start;
        while i < range.end {
            let (k, counter) = (i / per_key, i % per_key);
            let count = (per_key - counter).min(range.end - i).min(LANES);
            let (a, b) = blocks(key(keys, k), counter as u64);
            for lane in 0..count {
                let word = if size_of::<T>() == 8 {
                    (a[lane] as u64) << 32 | b[lane] as u64
                } else {
                    (a[lane] ^ b[lane]) as u64
                };
                // SAFETY: within the result; tasks have disjoint ranges.
                unsafe { *to.at::<T>(i + lane) = T::truncate(word) };
            }
            i += count;
        }
    }));
    // SAFETY: filled above.
    Ok(unsafe { out.finish() })
}

#[cfg(test)]
mod tests {
    use super::threefry2x32;

    #[test]
    fn known_vectors() {
        let ones = [u32::MAX; 2];
        assert_eq!(threefry2x32([0; 2], [0; 2]), [0x6b200159, 0x99ba4efe]);
        assert_eq!(threefry2x32(ones, ones), [0x1cb996fc, 0xbb002be7]);
        assert_eq!(
            threefry2x32([0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3]),
            [0xc4923a9c, 0x483df7a0]
        );
    }
}
