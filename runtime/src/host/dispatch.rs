//! From a dtype at run time to a Rust type.
//!
//! A kernel is compiled for few types: [`super::stage`] brings the others to these.

/// Runs `$body` with `$T` the Rust type of a dtype in which ops are computed.
macro_rules! with_home {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => with_home!(@ $T = f32, $body),
            $crate::dtype::DType::F64 => with_home!(@ $T = f64, $body),
            $crate::dtype::DType::I32 => with_home!(@ $T = i32, $body),
            $crate::dtype::DType::I64 => with_home!(@ $T = i64, $body),
            $crate::dtype::DType::U64 => with_home!(@ $T = u64, $body),
            other => return Err($crate::host::bad_dtype($op, other)),
        }
    };
    (@ $T:ident = $type:ty, $body:expr) => {{
        #[allow(dead_code)]
        type $T = $type;
        $body
    }};
}

/// The same for floats.
macro_rules! with_real {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => with_home!(@ $T = f32, $body),
            $crate::dtype::DType::F64 => with_home!(@ $T = f64, $body),
            other => return Err($crate::host::bad_dtype($op, other)),
        }
    };
}

/// The same for what wraps around, where the sign does not matter: integers count as unsigned.
macro_rules! with_ring {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => with_home!(@ $T = f32, $body),
            $crate::dtype::DType::F64 => with_home!(@ $T = f64, $body),
            other => with_words!($op, other, $T => $body),
        }
    };
}

/// The same for integers only.
macro_rules! with_words {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::I32 | $crate::dtype::DType::U32 => with_home!(@ $T = u32, $body),
            $crate::dtype::DType::I64 | $crate::dtype::DType::U64 => with_home!(@ $T = u64, $body),
            other => return Err($crate::host::bad_dtype($op, other)),
        }
    };
}

/// An unsigned integer of as many bytes, for kernels that only move elements.
macro_rules! with_bits {
    ($itemsize:expr, $T:ident => $body:expr) => {
        match $itemsize {
            1 => with_home!(@ $T = u8, $body),
            2 => with_home!(@ $T = u16, $body),
            4 => with_home!(@ $T = u32, $body),
            _ => with_home!(@ $T = u64, $body),
        }
    };
}
