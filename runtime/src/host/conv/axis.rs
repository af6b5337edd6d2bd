//! How one axis is walked over: which elements are copied, and where in the copy each tap of the kernel finds its own.

use super::Conv;

/// A tap of the kernel that meets the operand somewhere, and how far into the copy it is at the first place.
#[derive(Clone, Copy, Debug)]
pub struct Tap {
    pub tap: usize,
    pub offset: usize,
}

/// Places of the result that the same taps add to, one element of the copy apart: `first`, `first + stride`, ...
#[derive(Clone, Debug)]
pub struct Sweep {
    pub first: usize,
    pub stride: usize,
    pub places: usize,
    pub taps: Vec<Tap>,
}

/// The copy has a part of `len` elements for each of `starts`: the operand's from there on, `step` apart, and zeros
/// where it has none. Taps that only ever meet padding are left out, so the copy is never much longer than operand and
/// result, however large the padding.
#[derive(Clone, Debug)]
pub struct Axis {
    pub starts: Vec<i128>,
    pub step: usize,
    pub len: usize,
    /// Elements of the operand.
    pub size: usize,
    pub sweeps: Vec<Sweep>,
}

impl Axis {
    /// Place `o` of the output reads the input at `o * stride + tap * dilation - low`.
    pub fn forward(c: &Conv, axis: usize) -> Axis {
        let (size, places) = (c.input[axis], c.output[axis]);
        let stride = c.strides[axis] as i128;
        // (tap, places by which its element at the first place is ahead, part of the copy by remainder)
        let mut live: Vec<(usize, i128, i128)> = Vec::new();
        for tap in 0..c.kernel[axis] {
            let at = tap as i128 * c.dilation[axis] as i128 - c.low[axis] as i128;
            let (ahead, rest) = (at.div_euclid(stride), at.rem_euclid(stride));
            // The first place that is not before the input.
            let first = if at < 0 { (-at - 1) / stride + 1 } else { 0 };
            if first < places as i128 && first * stride + at < size as i128 {
                live.push((tap, ahead, rest));
            }
        }
        let least = live.iter().map(|t| t.1).min().unwrap_or(0);
        let most = live.iter().map(|t| t.1).max().unwrap_or(0);
        let len = if live.is_empty() {
            0
        } else {
            places + (most - least) as usize
        };
        let mut rests: Vec<i128> = live.iter().map(|t| t.2).collect();
        rests.sort_unstable();
        rests.dedup();
        let taps = live.iter().map(|&(tap, ahead, rest)| Tap {
            tap,
            offset: rests.partition_point(|&r| r < rest) * len + (ahead - least) as usize,
        });
        let sweep = Sweep {
            first: 0,
            stride: 1,
            places,
            taps: taps.collect(),
        };
        Axis {
            starts: rests.iter().map(|rest| least * stride + rest).collect(),
            step: c.strides[axis],
            len,
            size,
            sweeps: vec![sweep],
        }
    }

    /// Place `i` of the input gets from the output at `(i + low - tap * dilation) / stride`, where that is whole: each
    /// remainder has taps of its own.
    pub fn backward(c: &Conv, axis: usize) -> Axis {
        let (size, kernel) = (c.output[axis], c.kernel[axis]);
        let (stride, dilation) = (c.strides[axis], c.dilation[axis] as i128);
        let mut sweeps: Vec<(Sweep, Vec<(usize, i128)>)> = Vec::new();
        let mut by_rest: Vec<(i128, usize)> = (0..kernel)
            .map(|tap| ((tap as i128 * dilation).rem_euclid(stride as i128), tap))
            .collect();
        by_rest.sort_unstable();
        let mut rests: Vec<i128> = by_rest.iter().map(|t| t.0).collect();
        rests.dedup();
        for rest in rests {
            let first = (rest - c.low[axis] as i128).rem_euclid(stride as i128) as usize;
            if first >= c.input[axis] {
                continue;
            }
            let places = (c.input[axis] - first).div_ceil(stride);
            let at = first as i128 + c.low[axis] as i128;
            let ahead = at / stride as i128;
            let from = by_rest.partition_point(|t| t.0 < rest);
            let own = by_rest[from..].iter().take_while(|t| t.0 == rest);
            let begins =
                own.map(|&(_, tap)| (tap, ahead - tap as i128 * dilation / stride as i128));
            let live = begins.filter(|&(_, begin)| {
                let p = (-begin).max(0);
                p < places as i128 && p + begin < size as i128
            });
            let live: Vec<(usize, i128)> = live.collect();
            if !live.is_empty() {
                let sweep = Sweep {
                    first,
                    stride,
                    places,
                    taps: Vec::new(),
                };
                sweeps.push((sweep, live));
            }
        }
        let all = sweeps
            .iter()
            .flat_map(|(s, live)| live.iter().map(move |t| (s, t.1)));
        let least = all.clone().map(|(_, begin)| begin).min().unwrap_or(0);
        let end = all
            .map(|(s, begin)| begin + s.places as i128)
            .max()
            .unwrap_or(0);
        let sweeps = sweeps.into_iter().map(|(sweep, live)| Sweep {
            taps: live
                .iter()
                .map(|&(tap, begin)| Tap {
                    tap,
                    offset: (begin - least) as usize,
                })
                .collect(),
            ..sweep
        });
        Axis {
            starts: vec![least],
            step: 1,
            len: (end - least) as usize,
            size,
            sweeps: sweeps.collect(),
        }
    }

