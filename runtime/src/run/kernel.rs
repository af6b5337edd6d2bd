//! Native kernels of fused graphs.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, Ordering};

use super::{Run, look, release, used};
use crate::backend::{ExecBackend, no_host};
use crate::error::{Error, Result};
use crate::host::{Out, parallel, rows_per_task};
use crate::plan::{Fused, Source, Step, add_strides};
use crate::value::Val;

/// Elements of the space per task: fused graphs do more with one than a single op does.
const KERNEL_GRAIN: usize = 1 << 15;

impl<B: ExecBackend> Run<'_, B> {
    pub(super) fn kernel(
        &self,
        fused: &Fused,
        step: &Step<B>,
        frame: &mut [Option<Val<B>>],
    ) -> Result<()> {
        let rank = fused.extents.len();
        let operands = step.args.len();
        // For each result, the slot of the operand whose memory it takes.
        let mut over: Vec<Option<(usize, *mut u8)>> = vec![None; step.outs.len()];
        for (k, out) in &fused.in_place {
            if let Source::Move(slot) = &step.args[*k]
                && over[*out].is_none()
                && !over.iter().flatten().any(|(taken, _)| taken == slot)
                && let Some(val) = &mut frame[*slot]
                && let Some(memory) = B::dense_mut(val)
            {
                over[*out] = Some((*slot, memory));
            }
        }
        let mut data: Vec<*mut c_void> = Vec::with_capacity(operands + step.outs.len());
        let mut strides = vec![0i64; operands * rank];
        let mut at = 0;
        for (k, source) in step.args.iter().enumerate() {
            let view = B::view(look(frame, source)?).ok_or_else(|| no_host::<B>(step.name))?;
            data.push(view.ptr.cast_mut().cast());
            add_strides(
                &mut strides[k * rank..][..rank],
                &fused.axes[at..at + view.shape.len()],
                view.strides,
                view.dtype.itemsize(),
            );
            at += view.shape.len();
        }
        strides.extend_from_slice(&fused.out_strides);

        let mut outs = Vec::with_capacity(step.outs.len());
        for (ty, over) in step.outs.iter().zip(&over) {
            if let Some((_, memory)) = over {
                data.push(memory.cast());
                continue;
            }
            // Without a part to compute nothing would be written.
            let make = if fused.units == 0 {
                Out::zeros
            } else {
                Out::new
            };
            let mut out = make(ty.elements(), ty.dtype.itemsize());
            data.push(out.ptr().cast());
            outs.push(out);
        }
        call(fused, &data, &strides)?;

        let mut vals = Vec::with_capacity(step.outs.len());
        let mut outs = outs.into_iter();
        for (ty, over) in step.outs.iter().zip(over) {
            let val = match over {
                Some((slot, _)) => frame[slot].take(),
                None => match outs.next() {
                    // SAFETY: the kernel has written every element of its results.
                    Some(out) => Some(B::upload(unsafe { out.finish() }, ty, self.device)?),
                    None => None,
                },
            };
            vals.push(val.ok_or_else(used)?);
        }
        release(frame, step);
        for (slot, val) in step.slots.iter().zip(vals) {
            frame[*slot] = Some(val);
        }
        Ok(())
    }
}

/// Calls the kernel on all of its space, in parts that do not depend on the number of threads.
fn call(fused: &Fused, data: &[*mut c_void], strides: &[i64]) -> Result<()> {
    struct Args<'a>(&'a [*mut c_void]);
    // SAFETY: the kernel reads the operands, and writes disjoint parts of the results.
    unsafe impl Sync for Args<'_> {}
    let args = Args(data);
    let failed = AtomicI32::new(0);
    let part = |range: std::ops::Range<usize>| {
        let data = &args;
        // SAFETY: whoever registered the kernel vouches for it; its name says what operands and results it takes, and
        // the plan has checked that these fit the space.
        let status = unsafe {
            (fused.kernel)(
                data.0.as_ptr(),
                fused.extents.as_ptr(),
                strides.as_ptr(),
                range.start as i64,
                range.end as i64,
            )
        };
        if status != 0 {
            failed.store(status, Ordering::Relaxed);
        }
    };
    parallel(fused.units, rows_per_task(fused.unit, KERNEL_GRAIN), &part);
    match failed.into_inner() {
        0 => Ok(()),
        status => {
            Err(Error::runtime(format!("the native kernel gave {status}")).with_code("kernel"))
        }
    }
}
