//! Generated from the op table in `dala_defn/ops` by `python -m dala_defn.ops.rustgen`: edit the table, not this file.

use crate::attrs::{Attrs, Literal};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::Error;
use crate::symbolic::{SymTy, map_dims};

/// The result dtype of an elementwise op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// That of the operands.
    Same,
    Bool,
    /// Decided by the op's own rule.
    Own,
}

/// What the table says of an op.
#[derive(Debug)]
pub struct OpInfo {
    pub name: &'static str,
    pub code: u16,
    pub family: Family,
    pub result: ResultType,
    /// Bit `d` is set when the op takes dtype number `d`.
    accepts: u32,
}

impl OpInfo {
    /// True when the op takes values of this dtype as its (first) operand.
    pub fn accepts(&self, dtype: DType) -> bool {
        self.accepts >> (dtype as u8) & 1 == 1 && dtype.is_stored()
    }
}

macro_rules! row {
    ($name:literal, $code:literal, $family:ident, $result:ident, $accepts:literal) => {
        const {
            &OpInfo {
                name: $name,
                code: $code,
                family: Family::$family,
                result: ResultType::$result,
                accepts: $accepts,
            }
        }
    };
}

/// What kind of op it is; families share their type rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Unary,
    Binary,
    Ternary,
    Movement,
    Reduction,
    Contraction,
    Window,
    Random,
    Structure,
    Effect,
    Matrix,
    Fourier,
}

/// An elementwise op of family `unary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Floor,
    Ceil,
    Trunc,
    Round,
    Exp,
    Expm1,
    Log,
    Log1p,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Arcsinh,
    Arccosh,
    Arctanh,
    Erf,
    Sigmoid,
    Isfinite,
    Isnan,
    BitwiseNot,
    Popcount,
    Clz,
}

impl Unary {
    /// The op of that name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "neg" => Unary::Neg,
            "abs" => Unary::Abs,
            "sign" => Unary::Sign,
            "floor" => Unary::Floor,
            "ceil" => Unary::Ceil,
            "trunc" => Unary::Trunc,
            "round" => Unary::Round,
            "exp" => Unary::Exp,
            "expm1" => Unary::Expm1,
            "log" => Unary::Log,
            "log1p" => Unary::Log1p,
            "sqrt" => Unary::Sqrt,
            "rsqrt" => Unary::Rsqrt,
            "sin" => Unary::Sin,
            "cos" => Unary::Cos,
            "tan" => Unary::Tan,
            "arcsin" => Unary::Arcsin,
            "arccos" => Unary::Arccos,
            "arctan" => Unary::Arctan,
            "sinh" => Unary::Sinh,
            "cosh" => Unary::Cosh,
            "tanh" => Unary::Tanh,
            "arcsinh" => Unary::Arcsinh,
            "arccosh" => Unary::Arccosh,
            "arctanh" => Unary::Arctanh,
            "erf" => Unary::Erf,
            "sigmoid" => Unary::Sigmoid,
            "isfinite" => Unary::Isfinite,
            "isnan" => Unary::Isnan,
            "bitwise_not" => Unary::BitwiseNot,
            "popcount" => Unary::Popcount,
            "clz" => Unary::Clz,
            _ => return None,
        })
    }

    /// The row of the table.
    pub fn info(self) -> &'static OpInfo {
        match self {
            Unary::Neg => row!("neg", 0x01, Unary, Same, 0x1ffe),
            Unary::Abs => row!("abs", 0x02, Unary, Same, 0x1ffe),
            Unary::Sign => row!("sign", 0x03, Unary, Same, 0x1ffe),
            Unary::Floor => row!("floor", 0x04, Unary, Same, 0x1e00),
            Unary::Ceil => row!("ceil", 0x05, Unary, Same, 0x1e00),
            Unary::Trunc => row!("trunc", 0x06, Unary, Same, 0x1e00),
            Unary::Round => row!("round", 0x07, Unary, Same, 0x1e00),
            Unary::Exp => row!("exp", 0x08, Unary, Same, 0x1e00),
            Unary::Expm1 => row!("expm1", 0x09, Unary, Same, 0x1e00),
            Unary::Log => row!("log", 0x0a, Unary, Same, 0x1e00),
            Unary::Log1p => row!("log1p", 0x0b, Unary, Same, 0x1e00),
            Unary::Sqrt => row!("sqrt", 0x0c, Unary, Same, 0x1e00),
            Unary::Rsqrt => row!("rsqrt", 0x0d, Unary, Same, 0x1e00),
            Unary::Sin => row!("sin", 0x0e, Unary, Same, 0x1e00),
            Unary::Cos => row!("cos", 0x0f, Unary, Same, 0x1e00),
            Unary::Tan => row!("tan", 0x10, Unary, Same, 0x1e00),
            Unary::Arcsin => row!("arcsin", 0x11, Unary, Same, 0x1e00),
            Unary::Arccos => row!("arccos", 0x12, Unary, Same, 0x1e00),
            Unary::Arctan => row!("arctan", 0x13, Unary, Same, 0x1e00),
            Unary::Sinh => row!("sinh", 0x14, Unary, Same, 0x1e00),
            Unary::Cosh => row!("cosh", 0x15, Unary, Same, 0x1e00),
            Unary::Tanh => row!("tanh", 0x16, Unary, Same, 0x1e00),
            Unary::Arcsinh => row!("arcsinh", 0x17, Unary, Same, 0x1e00),
            Unary::Arccosh => row!("arccosh", 0x18, Unary, Same, 0x1e00),
            Unary::Arctanh => row!("arctanh", 0x19, Unary, Same, 0x1e00),
            Unary::Erf => row!("erf", 0x1a, Unary, Same, 0x1e00),
            Unary::Sigmoid => row!("sigmoid", 0x1b, Unary, Same, 0x1e00),
            Unary::Isfinite => row!("isfinite", 0x1c, Unary, Bool, 0x1e00),
            Unary::Isnan => row!("isnan", 0x1d, Unary, Bool, 0x1e00),
            Unary::BitwiseNot => row!("bitwise_not", 0x1e, Unary, Same, 0x1ff),
            Unary::Popcount => row!("popcount", 0x12a, Unary, Same, 0x1fe),
            Unary::Clz => row!("clz", 0x12b, Unary, Same, 0x1fe),
        }
    }
}

