//! The gradient in the kernel: dot products, over the places of all images, of planes of the cotangent and patches.

use std::ops::Range;

use burn_std::Bytes;

use super::Conv;
use super::copy::{Columns, Copy, Run, gather, room};
use super::product::put;
use super::tile::{DOTS, Lanes, ROWS as TILE_ROWS, columns as tile_columns};
use crate::host::{GRAIN, Out, Shared, parallel, rows_per_task};

/// Bytes of a row of a block: those of `ROWS` patches and of a tile's planes stay in the first cache.
const BLOCK_BYTES: usize = 2048;
/// Patches that are made at a time: taps of a kernel of three by three.
const ROWS: usize = 3 * DOTS[1];
/// Columns that are too few to add up the lanes of dot products.
const FEW: usize = 128;
/// Rows that are worth reading the cotangent once more.
const ROWS_PER_TASK: usize = 4 * ROWS;
/// Tasks that there should be, if there is work enough.
const TASKS: usize = 16;
/// Multiplications that are worth a task.
const WORK: usize = 1 << 19;
/// Elements of all partial sums, where there are several.
const PARTIAL: usize = 1 << 20;

/// Columns per block, so that all are about as long, and blocks.
fn blocks(c: &Conv, itemsize: usize) -> (usize, usize) {
    let most = BLOCK_BYTES / itemsize;
    let all = c.images * c.places();
    // Blocks do not cross images, unless these are small.
    let whole = if c.places() > most / 2 {
        c.places()
    } else {
        all
    };
    let size = whole.div_ceil(whole.div_ceil(most)).next_multiple_of(8);
    (size, all.div_ceil(size))
}

/// How many sums over a part of the columns each are kept at a time.
fn splits(c: &Conv, itemsize: usize) -> usize {
    let sums = c.groups * c.filters * c.channels * c.taps();
    let work = sums.saturating_mul(c.images * c.places()) / WORK;
    let most = TASKS.min(PARTIAL / sums.max(1)).min(work);
    most.clamp(1, blocks(c, itemsize).1.max(1))
}

/// Elements of what [`weight_grad`] adds up, at most.
pub fn partial_elements(c: &Conv) -> usize {
    let sums = (c.groups * c.filters).saturating_mul(c.channels * c.taps());
    splits(c, 4).saturating_mul(sums)
}

