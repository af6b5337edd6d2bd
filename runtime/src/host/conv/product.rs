//! `conv` and its gradient in the input: products of packed weights with panels of patches.

use std::ops::Range;

use burn_std::Bytes;

use super::axis::{Axis, Sweep};
use super::copy::{Columns, Copy, Run, gather, room};
use super::tile::{Lanes, ROWS, columns as tile_columns};
use super::{Conv, depthwise};
use crate::host::{GRAIN, Out, Shared, parallel, rows_per_task};

/// Terms of a sum that are added up in registers, so that a panel of patches stays in the first cache.
const DEPTH: usize = 256;
/// Panels of patches that a task makes, at most.
const PANELS: usize = 16;
/// Tasks that there should be, if there is work enough: also where few places have many filters.
const TASKS: usize = 16;
/// Multiplications that are worth a task.
const WORK: usize = 1 << 19;

/// Elements of packed weights, for all groups.
pub fn packed_elements(groups: usize, rows: usize, depth: usize) -> usize {
    groups
        .saturating_mul(rows.div_ceil(ROWS))
        .saturating_mul(ROWS)
        .saturating_mul(depth)
}

pub fn forward<T: Lanes>(x: &[T], w: &[T], c: &Conv) -> Bytes {
    let taps = c.taps();
    let job = Job {
        c,
        axes: c.over_input(),
        inner: c.channels,
        outer: c.filters,
        size: c.output,
        weight: Weight {
            all: w,
            outer: c.channels * taps,
            inner: taps,
            group: c.filters * c.channels * taps,
        },
    };
    job.run(x)
}

pub fn input_grad<T: Lanes>(ct: &[T], w: &[T], c: &Conv) -> Bytes {
    let taps = c.taps();
    let job = Job {
        c,
        axes: c.over_output(),
        inner: c.filters,
        outer: c.channels,
        size: c.input,
        weight: Weight {
            all: w,
            outer: taps,
            inner: c.channels * taps,
            group: c.filters * c.channels * taps,
        },
    };
    job.run(ct)
}

/// The kernel, and how far apart in it rows of the product are, terms of its sums, and groups.
struct Weight<'a, T> {
    all: &'a [T],
    outer: usize,
    inner: usize,
    group: usize,
}

/// Of each group, `outer` planes of `size` are made of `inner` ones.
struct Job<'a, T> {
    c: &'a Conv,
    axes: [Axis; 3],
    inner: usize,
    outer: usize,
    size: [usize; 3],
    weight: Weight<'a, T>,
}