/// An elementwise op of family `binary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    FloorDivide,
    Remainder,
    Power,
    Maximum,
    Minimum,
    Arctan2,
    MulStrongZero,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    LeftShift,
    RightShift,
}

impl Binary {
    /// The op of that name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "add" => Binary::Add,
            "sub" => Binary::Sub,
            "mul" => Binary::Mul,
            "div" => Binary::Div,
            "floor_divide" => Binary::FloorDivide,
            "remainder" => Binary::Remainder,
            "power" => Binary::Power,
            "maximum" => Binary::Maximum,
            "minimum" => Binary::Minimum,
            "arctan2" => Binary::Arctan2,
            "mul_strong_zero" => Binary::MulStrongZero,
            "equal" => Binary::Equal,
            "not_equal" => Binary::NotEqual,
            "less" => Binary::Less,
            "less_equal" => Binary::LessEqual,
            "greater" => Binary::Greater,
            "greater_equal" => Binary::GreaterEqual,
            "bitwise_and" => Binary::BitwiseAnd,
            "bitwise_or" => Binary::BitwiseOr,
            "bitwise_xor" => Binary::BitwiseXor,
            "left_shift" => Binary::LeftShift,
            "right_shift" => Binary::RightShift,
            _ => return None,
        })
    }

    /// The row of the table.
    pub fn info(self) -> &'static OpInfo {
        match self {
            Binary::Add => row!("add", 0x30, Binary, Same, 0x1ffe),
            Binary::Sub => row!("sub", 0x31, Binary, Same, 0x1ffe),
            Binary::Mul => row!("mul", 0x32, Binary, Same, 0x1ffe),
            Binary::Div => row!("div", 0x33, Binary, Same, 0x1e00),
            Binary::FloorDivide => row!("floor_divide", 0x34, Binary, Same, 0x1ffe),
            Binary::Remainder => row!("remainder", 0x35, Binary, Same, 0x1ffe),
            Binary::Power => row!("power", 0x36, Binary, Same, 0x1ffe),
            Binary::Maximum => row!("maximum", 0x37, Binary, Same, 0x1fff),
            Binary::Minimum => row!("minimum", 0x38, Binary, Same, 0x1fff),
            Binary::Arctan2 => row!("arctan2", 0x39, Binary, Same, 0x1e00),
            Binary::MulStrongZero => row!("mul_strong_zero", 0x3a, Binary, Same, 0x1e00),
            Binary::Equal => row!("equal", 0x3b, Binary, Bool, 0x1fff),
            Binary::NotEqual => row!("not_equal", 0x3c, Binary, Bool, 0x1fff),
            Binary::Less => row!("less", 0x3d, Binary, Bool, 0x1fff),
            Binary::LessEqual => row!("less_equal", 0x3e, Binary, Bool, 0x1fff),
            Binary::Greater => row!("greater", 0x3f, Binary, Bool, 0x1fff),
            Binary::GreaterEqual => row!("greater_equal", 0x40, Binary, Bool, 0x1fff),
            Binary::BitwiseAnd => row!("bitwise_and", 0x41, Binary, Same, 0x1ff),
            Binary::BitwiseOr => row!("bitwise_or", 0x42, Binary, Same, 0x1ff),
            Binary::BitwiseXor => row!("bitwise_xor", 0x43, Binary, Same, 0x1ff),
            Binary::LeftShift => row!("left_shift", 0x44, Binary, Same, 0x1fe),
            Binary::RightShift => row!("right_shift", 0x45, Binary, Same, 0x1fe),
        }
    }
}

