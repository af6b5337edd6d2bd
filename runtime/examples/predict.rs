//! Classifies rows: `predict MODEL.dala ROWS.f32 N_ROWS ROW_LENGTH` prints the class of each row, one a line.
//! The model's first entry takes one `f32` argument of shape `[rows, length]` and gives scores by row.

use std::path::Path;

use dala_runtime::dtype::DType;
use dala_runtime::file::Container;
use dala_runtime::{Arg, Error, HostArray, Options, Result, engine};

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows, n_rows, row_length] = args.as_slice() else {
        eprintln!("usage: predict MODEL.dala ROWS.f32 N_ROWS ROW_LENGTH");
        return 2.into();
    };
    match predict(model, rows, n_rows, row_length) {
        Ok(classes) => {
            for class in classes {
                println!("{class}");
            }
            0.into()
        }
        Err(error) => {
            eprintln!("predict: {error}");
            1.into()
        }
    }
}

fn predict(model: &str, rows: &str, n_rows: &str, row_length: &str) -> Result<Vec<usize>> {
    let size = |text: &str| {
        text.parse::<i64>()
            .map_err(|_| Error::argument(format!("{text:?} is not a size")))
    };
    let shape = [size(n_rows)?, size(row_length)?];
    let bytes = std::fs::read(rows).map_err(|e| Error::io(format!("{rows}: {e}")))?;
    let array = HostArray::dense(DType::F32, &shape, &bytes)?;

    let engine = engine("flex", Options::default())?;
    let program = engine.load(Container::open(Path::new(model))?)?;
    let results = program.run(0, &[Arg::Array(array)], None)?;
    let Some(first) = results.first() else {
        return Err(Error::argument("the model has no result"));
    };
    if first.ty().dtype != DType::F32 {
        return Err(Error::argument(format!(
            "the model gives {}, not f32 scores",
            first.ty()
        )));
    }
    let scores: Vec<f32> = engine
        .read(&**first)?
        .chunks_exact(4)
        .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
        .collect();
    let classes = scores.len() / first.ty().shape.first().copied().unwrap_or(1).max(1);
    Ok(scores.chunks_exact(classes.max(1)).map(argmax).collect())
}

/// The place of the largest score; the first of equals.
fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (i, score) in row.iter().enumerate() {
        if *score > row[best] {
            best = i;
        }
    }
    best
}