impl<T: Lanes> Job<'_, T> {
    fn run(&self, operand: &[T]) -> Bytes {
        let (images, groups) = (self.c.images, self.c.groups);
        let mut copy = Copy::new(operand, images * groups * self.inner, &self.axes);
        let (plane, extent) = (copy.plane(), copy.extent);
        let all = copy.all();
        let result: usize = self.size.iter().product();
        let elements = images * groups * self.outer * result;
        let left_out = (0..3).any(|k| self.axes[k].leaves_out(self.size[k]));
        let mut out = if left_out {
            Out::zeros(elements, size_of::<T>())
        } else {
            Out::new(elements, size_of::<T>())
        };
        let to = out.shared();
        for z in &self.axes[0].sweeps {
            for y in &self.axes[1].sweeps {
                for x in &self.axes[2].sweeps {
                    let sweep = [z, y, x];
                    let image = [groups * self.inner * plane, groups * self.outer * result];
                    let columns = Columns::new(sweep, images, [extent, self.size], image);
                    let terms = Terms::new(self, sweep, extent);
                    if self.outer < ROWS / 2 && !terms.offsets.is_empty() {
                        depthwise::planes(&self.bands(&terms, &columns, plane, result), all, to);
                    } else {
                        self.multiply(&terms, &columns, [plane, result], all, to);
                    }
                }
            }
        }
        // SAFETY: the sweeps write every place that has taps; where some have none, it is made of zeros.
        unsafe { out.finish() }
    }

    fn multiply(
        &self,
        terms: &Terms<T>,
        columns: &Columns,
        [plane, result]: [usize; 2],
        all: &[T],
        to: Shared,
    ) {
        let (depth, tiles) = (terms.offsets.len(), self.outer.div_ceil(ROWS));
        let wide = tile_columns::<T>();
        let panels = columns.count().div_ceil(wide);
        // A grid of panels and tiles, by sizes only.
        let per_panel = (self.outer * depth * wide).max(1);
        let high = (WORK / per_panel).clamp(1, PANELS);
        let across = panels.div_ceil(high) * self.c.groups;
        let down = TASKS.div_ceil(across).min(tiles);
        let per_task = tiles
            .div_ceil(down)
            .max((WORK / (high * ROWS * wide * depth.max(1))).max(1));
        let (blocks, down) = (panels.div_ceil(high), tiles.div_ceil(per_task));
        parallel(self.c.groups * blocks * down, 1, &|range| {
            for task in range {
                let (part, rest) = (task % down, task / down);
                let (block, group) = (rest % blocks, rest / blocks);
                let first = block * high * wide;
                let columns_here = first..((block + 1) * high * wide).min(columns.count());
                let tiles_here = part * per_task..((part + 1) * per_task).min(tiles);
                self.block(
                    terms,
                    columns,
                    group,
                    columns_here,
                    tiles_here,
                    [plane, result],
                    all,
                    to,
                );
            }
        });
    }

    #[allow(clippy::too_many_arguments)]
    fn block(
        &self,
        terms: &Terms<T>,
        columns: &Columns,
        group: usize,
        range: Range<usize>,
        tiles: Range<usize>,
        [plane, result]: [usize; 2],
        all: &[T],
        to: Shared,
    ) {
        let wide = tile_columns::<T>();
        let depth = terms.offsets.len();
        let steps = depth.div_ceil(DEPTH).max(1);
        let step = depth.div_ceil(steps);
        // SAFETY (of what is made of these): panels are written before they are read.
        let mut panel = room::<T>(step * wide + wide);
        let mut edge = room::<T>(ROWS * wide);
        let mut runs: Vec<Run> = Vec::new();
        let packed = &terms.packed[group * terms.group..][..terms.group];
        for part in 0..steps {
            let terms_here = part * step..((part + 1) * step).min(depth);
            for first in range.clone().step_by(wide) {
                let here = first..(first + wide).min(range.end);
                columns.runs(here.clone(), &mut runs);
                let offsets = &terms.offsets[terms_here.clone()];
                let shift = group * self.inner * plane;
                // SAFETY: a run shifted by the offset of a tap is within the copy; the panel has a row of slack.
                unsafe {
                    let offsets = offsets.iter().map(|o| o + shift);
                    gather(all, offsets, &runs, panel.as_mut_ptr(), wide);
                }
                // Rows of the copy have padding between them, those of the result may not.
                let straight = here.len() == wide
                    && columns.stride[2] == 1
                    && runs.iter().all(|r| r.to == runs[0].to + r.lane);
                for tile in tiles.clone() {
                    let row = tile * ROWS;
                    let rows = ROWS.min(self.outer - row);
                    let base = (group * self.outer + row) * result;
                    // SAFETY: packed weights have whole tiles.
                    let a = unsafe {
                        packed
                            .as_ptr()
                            .add((tile * depth + terms_here.start) * ROWS)
                    };
                    let add = part > 0;
                    if straight && rows == ROWS {
                        // SAFETY: places of the result that belong to this task.
                        unsafe {
                            let out = to.at::<T>(base + runs[0].to);
                            T::tile(a, panel.as_ptr(), terms_here.len(), out, result, add);
                        }
                        continue;
                    }
                    // SAFETY: `edge` is a whole tile.
                    unsafe {
                        T::tile(
                            a,
                            panel.as_ptr(),
                            terms_here.len(),
                            edge.as_mut_ptr(),
                            wide,
                            false,
                        );
                    }
                    for i in 0..rows {
                        for run in &runs {
                            let from = &edge[i * wide + run.lane..][..run.len];
                            let start = base + i * result + run.to;
                            // SAFETY: as above.
                            unsafe { put(from, to.at::<T>(start), columns.stride[2], add) };
                        }
                    }
                }
            }
        }
    }

    fn bands<'b>(
        &self,
        terms: &'b Terms<T>,
        columns: &'b Columns,
        plane: usize,
        result: usize,
    ) -> depthwise::Bands<'b, T> {
        depthwise::Bands {
            columns,
            offsets: &terms.offsets,
            packed: &terms.packed,
            group: terms.group,
            groups: self.c.groups,
            inner: self.inner,
            outer: self.outer,
            plane,
            result,
        }
    }
}