/// An operation with its attributes; `D` is a dim expression, or a size once resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Op<D = Dim> {
    Unary(Unary),
    Binary(Binary),
    StopGradient,
    Cast {
        dtype: DType,
    },
    Select,
    Reshape {
        shape: Vec<D>,
    },
    Transpose {
        axes: Vec<i64>,
    },
    BroadcastTo {
        shape: Vec<D>,
    },
    Slice {
        start: Vec<D>,
        stop: Vec<D>,
        step: Vec<i64>,
    },
    Pad {
        low: Vec<D>,
        high: Vec<D>,
        interior: Vec<i64>,
    },
    Concatenate {
        axis: i64,
    },
    Flip {
        axes: Vec<i64>,
    },
    Iota {
        shape: Vec<D>,
        axis: i64,
        dtype: DType,
    },
    Constant {
        value: Literal,
    },
    Gather {
        axis: i64,
        batch_dims: i64,
        mode: String,
    },
    ScatterAdd {
        axis: i64,
        batch_dims: i64,
        mode: String,
    },
    ScatterSet {
        axis: i64,
        batch_dims: i64,
        mode: String,
    },
    DynamicSlice {
        sizes: Vec<D>,
    },
    DynamicUpdateSlice,
    Sum {
        axes: Vec<i64>,
    },
    Prod {
        axes: Vec<i64>,
    },
    Max {
        axes: Vec<i64>,
    },
    Min {
        axes: Vec<i64>,
    },
    Argmax {
        axis: i64,
    },
    Argmin {
        axis: i64,
    },
    Cumsum {
        axis: i64,
        reverse: bool,
    },
    Cummax {
        axis: i64,
        reverse: bool,
    },
    Sort {
        axis: i64,
    },
    Argsort {
        axis: i64,
    },
    DotGeneral {
        contract_x: Vec<i64>,
        contract_y: Vec<i64>,
        batch_x: Vec<i64>,
        batch_y: Vec<i64>,
    },
    Conv {
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
        dilation: Vec<i64>,
        groups: i64,
    },
    ConvInputGrad {
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
        dilation: Vec<i64>,
        groups: i64,
        size: Vec<D>,
    },
    ConvWeightGrad {
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
        dilation: Vec<i64>,
        groups: i64,
        size: Vec<i64>,
    },
    WindowSum {
        window: Vec<i64>,
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
    },
    WindowMax {
        window: Vec<i64>,
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
    },
    WindowMaxSpread {
        window: Vec<i64>,
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
    },
    WindowMaxPick {
        window: Vec<i64>,
        strides: Vec<i64>,
        low: Vec<i64>,
        high: Vec<i64>,
    },
    RandomWrap,
    RandomUnwrap,
    RandomFoldIn,
    RandomBits {
        shape: Vec<D>,
        dtype: DType,
    },
    Call {
        function: usize,
        composite: String,
    },
    CustomVjp {
        primal: usize,
        forward: usize,
        backward: usize,
    },
    Checkpoint {
        function: usize,
        policy: String,
    },
    Cond {
        branches: Vec<usize>,
    },
    WhileLoop {
        cond: usize,
        body: usize,
        consts: i64,
    },
    Scan {
        body: usize,
        consts: i64,
        carries: i64,
        length: Vec<D>,
        reverse: bool,
    },
    Fused {
        function: usize,
        key: String,
        space: Vec<D>,
        axes: Vec<i64>,
        parallel: i64,
    },
    CustomJvp {
        primal: usize,
        tangent: usize,
    },
    Token,
    Print {
        format: String,
    },
    Tap {
        name: String,
    },
    Assert {
        message: String,
    },
    Callback {
        name: String,
        results: Vec<SymTy<D>>,
    },
    Cholesky {
        pairs: bool,
    },
    Lu {
        pairs: bool,
    },
    TriangularSolve {
        lower: bool,
        transpose: bool,
        unit: bool,
        pairs: bool,
    },
    Solve {
        pairs: bool,
    },
    Qr {
        pairs: bool,
    },
    Complement {
        pairs: bool,
    },
    Eigh {
        vectors: bool,
        pairs: bool,
    },
    Svd {
        vectors: bool,
        pairs: bool,
    },
    Eig {
        vectors: bool,
        pairs: bool,
    },
    Fft {
        axis: i64,
        inverse: bool,
    },
    Rfft {
        axis: i64,
    },
    Irfft {
        axis: i64,
        length: Vec<D>,
    },
    ScatterMul {
        axis: i64,
        batch_dims: i64,
        mode: String,
    },
    ScatterMax {
        axis: i64,
        batch_dims: i64,
        mode: String,
    },
    ScatterMin {
        axis: i64,
        batch_dims: i64,
        mode: String,
    },
    Cumprod {
        axis: i64,
        reverse: bool,
    },
    LinearScan {
        axis: i64,
        reverse: bool,
    },
    Cumlogsumexp {
        axis: i64,
        reverse: bool,
    },
    Bitcast {
        dtype: DType,
    },
}

