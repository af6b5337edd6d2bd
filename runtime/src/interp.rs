//! The engine over any backend, and single operations.

use burn_backend::tensor::Device;
use serde_json::Value;

use crate::attrs::Attrs;
use crate::backend::ExecBackend;
use crate::dim::Env;
use crate::engine::{Arg, Engine, HostArray, Loaded, Operation, Options, Tensor};
use crate::error::{Error, Result, Status, clip};
use crate::exec::execute;
use crate::file::Container;
use crate::infer::{infer, is_infallible, scratch_bytes};
use crate::loaded::LoadedProgram;
use crate::op::Op;
use crate::panics;
use crate::tensor::{Borrowed, Held, detach, from_arg, from_array, to_bytes};
use crate::value::Ty;

/// The interpreter over backend `B`.
pub struct Exec<B: ExecBackend> {
    name: &'static str,
    device: Device<B>,
    options: Options,
}

impl<B: ExecBackend> Exec<B> {
    /// An engine on the backend's default device.
    pub fn new(name: &'static str, options: Options) -> Self {
        Exec {
            name,
            device: Device::<B>::default(),
            options,
        }
    }
}

impl<B: ExecBackend> Engine for Exec<B> {
    fn name(&self) -> &str {
        self.name
    }

    fn load(&self, container: Container) -> Result<Box<dyn Loaded>> {
        let program =
            LoadedProgram::<B>::new(container, self.device.clone(), self.options.clone())?;
        Ok(Box::new(program))
    }

    fn operation(&self, json: &str) -> Result<Box<dyn Operation>> {
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
        if matches!(op, Op::Constant { .. } | Op::Call { .. } | Op::Fused { .. }) {
            return Err(Error::unsupported("has a meaning inside a program only").at_op(&name));
        }
        Ok(Box::new(Single::<B> {
            fault: self.options.fault.as_deref() == Some(op.info().name),
            limit: self.options.memory_limit,
            device: self.device.clone(),
            op,
        }))
    }

    fn write(&self, array: HostArray<'_>) -> Result<Box<dyn Tensor>> {
        let ty = array.ty()?;
        check_bytes(ty.bytes(), self.options.memory_limit)?;
        let val = from_array::<B>(&array, &ty, &self.device, None)?;
        Ok(Held::boxed(ty, val))
    }

    fn read(&self, tensor: &dyn Tensor) -> Result<Vec<u8>> {
        to_bytes(&Held::<B>::of(tensor)?.get()?)
    }

    fn sync(&self) -> Result<()> {
        B::sync(&self.device).map_err(|e| Error::runtime(format!("{e:?}")))
    }
}

fn check_bytes(bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit {
        return Err(Error::out_of_memory(format!(
            "{bytes} bytes are needed, the limit is {limit}"
        ))
        .with("needed", bytes)
        .with("limit", limit));
    }
    Ok(())
}

/// One operation, decoded once.
struct Single<B: ExecBackend> {
    op: Op<usize>,
    device: Device<B>,
    limit: usize,
    fault: bool,
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
        check_bytes(needed, self.limit).map_err(|e| e.at_op(self.op.info().name))?;

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

/// Empties the donated handles.
pub fn donate<B: ExecBackend>(args: &[Arg<'_>]) -> Result<()> {
    for arg in args {
        if let Arg::Tensor {
            tensor,
            donate: true,
        } = arg
        {
            Held::<B>::of(*tensor)?.take();
        }
    }
    Ok(())
}