pub fn weight_grad<T: Lanes>(x: &[T], ct: &[T], c: &Conv) -> Bytes {
    let axes = c.over_input();
    let mut copy = Copy::new(x, c.images * c.groups * c.channels, &axes);
    let (plane, extent) = (copy.plane(), copy.extent);
    let sweep = [0, 1, 2].map(|k| &axes[k].sweeps[0]);
    let image = [
        c.groups * c.channels * plane,
        c.groups * c.filters * c.places(),
    ];
    let columns = Columns::new(sweep, c.images, [extent, c.output], image);
    let mut taps: Vec<(usize, usize)> = Vec::new();
    for z in &sweep[0].taps {
        for y in &sweep[1].taps {
            taps.extend(sweep[2].taps.iter().map(|x| {
                (
                    (z.tap * c.kernel[1] + y.tap) * c.kernel[2] + x.tap,
                    (z.offset * extent[1] + y.offset) * extent[2] + x.offset,
                )
            }));
        }
    }
    let offsets: Vec<usize> = (0..c.channels)
        .flat_map(|channel| taps.iter().map(move |t| channel * plane + t.1))
        .collect();
    let (block, count) = blocks(c, size_of::<T>());
    let job = Job {
        c,
        x: copy.all(),
        ct,
        columns,
        offsets,
        plane,
        block,
    };
    let splits = splits(c, size_of::<T>());
    let per_split = count.div_ceil(splits);
    let depth = job.offsets.len();
    let across = TASKS.div_ceil(splits * c.groups);
    let per_task = depth
        .div_ceil(across)
        .max(ROWS_PER_TASK)
        .next_multiple_of(if block <= FEW {
            tile_columns::<T>()
        } else {
            ROWS
        });
    let parts = depth.div_ceil(per_task);
    let sums = c.groups * c.filters * depth;
    let work = |to: Shared| {
        parallel(splits * c.groups * parts, 1, &|range| {
            for task in range {
                let (part, rest) = (task % parts, task / parts);
                let (group, split) = (rest % c.groups, rest / c.groups);
                let terms = part * per_task..((part + 1) * per_task).min(depth);
                let here = split * per_split..((split + 1) * per_split).min(count);
                let base = split * sums + group * c.filters * depth;
                if block <= FEW {
                    job.sum_few(group, terms, here, to, base);
                } else {
                    job.sum(group, terms, here, to, base);
                }
            }
        });
    };
    let whole = taps.len() == c.taps();
    let row = c.channels * c.taps();
    let mut out = Out::zeros(c.groups * c.filters * row, size_of::<T>());
    let to = out.shared();
    if splits == 1 && whole {
        work(to);
        // SAFETY: made of zeros.
        return unsafe { out.finish() };
    }
    let mut partial = room::<T>(splits * sums);
    work(Shared(partial.as_mut_ptr().cast()));
    let per_task = rows_per_task(row * splits, GRAIN);
    parallel(c.groups * c.filters, per_task, &|range| {
        for filter in range {
            // SAFETY: the kernel of a filter belongs to one task.
            let into = unsafe { std::slice::from_raw_parts_mut(to.at::<T>(filter * row), row) };
            for split in 0..splits {
                let from = &partial[split * sums + filter * depth..][..depth];
                if whole {
                    into.iter_mut().zip(from).for_each(|(a, &b)| *a = a.add(b));
                    continue;
                }
                for (k, &b) in from.iter().enumerate() {
                    let (channel, tap) = (k / taps.len(), taps[k % taps.len()].0);
                    let a = &mut into[channel * c.taps() + tap];
                    *a = a.add(b);
                }
            }
        }
    });
    // SAFETY: made of zeros.
    unsafe { out.finish() }
}

struct Job<'a, T> {
    c: &'a Conv,
    x: &'a [T],
    ct: &'a [T],
    columns: Columns,
    /// Where in `x` the patch elements of each term begin.
    offsets: Vec<usize>,
    plane: usize,
    /// Columns of a block.
    block: usize,
}