impl Op<Dim> {
    /// Reads an op; every attribute must be there, and no other.
    pub fn decode(name: &str, attrs: &mut Attrs) -> Result<Self, Error> {
        let op = match name {
            "stop_gradient" => Op::StopGradient,
            "cast" => Op::Cast {
                dtype: attrs.dtype("dtype")?,
            },
            "select" => Op::Select,
            "reshape" => Op::Reshape {
                shape: attrs.dims("shape")?,
            },
            "transpose" => Op::Transpose {
                axes: attrs.ints("axes")?,
            },
            "broadcast_to" => Op::BroadcastTo {
                shape: attrs.dims("shape")?,
            },
            "slice" => Op::Slice {
                start: attrs.dims("start")?,
                stop: attrs.dims("stop")?,
                step: attrs.ints("step")?,
            },
            "pad" => Op::Pad {
                low: attrs.dims("low")?,
                high: attrs.dims("high")?,
                interior: attrs.ints("interior")?,
            },
            "concatenate" => Op::Concatenate {
                axis: attrs.int("axis")?,
            },
            "flip" => Op::Flip {
                axes: attrs.ints("axes")?,
            },
            "iota" => Op::Iota {
                shape: attrs.dims("shape")?,
                axis: attrs.int("axis")?,
                dtype: attrs.dtype("dtype")?,
            },
            "constant" => Op::Constant {
                value: attrs.value("value")?,
            },
            "gather" => Op::Gather {
                axis: attrs.int("axis")?,
                batch_dims: attrs.int("batch_dims")?,
                mode: attrs.str("mode")?,
            },
            "scatter_add" => Op::ScatterAdd {
                axis: attrs.int("axis")?,
                batch_dims: attrs.int("batch_dims")?,
                mode: attrs.str("mode")?,
            },
            "scatter_set" => Op::ScatterSet {
                axis: attrs.int("axis")?,
                batch_dims: attrs.int("batch_dims")?,
                mode: attrs.str("mode")?,
            },
            "dynamic_slice" => Op::DynamicSlice {
                sizes: attrs.dims("sizes")?,
            },
            "dynamic_update_slice" => Op::DynamicUpdateSlice,
            "sum" => Op::Sum {
                axes: attrs.ints("axes")?,
            },
            "prod" => Op::Prod {
                axes: attrs.ints("axes")?,
            },
            "max" => Op::Max {
                axes: attrs.ints("axes")?,
            },
            "min" => Op::Min {
                axes: attrs.ints("axes")?,
            },
            "argmax" => Op::Argmax {
                axis: attrs.int("axis")?,
            },
            "argmin" => Op::Argmin {
                axis: attrs.int("axis")?,
            },
            "cumsum" => Op::Cumsum {
                axis: attrs.int("axis")?,
                reverse: attrs.bool("reverse")?,
            },
            "cummax" => Op::Cummax {
                axis: attrs.int("axis")?,
                reverse: attrs.bool("reverse")?,
            },
            "sort" => Op::Sort {
                axis: attrs.int("axis")?,
            },
            "argsort" => Op::Argsort {
                axis: attrs.int("axis")?,
            },
            "dot_general" => Op::DotGeneral {
                contract_x: attrs.ints("contract_x")?,
                contract_y: attrs.ints("contract_y")?,
                batch_x: attrs.ints("batch_x")?,
                batch_y: attrs.ints("batch_y")?,
            },
            "conv" => Op::Conv {
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
                dilation: attrs.ints("dilation")?,
                groups: attrs.int("groups")?,
            },
            "conv_input_grad" => Op::ConvInputGrad {
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
                dilation: attrs.ints("dilation")?,
                groups: attrs.int("groups")?,
                size: attrs.dims("size")?,
            },
            "conv_weight_grad" => Op::ConvWeightGrad {
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
                dilation: attrs.ints("dilation")?,
                groups: attrs.int("groups")?,
                size: attrs.ints("size")?,
            },
            "window_sum" => Op::WindowSum {
                window: attrs.ints("window")?,
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
            },
            "window_max" => Op::WindowMax {
                window: attrs.ints("window")?,
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
            },
            "window_max_spread" => Op::WindowMaxSpread {
                window: attrs.ints("window")?,
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
            },
            "window_max_pick" => Op::WindowMaxPick {
                window: attrs.ints("window")?,
                strides: attrs.ints("strides")?,
                low: attrs.ints("low")?,
                high: attrs.ints("high")?,
            },
            "random_wrap" => Op::RandomWrap,
            "random_unwrap" => Op::RandomUnwrap,
            "random_fold_in" => Op::RandomFoldIn,
            "random_bits" => Op::RandomBits {
                shape: attrs.dims("shape")?,
                dtype: attrs.dtype("dtype")?,
            },
            "call" => Op::Call {
                function: attrs.fun("function")?,
                composite: attrs.str("composite")?,
            },
            "custom_vjp" => Op::CustomVjp {
                primal: attrs.fun("primal")?,
                forward: attrs.fun("forward")?,
                backward: attrs.fun("backward")?,
            },
            "checkpoint" => Op::Checkpoint {
                function: attrs.fun("function")?,
                policy: attrs.str("policy")?,
            },
            "cond" => Op::Cond {
                branches: attrs.funs("branches")?,
            },
            "while_loop" => Op::WhileLoop {
                cond: attrs.fun("cond")?,
                body: attrs.fun("body")?,
                consts: attrs.int("consts")?,
            },
            "scan" => Op::Scan {
                body: attrs.fun("body")?,
                consts: attrs.int("consts")?,
                carries: attrs.int("carries")?,
                length: attrs.dims("length")?,
                reverse: attrs.bool("reverse")?,
            },
            "fused" => Op::Fused {
                function: attrs.fun("function")?,
                key: attrs.str("key")?,
                space: attrs.dims("space")?,
                axes: attrs.ints("axes")?,
                parallel: attrs.int("parallel")?,
            },
            "custom_jvp" => Op::CustomJvp {
                primal: attrs.fun("primal")?,
                tangent: attrs.fun("tangent")?,
            },
            "token" => Op::Token,
            "print" => Op::Print {
                format: attrs.str("format")?,
            },
            "tap" => Op::Tap {
                name: attrs.str("name")?,
            },
            "assert" => Op::Assert {
                message: attrs.str("message")?,
            },
            "callback" => Op::Callback {
                name: attrs.str("name")?,
                results: attrs.types("results")?,
            },
            "cholesky" => Op::Cholesky {
                pairs: attrs.bool("pairs")?,
            },
            "lu" => Op::Lu {
                pairs: attrs.bool("pairs")?,
            },
            "triangular_solve" => Op::TriangularSolve {
                lower: attrs.bool("lower")?,
                transpose: attrs.bool("transpose")?,
                unit: attrs.bool("unit")?,
                pairs: attrs.bool("pairs")?,
            },
            "solve" => Op::Solve {
                pairs: attrs.bool("pairs")?,
            },
            "qr" => Op::Qr {
                pairs: attrs.bool("pairs")?,
            },
            "complement" => Op::Complement {
                pairs: attrs.bool("pairs")?,
            },
            "eigh" => Op::Eigh {
                vectors: attrs.bool("vectors")?,
                pairs: attrs.bool("pairs")?,
            },
            "svd" => Op::Svd {
                vectors: attrs.bool("vectors")?,
                pairs: attrs.bool("pairs")?,
            },
            "eig" => Op::Eig {
                vectors: attrs.bool("vectors")?,
                pairs: attrs.bool("pairs")?,
            },
            "fft" => Op::Fft {
                axis: attrs.int("axis")?,
                inverse: attrs.bool("inverse")?,
            },
            "rfft" => Op::Rfft {
                axis: attrs.int("axis")?,
            },
            "irfft" => Op::Irfft {
                axis: attrs.int("axis")?,
                length: attrs.dims("length")?,
            },
            "scatter_mul" => Op::ScatterMul {
                axis: attrs.int("axis")?,
                batch_dims: attrs.int("batch_dims")?,
                mode: attrs.str("mode")?,
            },
            "scatter_max" => Op::ScatterMax {
                axis: attrs.int("axis")?,
                batch_dims: attrs.int("batch_dims")?,
                mode: attrs.str("mode")?,
            },
            "scatter_min" => Op::ScatterMin {
                axis: attrs.int("axis")?,
                batch_dims: attrs.int("batch_dims")?,
                mode: attrs.str("mode")?,
            },
            "cumprod" => Op::Cumprod {
                axis: attrs.int("axis")?,
                reverse: attrs.bool("reverse")?,
            },
            "linear_scan" => Op::LinearScan {
                axis: attrs.int("axis")?,
                reverse: attrs.bool("reverse")?,
            },
            "cumlogsumexp" => Op::Cumlogsumexp {
                axis: attrs.int("axis")?,
                reverse: attrs.bool("reverse")?,
            },
            "bitcast" => Op::Bitcast {
                dtype: attrs.dtype("dtype")?,
            },
            _ => {
                let op: Option<Self> = Unary::named(name)
                    .map(Op::Unary)
                    .or_else(|| Binary::named(name).map(Op::Binary));
                op.ok_or_else(|| Error::unknown_op(name))?
            }
        };
        attrs.finish()?;
        Ok(op)
    }
}