    /// At least the elements of the copy that `forward` makes, without a look at each tap: of sizes that nobody has
    /// memory for, too. None where the operand serves as it is.
    pub fn forward_bound(c: &Conv, axis: usize) -> Option<usize> {
        let (stride, places) = (c.strides[axis] as i128, c.output[axis] as i128);
        let (low, size) = (c.low[axis] as i128, c.input[axis] as i128);
        let reach = (c.kernel[axis] as i128 - 1) * c.dilation[axis] as i128;
        if stride == 1 && low == 0 && size == places + reach {
            return None;
        }
        let least = (-low).div_euclid(stride).max(1 - places);
        let most = (reach - low).div_euclid(stride).min(size / stride);
        let parts = stride.min(c.kernel[axis] as i128);
        Some(whole(parts * (places + (most - least).max(0))))
    }

    /// The same for `backward`.
    pub fn backward_bound(c: &Conv, axis: usize) -> Option<usize> {
        let (stride, size) = (c.strides[axis] as i128, c.output[axis] as i128);
        let (low, input) = (c.low[axis] as i128, c.input[axis] as i128);
        let reach = (c.kernel[axis] as i128 - 1) * c.dilation[axis] as i128;
        if stride == 1 && low == reach && size == input + reach {
            return None;
        }
        let places = (input - 1) / stride + 1;
        let least = (low / stride - reach / stride).max(1 - places);
        let most = ((low + input - 1) / stride).min(size - 1);
        Some(whole(places + (most - least).max(0)))
    }

    /// Elements of the copy.
    pub fn extent(&self) -> usize {
        self.starts.len().saturating_mul(self.len)
    }

    /// True where the copy would be the operand.
    pub fn as_is(&self) -> bool {
        self.starts == [0] && self.step == 1 && self.len == self.size
    }

    /// For each part the range of its elements that the operand has, and where the first of them is in it.
    pub fn parts(&self) -> Vec<Part> {
        let step = self.step as i128;
        let ceil = |n: i128| if n <= 0 { 0 } else { (n - 1) / step + 1 };
        let parts = self.starts.iter().map(|&start| {
            let first = ceil(-start).min(self.len as i128) as usize;
            let end = ceil(self.size as i128 - start).min(self.len as i128) as usize;
            Part {
                first,
                end: end.max(first),
                from: (start + first as i128 * step) as usize,
            }
        });
        parts.collect()
    }

    /// The operand's place of every element of the copy; none for padding.
    pub fn sources(&self) -> Vec<Option<usize>> {
        let parts = self.parts();
        let all = parts.iter().flat_map(|p| {
            (0..self.len).map(|q| {
                (p.first..p.end)
                    .contains(&q)
                    .then(|| p.from + (q - p.first) * self.step)
            })
        });
        all.collect()
    }

    /// True where some places of the result get nothing.
    pub fn leaves_out(&self, places: usize) -> bool {
        self.sweeps.iter().map(|s| s.places).sum::<usize>() < places
    }
}

fn whole(n: i128) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Elements `first..end` of a part are the operand's from `from` on.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub first: usize,
    pub end: usize,
    pub from: usize,
}
