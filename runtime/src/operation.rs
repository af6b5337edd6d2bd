//! Single operations, without a program.

use burn_backend::tensor::Device;
use serde_json::Value;

use crate::attrs::Attrs;
use crate::backend::ExecBackend;
use crate::dim::Env;
use crate::engine::{Arg, Operation, Options, Tensor};
use crate::error::{Error, Result, Status, clip};
use crate::exec::execute;
use crate::infer::{infer, is_infallible, scratch_bytes};
use crate::limits;
use crate::op::{Family, Op};
use crate::panics;
use crate::tensor::{Borrowed, Held, detach, donate, from_arg};
use crate::value::Ty;

/// One operation, decoded once.
pub struct Single<B: ExecBackend> {
    op: Op<usize>,
    device: Device<B>,
    limit: usize,
    fault: bool,
}

impl<B: ExecBackend> Single<B> {
    /// Reads `{"op": NAME, "attrs": {...}}`.
    pub fn read(json: &str, device: Device<B>, options: &Options) -> Result<Self> {
        let bad = |e: Error| e.with_status(Status::InvalidArgument);
        let value: Value = serde_json::from_str(json)
            .map_err(|e| Error::argument(format!("the operation is not JSON: {e}")))?;
        let Value::Object(mut map) = value else {
            return Err(Error::argument("the operation is not an object"));
        };
        let (name, attrs) = match (map.remove("op"), map.remove("attrs"), map.keys().next()) {
            (Some(Value::String(name)), Some(Value::Object(attrs)), None) => (name, attrs),
            _ => {
                return Err(Error::argument(
                    "an operation is {\"op\": NAME, \"attrs\": {...}}",
                ));
            }
        };
        let op = Op::decode(&name, &mut Attrs::new(attrs))
            .map_err(|e| bad(e.at_op(&clip(&name))))?
            .map_dims(|d| d.eval(&Env::new()))
            .map_err(|e| e.at_op(&name))?;
        let family = op.info().family;
        if matches!(family, Family::Structure | Family::Effect) || matches!(op, Op::Constant { .. })
        {
            return Err(Error::unsupported("has a meaning inside a program only").at_op(&name));
        }
        Ok(Single {
            fault: options.fault.as_deref() == Some(op.info().name),
            limit: options.memory_limit,
            device,
            op,
        })
    }
}

impl<B: ExecBackend> Operation for Single<B> {
    fn run(&self, args: &[Arg<'_>]) -> Result<Vec<Box<dyn Tensor>>> {
        let types = args.iter().map(Arg::ty).collect::<Result<Vec<Ty>>>()?;
        let outs = infer(&self.op, &types)?;
        let [out] = &outs[..] else {
            return Err(Error::invalid_program("the op has one result"));
        };
        let needed = outs
            .iter()
            .fold(scratch_bytes(&self.op, &types, &outs), |n, t| {
                n.saturating_add(t.bytes())
            });
        limits::check_bytes(needed, self.limit.min(limits::memory_limit()))
            .map_err(|e| e.at_op(self.op.info().name))?;

        let mut borrowed = Borrowed::new();
        let values = args
            .iter()
            .zip(&types)
            .map(|(arg, ty)| from_arg::<B>(arg, ty, &self.device, &mut borrowed))
            .collect::<Result<Vec<_>>>()?;
        // What cannot fail may work in place on donated storage; the rest keeps it until it has succeeded.
        let early = is_infallible(&self.op) && !self.fault;
        if early {
            donate::<B>(args)?;
        }
        let result = panics::catch(|| {
            if self.fault {
                panic!("injected fault in {}", self.op.info().name);
            }
            execute(&self.device, &self.op, values, &types, out)
        })
        .and_then(|r| r)
        .map_err(|e| e.at_op(self.op.info().name))?;
        let val = detach(result, out, &self.device, &borrowed)?;
        let held = Held::boxed(out.clone(), val);
        if !early {
            donate::<B>(args)?;
        }
        Ok(vec![held])
    }
}