impl<D> Op<D> {
    /// The same op with every dim replaced by what `f` gives for it.
    pub fn map_dims<T, E>(&self, mut f: impl FnMut(&D) -> Result<T, E>) -> Result<Op<T>, E> {
        Ok(match self {
            Op::Unary(op) => Op::Unary(*op),
            Op::Binary(op) => Op::Binary(*op),
            Op::StopGradient => Op::StopGradient,
            Op::Cast { dtype } => Op::Cast { dtype: *dtype },
            Op::Select => Op::Select,
            Op::Reshape { shape } => Op::Reshape {
                shape: map_dims(shape, &mut f)?,
            },
            Op::Transpose { axes } => Op::Transpose { axes: axes.clone() },
            Op::BroadcastTo { shape } => Op::BroadcastTo {
                shape: map_dims(shape, &mut f)?,
            },
            Op::Slice { start, stop, step } => Op::Slice {
                start: map_dims(start, &mut f)?,
                stop: map_dims(stop, &mut f)?,
                step: step.clone(),
            },
            Op::Pad {
                low,
                high,
                interior,
            } => Op::Pad {
                low: map_dims(low, &mut f)?,
                high: map_dims(high, &mut f)?,
                interior: interior.clone(),
            },
            Op::Concatenate { axis } => Op::Concatenate { axis: *axis },
            Op::Flip { axes } => Op::Flip { axes: axes.clone() },
            Op::Iota { shape, axis, dtype } => Op::Iota {
                shape: map_dims(shape, &mut f)?,
                axis: *axis,
                dtype: *dtype,
            },
            Op::Constant { value } => Op::Constant {
                value: value.clone(),
            },
            Op::Gather {
                axis,
                batch_dims,
                mode,
            } => Op::Gather {
                axis: *axis,
                batch_dims: *batch_dims,
                mode: mode.clone(),
            },
            Op::ScatterAdd {
                axis,
                batch_dims,
                mode,
            } => Op::ScatterAdd {
                axis: *axis,
                batch_dims: *batch_dims,
                mode: mode.clone(),
            },
            Op::ScatterSet {
                axis,
                batch_dims,
                mode,
            } => Op::ScatterSet {
                axis: *axis,
                batch_dims: *batch_dims,
                mode: mode.clone(),
            },
            Op::DynamicSlice { sizes } => Op::DynamicSlice {
                sizes: map_dims(sizes, &mut f)?,
            },
            Op::DynamicUpdateSlice => Op::DynamicUpdateSlice,
            Op::Sum { axes } => Op::Sum { axes: axes.clone() },
            Op::Prod { axes } => Op::Prod { axes: axes.clone() },
            Op::Max { axes } => Op::Max { axes: axes.clone() },
            Op::Min { axes } => Op::Min { axes: axes.clone() },
            Op::Argmax { axis } => Op::Argmax { axis: *axis },
            Op::Argmin { axis } => Op::Argmin { axis: *axis },
            Op::Cumsum { axis, reverse } => Op::Cumsum {
                axis: *axis,
                reverse: *reverse,
            },
            Op::Cummax { axis, reverse } => Op::Cummax {
                axis: *axis,
                reverse: *reverse,
            },
            Op::Sort { axis } => Op::Sort { axis: *axis },
            Op::Argsort { axis } => Op::Argsort { axis: *axis },
            Op::DotGeneral {
                contract_x,
                contract_y,
                batch_x,
                batch_y,
            } => Op::DotGeneral {
                contract_x: contract_x.clone(),
                contract_y: contract_y.clone(),
                batch_x: batch_x.clone(),
                batch_y: batch_y.clone(),
            },
            Op::Conv {
                strides,
                low,
                high,
                dilation,
                groups,
            } => Op::Conv {
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
                dilation: dilation.clone(),
                groups: *groups,
            },
            Op::ConvInputGrad {
                strides,
                low,
                high,
                dilation,
                groups,
                size,
            } => Op::ConvInputGrad {
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
                dilation: dilation.clone(),
                groups: *groups,
                size: map_dims(size, &mut f)?,
            },
            Op::ConvWeightGrad {
                strides,
                low,
                high,
                dilation,
                groups,
                size,
            } => Op::ConvWeightGrad {
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
                dilation: dilation.clone(),
                groups: *groups,
                size: size.clone(),
            },
            Op::WindowSum {
                window,
                strides,
                low,
                high,
            } => Op::WindowSum {
                window: window.clone(),
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
            },
            Op::WindowMax {
                window,
                strides,
                low,
                high,
            } => Op::WindowMax {
                window: window.clone(),
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
            },
            Op::WindowMaxSpread {
                window,
                strides,
                low,
                high,
            } => Op::WindowMaxSpread {
                window: window.clone(),
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
            },
            Op::WindowMaxPick {
                window,
                strides,
                low,
                high,
            } => Op::WindowMaxPick {
                window: window.clone(),
                strides: strides.clone(),
                low: low.clone(),
                high: high.clone(),
            },
            Op::RandomWrap => Op::RandomWrap,
            Op::RandomUnwrap => Op::RandomUnwrap,
            Op::RandomFoldIn => Op::RandomFoldIn,
            Op::RandomBits { shape, dtype } => Op::RandomBits {
                shape: map_dims(shape, &mut f)?,
                dtype: *dtype,
            },
            Op::Call {
                function,
                composite,
            } => Op::Call {
                function: *function,
                composite: composite.clone(),
            },
            Op::CustomVjp {
                primal,
                forward,
                backward,
            } => Op::CustomVjp {
                primal: *primal,
                forward: *forward,
                backward: *backward,
            },
            Op::Checkpoint { function, policy } => Op::Checkpoint {
                function: *function,
                policy: policy.clone(),
            },
            Op::Cond { branches } => Op::Cond {
                branches: branches.clone(),
            },
            Op::WhileLoop { cond, body, consts } => Op::WhileLoop {
                cond: *cond,
                body: *body,
                consts: *consts,
            },
            Op::Scan {
                body,
                consts,
                carries,
                length,
                reverse,
            } => Op::Scan {
                body: *body,
                consts: *consts,
                carries: *carries,
                length: map_dims(length, &mut f)?,
                reverse: *reverse,
            },
            Op::Fused {
                function,
                key,
                space,
                axes,
                parallel,
            } => Op::Fused {
                function: *function,
                key: key.clone(),
                space: map_dims(space, &mut f)?,
                axes: axes.clone(),
                parallel: *parallel,
            },
            Op::CustomJvp { primal, tangent } => Op::CustomJvp {
                primal: *primal,
                tangent: *tangent,
            },
            Op::Token => Op::Token,
            Op::Print { format } => Op::Print {
                format: format.clone(),
            },
            Op::Tap { name } => Op::Tap { name: name.clone() },
            Op::Assert { message } => Op::Assert {
                message: message.clone(),
            },
            Op::Callback { name, results } => Op::Callback {
                name: name.clone(),
                results: results
                    .iter()
                    .map(|t| t.map_dims(&mut f))
                    .collect::<Result<_, E>>()?,
            },
            Op::Cholesky { pairs } => Op::Cholesky { pairs: *pairs },
            Op::Lu { pairs } => Op::Lu { pairs: *pairs },
            Op::TriangularSolve {
                lower,
                transpose,
                unit,
                pairs,
            } => Op::TriangularSolve {
                lower: *lower,
                transpose: *transpose,
                unit: *unit,
                pairs: *pairs,
            },
            Op::Solve { pairs } => Op::Solve { pairs: *pairs },
            Op::Qr { pairs } => Op::Qr { pairs: *pairs },
            Op::Complement { pairs } => Op::Complement { pairs: *pairs },
            Op::Eigh { vectors, pairs } => Op::Eigh {
                vectors: *vectors,
                pairs: *pairs,
            },
            Op::Svd { vectors, pairs } => Op::Svd {
                vectors: *vectors,
                pairs: *pairs,
            },
            Op::Eig { vectors, pairs } => Op::Eig {
                vectors: *vectors,
                pairs: *pairs,
            },
            Op::Fft { axis, inverse } => Op::Fft {
                axis: *axis,
                inverse: *inverse,
            },
            Op::Rfft { axis } => Op::Rfft { axis: *axis },
            Op::Irfft { axis, length } => Op::Irfft {
                axis: *axis,
                length: map_dims(length, &mut f)?,
            },
            Op::ScatterMul {
                axis,
                batch_dims,
                mode,
            } => Op::ScatterMul {
                axis: *axis,
                batch_dims: *batch_dims,
                mode: mode.clone(),
            },
            Op::ScatterMax {
                axis,
                batch_dims,
                mode,
            } => Op::ScatterMax {
                axis: *axis,
                batch_dims: *batch_dims,
                mode: mode.clone(),
            },
            Op::ScatterMin {
                axis,
                batch_dims,
                mode,
            } => Op::ScatterMin {
                axis: *axis,
                batch_dims: *batch_dims,
                mode: mode.clone(),
            },
            Op::Cumprod { axis, reverse } => Op::Cumprod {
                axis: *axis,
                reverse: *reverse,
            },
            Op::LinearScan { axis, reverse } => Op::LinearScan {
                axis: *axis,
                reverse: *reverse,
            },
            Op::Cumlogsumexp { axis, reverse } => Op::Cumlogsumexp {
                axis: *axis,
                reverse: *reverse,
            },
            Op::Bitcast { dtype } => Op::Bitcast { dtype: *dtype },
        })
    }

