//! From a dtype at run time to a Rust type.

/// Runs `$body` with `$T` the Rust type of an integer dtype.
macro_rules! with_int {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::I8 => with_int!(@ $T = i8, $body),
            $crate::dtype::DType::I16 => with_int!(@ $T = i16, $body),
            $crate::dtype::DType::I32 => with_int!(@ $T = i32, $body),
            $crate::dtype::DType::I64 => with_int!(@ $T = i64, $body),
            $crate::dtype::DType::U8 => with_int!(@ $T = u8, $body),
            $crate::dtype::DType::U16 => with_int!(@ $T = u16, $body),
            $crate::dtype::DType::U32 => with_int!(@ $T = u32, $body),
            $crate::dtype::DType::U64 => with_int!(@ $T = u64, $body),
            other => return Err($crate::host::bad_dtype($op, other)),
        }
    };
    (@ $T:ident = $type:ty, $body:expr) => {{
        #[allow(dead_code)]
        type $T = $type;
        $body
    }};
}

/// The same for a float dtype.
macro_rules! with_float {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F16 => with_int!(@ $T = half::f16, $body),
            $crate::dtype::DType::BF16 => with_int!(@ $T = half::bf16, $body),
            $crate::dtype::DType::F32 => with_int!(@ $T = f32, $body),
            $crate::dtype::DType::F64 => with_int!(@ $T = f64, $body),
            other => return Err($crate::host::bad_dtype($op, other)),
        }
    };
}

/// The same for integers and floats.
macro_rules! with_num {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F16 => with_int!(@ $T = half::f16, $body),
            $crate::dtype::DType::BF16 => with_int!(@ $T = half::bf16, $body),
            $crate::dtype::DType::F32 => with_int!(@ $T = f32, $body),
            $crate::dtype::DType::F64 => with_int!(@ $T = f64, $body),
            int => with_int!($op, int, $T => $body),
        }
    };
}

/// The same for every stored dtype: bool is [`crate::host::num::Flag`].
macro_rules! with_all {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::Bool => with_int!(@ $T = $crate::host::num::Flag, $body),
            num => with_num!($op, num, $T => $body),
        }
    };
}

/// An unsigned integer of as many bytes, for kernels that only move elements.
macro_rules! with_bits {
    ($itemsize:expr, $T:ident => $body:expr) => {
        match $itemsize {
            1 => with_int!(@ $T = u8, $body),
            2 => with_int!(@ $T = u16, $body),
            4 => with_int!(@ $T = u32, $body),
            8 => with_int!(@ $T = u64, $body),
            _ => with_int!(@ $T = u128, $body),
        }
    };
}
