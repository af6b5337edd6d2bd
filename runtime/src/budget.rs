//! Whether a run fits into the memory that it may hold, and what a plan says about it.

use serde_json::{Value, json};

use crate::error::{Error, Location};
use crate::plan::{Buffer, Memory, Origin, What, locate, location_of};
use crate::program::Program;

/// Buffers that an error or a description names.
const NAMED: usize = 16;

/// The error of a run that would hold more than it may.
pub fn refused(program: &Program, names: &[String], memory: &Memory, limit: usize) -> Error {
    let largest: Vec<String> = memory
        .buffers
        .iter()
        .take(3)
        .map(|b| {
            let ty = b.ty.as_ref().map_or_else(String::new, |t| format!(" {t}"));
            let place = b.origin.and_then(|o| location_of(program, o));
            let place = place.map_or_else(String::new, |at| format!(" at {}:{}", at.file, at.line));
            format!("{}{ty}: {} bytes{place}", name(program, names, b), b.bytes)
        })
        .collect();
    let error = Error::out_of_memory(format!(
        "the run would hold {} bytes at a time, the limit is {limit}; the largest: {}",
        memory.peak,
        largest.join("; ")
    ))
    .with("needed", memory.peak)
    .with("limit", limit)
    .with("largest", largest);
    match memory.at {
        Some(origin) => locate(program, origin, error),
        None => error,
    }
}

/// What a plan holds, as JSON.
pub fn described(program: &Program, names: &[String], memory: &Memory) -> String {
    let buffers: Vec<Value> = memory
        .buffers
        .iter()
        .take(NAMED)
        .map(|b| {
            json!({
                "bytes": b.bytes,
                "role": role(b),
                "name": name(program, names, b),
                "type": b.ty.as_ref().map(ToString::to_string),
                "location": b.origin.and_then(|o| place(program, o)),
            })
        })
        .collect();
    let shown: usize = memory.buffers.iter().take(NAMED).map(|b| b.bytes).sum();
    json!({
        "peak": memory.peak,
        "arguments": memory.arguments,
        "constants": memory.constants,
        "results": memory.results,
        "at": memory.at.map(|o| json!({"op": op(program, o), "location": place(program, o)})),
        "buffers": buffers,
        "others": {
            "count": memory.buffers.len().saturating_sub(NAMED),
            "bytes": memory.buffers.iter().map(|b| b.bytes).sum::<usize>() - shown,
        },
    })
    .to_string()
}

fn op(program: &Program, origin: Origin) -> &'static str {
    let node = &program.functions[origin.function].nodes[origin.node];
    node.op.info().name
}

fn role(b: &Buffer) -> &'static str {
    match b.what {
        What::Argument(_) => "argument",
        What::Constant => "constant",
        What::Value => "value",
        What::Scratch => "scratch",
    }
}

fn name(program: &Program, names: &[String], b: &Buffer) -> String {
    match (b.what, b.origin) {
        (What::Argument(i), _) => names.get(i).map_or_else(String::new, Clone::clone),
        (What::Constant, _) => "a constant".to_string(),
        (What::Value, Some(origin)) => op(program, origin).to_string(),
        (What::Scratch, Some(origin)) => format!("inside {}", op(program, origin)),
        (What::Value | What::Scratch, None) => "the copy of a result".to_string(),
    }
}

fn place(program: &Program, origin: Origin) -> Option<Value> {
    let at: Location = location_of(program, origin)?;
    Some(json!({
        "file": at.file,
        "line": at.line,
        "column": at.column,
        "function": at.function,
        "path": at.layer,
    }))
}
