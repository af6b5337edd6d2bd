//! The engine over any backend, and the names under which engines are found.

#[cfg(feature = "autodiff")]
use burn_autodiff::Autodiff;
use burn_backend::tensor::Device;
use burn_flex::Flex;

use crate::backend::ExecBackend;
use crate::engine::{Engine, HostArray, Loaded, Operation, Options, Tensor};
use crate::error::{Error, Result, clip};
use crate::file::Container;
use crate::limits::check_bytes;
use crate::loaded::LoadedProgram;
use crate::operation::Single;
use crate::tensor::{Held, from_array, to_bytes};

/// The engine over backend `B`.
pub struct BurnEngine<B: ExecBackend> {
    name: &'static str,
    device: Device<B>,
    options: Options,
}

impl<B: ExecBackend> BurnEngine<B> {
    /// An engine on the backend's default device.
    pub fn new(name: &'static str, options: Options) -> Self {
        BurnEngine {
            name,
            device: Device::<B>::default(),
            options,
        }
    }
}

impl<B: ExecBackend> Engine for BurnEngine<B> {
    fn name(&self) -> &str {
        self.name
    }

    fn load(&self, container: Container) -> Result<Box<dyn Loaded>> {
        let program =
            LoadedProgram::<B>::new(container, self.device.clone(), self.options.clone())?;
        Ok(Box::new(program))
    }

    fn operation(&self, json: &str) -> Result<Box<dyn Operation>> {
        let single = Single::<B>::read(json, self.device.clone(), &self.options)?;
        Ok(Box::new(single))
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

/// The engines of this build.
const NAMES: &[&str] = if cfg!(feature = "autodiff") {
    &["\"flex\"", "\"flex-autodiff\""]
} else {
    &["\"flex\""]
};

/// Makes the engine of that name.
pub fn engine(name: &str, options: Options) -> Result<Box<dyn Engine>> {
    match name {
        "flex" => Ok(Box::new(BurnEngine::<Flex>::new("flex", options))),
        #[cfg(feature = "autodiff")]
        "flex-autodiff" => Ok(Box::new(BurnEngine::<Autodiff<Flex>>::new(
            "flex-autodiff",
            options,
        ))),
        _ => Err(Error::unsupported(format!(
            "there is no engine named {:?}; this build has {}",
            clip(name),
            NAMES.join(" and ")
        ))
        .with_code("unknown-engine")),
    }
}