    /// The row of the table.
    pub fn info(&self) -> &'static OpInfo {
        match self {
            Op::Unary(op) => op.info(),
            Op::Binary(op) => op.info(),
            Op::StopGradient => row!("stop_gradient", 0x1f, Unary, Same, 0x9fff),
            Op::Cast { .. } => row!("cast", 0x20, Unary, Own, 0x1fff),
            Op::Select => row!("select", 0x46, Ternary, Own, 0x1fff),
            Op::Reshape { .. } => row!("reshape", 0x50, Movement, Own, 0x9fff),
            Op::Transpose { .. } => row!("transpose", 0x51, Movement, Own, 0x9fff),
            Op::BroadcastTo { .. } => row!("broadcast_to", 0x52, Movement, Own, 0x9fff),
            Op::Slice { .. } => row!("slice", 0x53, Movement, Own, 0x9fff),
            Op::Pad { .. } => row!("pad", 0x54, Movement, Own, 0x1fff),
            Op::Concatenate { .. } => row!("concatenate", 0x55, Movement, Own, 0x9fff),
            Op::Flip { .. } => row!("flip", 0x56, Movement, Own, 0x9fff),
            Op::Iota { .. } => row!("iota", 0x57, Movement, Own, 0x1ffe),
            Op::Constant { .. } => row!("constant", 0x58, Movement, Own, 0x9fff),
            Op::Gather { .. } => row!("gather", 0x59, Movement, Own, 0x9fff),
            Op::ScatterAdd { .. } => row!("scatter_add", 0x5a, Movement, Own, 0x1ffe),
            Op::ScatterSet { .. } => row!("scatter_set", 0x5b, Movement, Own, 0x1fff),
            Op::DynamicSlice { .. } => row!("dynamic_slice", 0x5c, Movement, Own, 0x9fff),
            Op::DynamicUpdateSlice => row!("dynamic_update_slice", 0x5d, Movement, Own, 0x1fff),
            Op::Sum { .. } => row!("sum", 0x70, Reduction, Own, 0x1ffe),
            Op::Prod { .. } => row!("prod", 0x71, Reduction, Own, 0x1ffe),
            Op::Max { .. } => row!("max", 0x72, Reduction, Own, 0x1fff),
            Op::Min { .. } => row!("min", 0x73, Reduction, Own, 0x1fff),
            Op::Argmax { .. } => row!("argmax", 0x74, Reduction, Own, 0x1fff),
            Op::Argmin { .. } => row!("argmin", 0x75, Reduction, Own, 0x1fff),
            Op::Cumsum { .. } => row!("cumsum", 0x76, Reduction, Own, 0x1ffe),
            Op::Cummax { .. } => row!("cummax", 0x77, Reduction, Own, 0x1ffe),
            Op::Sort { .. } => row!("sort", 0x78, Reduction, Own, 0x1fff),
            Op::Argsort { .. } => row!("argsort", 0x79, Reduction, Own, 0x1fff),
            Op::DotGeneral { .. } => row!("dot_general", 0x90, Contraction, Own, 0x1ffe),
            Op::Conv { .. } => row!("conv", 0x91, Contraction, Own, 0x1e00),
            Op::ConvInputGrad { .. } => row!("conv_input_grad", 0x92, Contraction, Own, 0x1e00),
            Op::ConvWeightGrad { .. } => row!("conv_weight_grad", 0x93, Contraction, Own, 0x1e00),
            Op::WindowSum { .. } => row!("window_sum", 0xa0, Window, Own, 0x1ffe),
            Op::WindowMax { .. } => row!("window_max", 0xa1, Window, Own, 0x1ffe),
            Op::WindowMaxSpread { .. } => row!("window_max_spread", 0xa2, Window, Own, 0x1e00),
            Op::WindowMaxPick { .. } => row!("window_max_pick", 0xa3, Window, Own, 0x1e00),
            Op::RandomWrap => row!("random_wrap", 0xb0, Random, Own, 0x80),
            Op::RandomUnwrap => row!("random_unwrap", 0xb1, Random, Own, 0x8000),
            Op::RandomFoldIn => row!("random_fold_in", 0xb2, Random, Own, 0x8000),
            Op::RandomBits { .. } => row!("random_bits", 0xb3, Random, Own, 0x8000),
            Op::Call { .. } => row!("call", 0xc0, Structure, Own, 0x0),
            Op::CustomVjp { .. } => row!("custom_vjp", 0xc1, Structure, Own, 0x0),
            Op::Checkpoint { .. } => row!("checkpoint", 0xc2, Structure, Own, 0x0),
            Op::Cond { .. } => row!("cond", 0xc3, Structure, Own, 0x0),
            Op::WhileLoop { .. } => row!("while_loop", 0xc4, Structure, Own, 0x0),
            Op::Scan { .. } => row!("scan", 0xc5, Structure, Own, 0x0),
            Op::Fused { .. } => row!("fused", 0xc6, Structure, Own, 0x0),
            Op::CustomJvp { .. } => row!("custom_jvp", 0xc7, Structure, Own, 0x0),
            Op::Token => row!("token", 0xc8, Effect, Own, 0x0),
            Op::Print { .. } => row!("print", 0xc9, Effect, Own, 0x0),
            Op::Tap { .. } => row!("tap", 0xca, Effect, Own, 0x0),
            Op::Assert { .. } => row!("assert", 0xcb, Effect, Own, 0x0),
            Op::Callback { .. } => row!("callback", 0xcc, Effect, Own, 0x0),
            Op::Cholesky { .. } => row!("cholesky", 0x100, Matrix, Own, 0x1800),
            Op::Lu { .. } => row!("lu", 0x101, Matrix, Own, 0x1800),
            Op::TriangularSolve { .. } => row!("triangular_solve", 0x102, Matrix, Own, 0x1800),
            Op::Solve { .. } => row!("solve", 0x103, Matrix, Own, 0x1800),
            Op::Qr { .. } => row!("qr", 0x104, Matrix, Own, 0x1800),
            Op::Complement { .. } => row!("complement", 0x105, Matrix, Own, 0x1800),
            Op::Eigh { .. } => row!("eigh", 0x106, Matrix, Own, 0x1800),
            Op::Svd { .. } => row!("svd", 0x107, Matrix, Own, 0x1800),
            Op::Eig { .. } => row!("eig", 0x108, Matrix, Own, 0x1800),
            Op::Fft { .. } => row!("fft", 0x120, Fourier, Own, 0x1800),
            Op::Rfft { .. } => row!("rfft", 0x121, Fourier, Own, 0x1800),
            Op::Irfft { .. } => row!("irfft", 0x122, Fourier, Own, 0x1800),
            Op::ScatterMul { .. } => row!("scatter_mul", 0x123, Movement, Own, 0x1ffe),
            Op::ScatterMax { .. } => row!("scatter_max", 0x124, Movement, Own, 0x1ffe),
            Op::ScatterMin { .. } => row!("scatter_min", 0x125, Movement, Own, 0x1ffe),
            Op::Cumprod { .. } => row!("cumprod", 0x126, Reduction, Own, 0x1ffe),
            Op::LinearScan { .. } => row!("linear_scan", 0x127, Reduction, Own, 0x1e00),
            Op::Cumlogsumexp { .. } => row!("cumlogsumexp", 0x128, Reduction, Own, 0x1e00),
            Op::Bitcast { .. } => row!("bitcast", 0x129, Movement, Own, 0x1fff),
        }
    }
}
