//! Effects.

use super::{Run, look, release};
use crate::backend::{ExecBackend, item, no_host};
use crate::dtype::DType;
use crate::effects::{self, Shown};
use crate::error::{Error, Result};
use crate::host::Out;
use crate::plan::{Effect, Step};
use crate::show::fill;
use crate::value::Val;

impl<B: ExecBackend> Run<'_, B> {
    pub(super) fn effect(
        &self,
        effect: &Effect,
        step: &Step<B>,
        frame: &mut [Option<Val<B>>],
    ) -> Result<()> {
        let mut values = Vec::with_capacity(step.args.len());
        for (source, ty) in step.args.iter().zip(&step.arg_types) {
            let view = B::view(look(frame, source)?).ok_or_else(|| no_host::<B>(step.name))?;
            values.push(Shown { ty, view });
        }
        let mut outs = Vec::new();
        match effect {
            Effect::Print(format) => effects::print(format, &values)?,
            Effect::Tap(name) => effects::tap(name, &values)?,
            Effect::Assert(message) => {
                // SAFETY: the first value is a bool scalar.
                let holds = unsafe { *values[0].view.ptr } != 0;
                if !holds {
                    return Err(Error::runtime(fill(message, &values[1..])).with_code("assertion"));
                }
            }
            Effect::Callback(name) => {
                let mut rooms: Vec<Out> = step
                    .outs
                    .iter()
                    .map(|ty| Out::zeros(ty.elements(), item(ty)))
                    .collect();
                let mut results: Vec<_> = step
                    .outs
                    .iter()
                    .zip(&mut rooms)
                    // SAFETY: there is room for all elements, and all of it is 0.
                    .map(|(ty, out)| unsafe {
                        (ty, std::slice::from_raw_parts_mut(out.ptr(), ty.bytes()))
                    })
                    .collect();
                effects::callback(name, &values, &mut results)?;
                for (ty, bytes) in &mut results {
                    if ty.dtype == DType::Bool {
                        // Any byte but 0 is true outside; inside only 1 is.
                        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
                    }
                }
                for (ty, room) in step.outs.iter().zip(rooms) {
                    // SAFETY: it was made of zeros.
                    outs.push(B::upload(unsafe { room.finish() }, ty, self.device)?);
                }
            }
        }
        release(frame, step);
        for (slot, val) in step.slots.iter().zip(outs) {
            frame[*slot] = Some(val);
        }
        Ok(())
    }
}
