//! Gradients by the backend's own backward pass: an entry runs on arguments that remember, and the backend goes back.

use burn_backend::tensor::Device;
use burn_std::{Bytes, Shape};

use crate::backend::{ExecBackend, no_gradients};
use crate::engine::{Arg, Loaded, Tensor, Wanted};
use crate::error::{Error, Result};
use crate::panics;
use crate::tensor::{Borrowed, Held, from_arg};
use crate::value::{Ty, Val};

/// An argument's number, its value, its type and a handle to it.
type Tracked<B> = (usize, Val<B>, Ty, Box<dyn Tensor>);

/// The results of an entry, then the gradients. Nothing is donated.
pub fn gradient<B: ExecBackend>(
    device: &Device<B>,
    loaded: &dyn Loaded,
    entry: usize,
    args: &[Arg<'_>],
    wanted: Wanted<'_>,
) -> Result<Vec<Box<dyn Tensor>>> {
    if !B::RECORDS {
        return Err(no_gradients::<B>());
    }
    let mut borrowed = Borrowed::new();
    let mut tracked: Vec<Tracked<B>> = Vec::new();
    for &i in wanted.wrt {
        let arg = args.get(i).ok_or_else(|| {
            Error::argument(format!("there is no argument {i}")).with_code("argument-count")
        })?;
        if tracked.iter().any(|(j, ..)| *j == i) {
            return Err(Error::argument(format!("argument {i} is named twice")));
        }
        let ty = arg.ty()?;
        let val = B::track(from_arg(arg, &ty, device, &mut borrowed)?)?;
        tracked.push((i, val.clone(), ty.clone(), Held::boxed(ty, val)));
    }
    let handed: Vec<Arg<'_>> = args
        .iter()
        .enumerate()
        .map(|(i, arg)| match tracked.iter().find(|(j, ..)| *j == i) {
            Some((_, _, _, held)) => Arg::Tensor {
                tensor: &**held,
                donate: false,
            },
            None => match arg {
                Arg::Array(array) => Arg::Array(*array),
                Arg::Tensor { tensor, .. } => Arg::Tensor {
                    tensor: *tensor,
                    donate: false,
                },
            },
        })
        .collect();
    let results = loaded.run(entry, &handed, None)?;
    let output = results.get(wanted.output).ok_or_else(|| {
        Error::argument(format!("there is no result {}", wanted.output)).with_code("result-count")
    })?;
    let root = root(device, &**output, wanted.cotangent, &mut borrowed)?;
    let leaves: Vec<Val<B>> = tracked.iter().map(|(_, val, ..)| val.clone()).collect();
    let gradients = panics::catch(|| B::backward(root, &leaves)).and_then(|r| r)?;

    let mut out: Vec<Box<dyn Tensor>> = Vec::with_capacity(results.len() + tracked.len());
    for result in &results {
        // Without its past, which would otherwise be kept as long as the result.
        let val = B::outer(B::inner(Held::<B>::of(&**result)?.get()?));
        out.push(Held::boxed(result.ty().clone(), val));
    }
    for ((_, _, ty, _), gradient) in tracked.iter().zip(gradients) {
        let val = match gradient {
            Some(gradient) => B::reshape(B::outer(gradient), &ty.shape),
            None => {
                let zeros = Bytes::from_bytes_vec(vec![0; ty.bytes()]);
                B::upload(zeros, ty, device)?
            }
        };
        out.push(Held::boxed(ty.clone(), val));
    }
    Ok(out)
}

/// The one number that the backward pass starts from.
fn root<B: ExecBackend>(
    device: &Device<B>,
    output: &dyn Tensor,
    cotangent: Option<Arg<'_>>,
    borrowed: &mut Borrowed,
) -> Result<Val<B>> {
    let ty = output.ty();
    let not_float = || Error::argument(format!("the result is {ty}, no float")).with_code("dtype");
    let Val::Float(y) = Held::<B>::of(output)?.get()? else {
        return Err(not_float());
    };
    let n = ty.elements();
    let y = B::float_reshape(y, Shape::from(vec![n]));
    let Some(cotangent) = cotangent else {
        if ty.rank() != 0 {
            return Err(
                Error::argument(format!("the result is {ty}: a cotangent is needed"))
                    .with_code("shape"),
            );
        }
        return Ok(Val::Float(y));
    };
    if !cotangent.is(ty) {
        return Err(Error::argument(format!(
            "the cotangent is {}, the result {ty}",
            cotangent.ty()?
        ))
        .with_code("shape"));
    }
    let Val::Float(ct) = from_arg::<B>(&cotangent, ty, device, borrowed)? else {
        return Err(not_float());
    };
    let ct = B::float_reshape(B::float_detach(ct), Shape::from(vec![n]));
    Ok(Val::Float(B::float_sum(B::float_mul(y, ct))))
}