/// Writes `from` to places that are `stride` apart, or adds it.
///
/// # Safety
/// There are as many places, and nobody else writes them.
pub unsafe fn put<T: Lanes>(from: &[T], to: *mut T, stride: usize, add: bool) {
    // SAFETY: passed on to the caller.
    unsafe {
        if stride == 1 {
            let to = std::slice::from_raw_parts_mut(to, from.len());
            for (to, &from) in to.iter_mut().zip(from) {
                *to = if add { to.add(from) } else { from };
            }
            return;
        }
        for (k, &from) in from.iter().enumerate() {
            let to = to.add(k * stride);
            *to = if add { (*to).add(from) } else { from };
        }
    }
}

/// The terms of the sums of one sweep.
pub struct Terms<T> {
    /// Where in the copy each begins.
    offsets: Vec<usize>,
    /// Their weights: of each tile of rows the terms, `ROWS` weights each.
    packed: Vec<T>,
    /// Of it what belongs to a group.
    group: usize,
}

impl<T: Lanes> Terms<T> {
    fn new(job: &Job<'_, T>, [z, y, x]: [&Sweep; 3], extent: [usize; 3]) -> Self {
        let kernel = job.c.kernel;
        let mut taps: Vec<(usize, usize)> = Vec::new();
        for z in &z.taps {
            for y in &y.taps {
                taps.extend(x.taps.iter().map(|x| {
                    (
                        (z.tap * kernel[1] + y.tap) * kernel[2] + x.tap,
                        (z.offset * extent[1] + y.offset) * extent[2] + x.offset,
                    )
                }));
            }
        }
        let plane: usize = extent.iter().product();
        let offsets: Vec<usize> = (0..job.inner)
            .flat_map(|inner| taps.iter().map(move |t| inner * plane + t.1))
            .collect();
        let depth = offsets.len();
        let tiles = job.outer.div_ceil(ROWS);
        let group = tiles * ROWS * depth;
        let w = &job.weight;
        let mut packed = room::<T>(job.c.groups * group);
        let to = Shared(packed.as_mut_ptr().cast());
        // Neighbouring tiles read the same cache lines.
        let per_task = rows_per_task(depth * ROWS, GRAIN).max(8);
        parallel(job.c.groups * tiles, per_task, &|range| {
            for inner in 0..job.inner {
                for tile in range.clone() {
                    let start = (tile * depth + inner * taps.len()) * ROWS;
                    // SAFETY: a tile belongs to one task, and has `depth` times `ROWS` weights.
                    let into = unsafe {
                        std::slice::from_raw_parts_mut(to.at::<T>(start), taps.len() * ROWS)
                    };
                    let (group, row) = (tile / tiles, tile % tiles * ROWS);
                    let from = &w.all[group * w.group + row * w.outer + inner * w.inner..];
                    let rows = ROWS.min(job.outer - row);
                    for (into, tap) in into.chunks_exact_mut(ROWS).zip(&taps) {
                        for (i, to) in into.iter_mut().enumerate().take(rows) {
                            *to = from[i * w.outer + tap.0];
                        }
                    }
                }
            }
        });
        Terms {
            offsets,
            packed,
            group,
        }
    }
}