impl<T: Lanes> Job<'_, T> {
    /// Adds to the sums of one group from `base` on, for some terms, what some blocks have.
    fn sum(
        &self,
        group: usize,
        terms: Range<usize>,
        blocks: Range<usize>,
        to: Shared,
        base: usize,
    ) {
        let c = self.c;
        let depth = self.offsets.len();
        let tiles = c.filters.div_ceil(DOTS[0]);
        // Copying in chunks spills into the next row.
        let pitch = self.block + T::DOT_LANES;
        let mut planes = room::<T>(tiles * DOTS[0] * pitch + 8);
        let mut patches = room::<T>(ROWS * pitch + 8);
        let (mut runs, mut there): (Vec<Run>, Vec<Run>) = Default::default();
        for block in blocks {
            let first = block * self.block;
            let here = first..(first + self.block).min(self.columns.count());
            let len = here.len().next_multiple_of(T::DOT_LANES);
            let blank = here.len()..len;
            self.columns.runs(here, &mut runs);
            there.clear();
            there.extend(runs.iter().map(|r| Run { from: r.to, ..*r }));
            let shift = group * c.filters * c.places();
            // SAFETY: runs of the result are within it for every filter.
            unsafe {
                let offsets = (0..c.filters).map(|f| shift + f * c.places());
                gather(self.ct, offsets, &there, planes.as_mut_ptr(), pitch);
            }
            planes
                .chunks_exact_mut(pitch)
                .for_each(|row| blank.clone().for_each(|k| row[k] = T::ZERO));
            for start in terms.clone().step_by(ROWS) {
                let some = start..(start + ROWS).min(terms.end);
                let shift = group * c.channels * self.plane;
                // SAFETY: as for the product of `conv`.
                unsafe {
                    let offsets = self.offsets[some.clone()].iter().map(|o| o + shift);
                    gather(self.x, offsets, &runs, patches.as_mut_ptr(), pitch);
                }
                patches
                    .chunks_exact_mut(pitch)
                    .for_each(|row| blank.clone().for_each(|k| row[k] = T::ZERO));
                for tile in 0..tiles {
                    for at in (0..some.len()).step_by(DOTS[1]) {
                        let a =
                            [0, 1, 2, 3].map(|i| planes[(tile * DOTS[0] + i) * pitch..].as_ptr());
                        let b = [0, 1, 2].map(|j| patches[(at + j) * pitch..].as_ptr());
                        // SAFETY: rows of `pitch` elements.
                        let dots = unsafe { T::dots(a, b, len) };
                        let rows = DOTS[0].min(c.filters - tile * DOTS[0]);
                        for (i, row) in dots.iter().enumerate().take(rows) {
                            let sums = base + (tile * DOTS[0] + i) * depth + start + at;
                            for (j, &dot) in row.iter().enumerate().take(some.len() - at) {
                                // SAFETY: sums of this task's terms.
                                unsafe {
                                    let sum = to.at::<T>(sums + j);
                                    *sum = (*sum).add(dot);
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The same where there are few columns: a product with transposed patches.
    fn sum_few(
        &self,
        group: usize,
        terms: Range<usize>,
        blocks: Range<usize>,
        to: Shared,
        base: usize,
    ) {
        let c = self.c;
        let (depth, wide) = (self.offsets.len(), tile_columns::<T>());
        let tiles = c.filters.div_ceil(TILE_ROWS);
        let mut planes = room::<T>(tiles * TILE_ROWS * self.block);
        let mut patches = room::<T>(self.block * wide);
        let mut edge = room::<T>(TILE_ROWS * wide);
        let mut runs: Vec<Run> = Vec::new();
        for block in blocks {
            let first = block * self.block;
            let here = first..(first + self.block).min(self.columns.count());
            let len = here.len();
            self.columns.runs(here, &mut runs);
            for filter in 0..c.filters {
                let (tile, row) = (filter / TILE_ROWS, filter % TILE_ROWS);
                let shift = (group * c.filters + filter) * c.places();
                let into = &mut planes[tile * TILE_ROWS * len + row..];
                for run in &runs {
                    let from = &self.ct[shift + run.to..][..run.len];
                    let into = into[run.lane * TILE_ROWS..].iter_mut().step_by(TILE_ROWS);
                    into.zip(from).for_each(|(to, &from)| *to = from);
                }
            }
            for start in terms.clone().step_by(wide) {
                let some = &self.offsets[start..(start + wide).min(terms.end)];
                for (k, offset) in some.iter().enumerate() {
                    let shift = group * c.channels * self.plane + offset;
                    for run in &runs {
                        let from = &self.x[shift + run.from..][..run.len];
                        let into = patches[run.lane * wide + k..].iter_mut().step_by(wide);
                        into.zip(from).for_each(|(to, &from)| *to = from);
                    }
                }
                for tile in 0..tiles {
                    let a = planes[tile * TILE_ROWS * len..].as_ptr();
                    let rows = TILE_ROWS.min(c.filters - tile * TILE_ROWS);
                    let sums = base + tile * TILE_ROWS * depth + start;
                    if rows == TILE_ROWS && some.len() == wide {
                        // SAFETY: whole tiles, and sums of this task's terms.
                        unsafe { T::tile(a, patches.as_ptr(), len, to.at::<T>(sums), depth, true) };
                        continue;
                    }
                    // SAFETY: `edge` is a whole tile.
                    unsafe { T::tile(a, patches.as_ptr(), len, edge.as_mut_ptr(), wide, false) };
                    for (i, row) in edge.chunks_exact(wide).enumerate().take(rows) {
                        // SAFETY: as above.
                        unsafe { put(&row[..some.len()], to.at::<T>(sums + i * depth), 1, true) };
                    }
                }
            }
        }
    }
}
