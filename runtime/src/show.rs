//! Values as text, for messages: as NumPy writes arrays, so that a message is the same from every executor.

use half::{bf16, f16};

use crate::dtype::DType;
use crate::host::HostView;
use crate::value::Ty;

/// Arrays with more elements are written without their middle.
const THRESHOLD: usize = 20;
/// So many of the first and the last along each axis then stay.
const EDGE: usize = 3;
/// Digits after the point.
const PRECISION: usize = 8;
const LINE: usize = 75;

/// A value that is shown; whoever sees it may look at it until it returns.
pub struct Shown<'a> {
    pub ty: &'a Ty,
    pub view: HostView<'a>,
}

/// The template with `{0}`, `{1}` ... replaced by the values, and `{{` and `}}` by single ones.
pub fn fill(template: &str, values: &[Shown<'_>]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let number = || {
            let end = rest.find('}').filter(|end| *end <= 7)?;
            let digits = rest.get(1..end)?;
            let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let value = values.get(digits.parse::<usize>().ok().filter(|_| valid)?)?;
            Some((end + 1, value))
        };
        if rest.starts_with("{{") || rest.starts_with("}}") {
            out.push_str(&rest[..1]);
            rest = &rest[2..];
        } else if let Some((end, value)) = number() {
            out.push_str(&show(value));
            rest = &rest[end..];
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out + rest
}

/// A value as NumPy would write it.
pub fn show(value: &Shown<'_>) -> String {
    let view = &value.view;
    if view.shape.contains(&0) {
        return "[]".to_string();
    }
    let short = view.elements() > THRESHOLD;
    let mut offsets = Vec::new();
    places(view.shape, view.strides, short, 0, &mut offsets);
    let item = view.dtype.itemsize() as isize;
    // SAFETY: the offsets are those of elements, which the view keeps readable.
    let elements = offsets
        .iter()
        .map(|at| unsafe { view.ptr.offset(at * item) });
    let words = if view.dtype.is_float() {
        floats(&elements.map(|p| digits(p, view.dtype)).collect::<Vec<_>>())
    } else {
        let words: Vec<String> = elements.map(|p| whole(p, view.dtype)).collect();
        let width = match view.dtype {
            DType::Bool if !view.shape.is_empty() => "False".len(),
            _ => words.iter().map(String::len).max().unwrap_or(0),
        };
        words.iter().map(|w| format!("{w:>width$}")).collect()
    };
    let mut words = words.into_iter();
    nest(view.shape, short, 0, &mut words)
}

/// The indices along an axis that are written; `None` stands for those left out.
fn along(n: usize, short: bool) -> impl Iterator<Item = Option<usize>> {
    let cut = short && n > 2 * EDGE;
    let head = if cut { EDGE } else { n };
    let tail = if cut { n - EDGE..n } else { 0..0 };
    (0..head)
        .map(Some)
        .chain(cut.then_some(None))
        .chain(tail.map(Some))
}

fn places(shape: &[usize], strides: &[isize], short: bool, at: isize, out: &mut Vec<isize>) {
    let (Some((n, shape)), Some((stride, strides))) = (shape.split_first(), strides.split_first())
    else {
        return out.push(at);
    };
    for i in along(*n, short).flatten() {
        places(shape, strides, short, at + i as isize * stride, out);
    }
}

fn nest(
    shape: &[usize],
    short: bool,
    depth: usize,
    words: &mut impl Iterator<Item = String>,
) -> String {
    let Some((n, inner)) = shape.split_first() else {
        return words.next().unwrap_or_default();
    };
    let indent = " ".repeat(depth + 1);
    let mut out = "[".to_string();
    if inner.is_empty() {
        // One line, wrapped where it gets too long.
        let (mut line, room) = (depth + 1, LINE.saturating_sub(depth + 1));
        for (i, place) in along(*n, short).enumerate() {
            let word = place.map_or("...".to_string(), |_| words.next().unwrap_or_default());
            if i > 0 && line + 1 + word.len() > room {
                out.truncate(out.trim_end().len());
                out.push_str(&format!("\n{indent}"));
                line = depth + 1;
            } else if i > 0 {
                out.push(' ');
                line += 1;
            }
            line += word.len();
            out.push_str(&word);
        }
    } else {
        for (i, place) in along(*n, short).enumerate() {
            if i > 0 {
                out.push_str(&"\n".repeat(inner.len()));
                out.push_str(&indent);
            }
            match place {
                Some(_) => out.push_str(&nest(inner, short, depth + 1, words)),
                None => out.push_str("..."),
            }
        }
    }
    out.push(']');
    out
}

/// An integer or a truth value.
fn whole(p: *const u8, dtype: DType) -> String {
    macro_rules! read {
        ($T:ty) => {
            // SAFETY: `p` points to an element of this type, which borrowed memory may hold unaligned.
            unsafe { p.cast::<$T>().read_unaligned() }.to_string()
        };
    }
    match dtype {
        DType::Bool => {
            // SAFETY: as above.
            let set = unsafe { p.read() } != 0;
            if set { "True" } else { "False" }.to_string()
        }
        DType::I8 => read!(i8),
        DType::I16 => read!(i16),
        DType::I32 => read!(i32),
        DType::I64 => read!(i64),
        DType::U8 => read!(u8),
        DType::U16 => read!(u16),
        DType::U32 => read!(u32),
        DType::U64 => read!(u64),
        other => other.name().to_string(),
    }
}

/// A float, and the digits that tell it from its neighbours: `1.25e-3` as `("1.25e-3", 0.00125)`.
fn digits(p: *const u8, dtype: DType) -> (String, f64) {
    // SAFETY: `p` points to an element of this dtype.
    unsafe {
        match dtype {
            DType::F32 => {
                let x = p.cast::<f32>().read_unaligned();
                (format!("{x:e}"), x.into())
            }
            DType::F64 => {
                let x = p.cast::<f64>().read_unaligned();
                (format!("{x:e}"), x)
            }
            DType::F16 => {
                let x = p.cast::<f16>().read_unaligned();
                shortest(x.to_f64(), |y| f16::from_f64(y) == x)
            }
            _ => {
                let x = p.cast::<bf16>().read_unaligned();
                shortest(x.to_f64(), |y| bf16::from_f64(y) == x)
            }
        }
    }
}

fn shortest(x: f64, same: impl Fn(f64) -> bool) -> (String, f64) {
    let texts = (0..8).map(|n| format!("{x:.n$e}"));
    let found = texts
        .into_iter()
        .find(|t| t.parse().is_ok_and(|y: f64| same(y)));
    (found.unwrap_or_else(|| format!("{x:e}")), x)
}

/// Floats, all in one form and of one width.
fn floats(values: &[(String, f64)]) -> Vec<String> {
    let sizes = || {
        let finite = values.iter().map(|(_, x)| x.abs());
        finite.filter(|x| x.is_finite() && *x != 0.0)
    };
    let (least, most) = (
        sizes().fold(f64::INFINITY, f64::min),
        sizes().fold(0.0, f64::max),
    );
    let scientific = most >= 1e8 || (most > 0.0 && (least < 1e-4 || most / least > 1000.0));
    let parts: Vec<(String, String, String)> = values
        .iter()
        .map(|(text, x)| match x.is_finite() {
            true if scientific => exponential(text),
            true => positional(text),
            false => {
                let name = if x.is_nan() { "nan" } else { "inf" };
                let sign = if *x < 0.0 { "-" } else { "" };
                (format!("{sign}{name}"), String::new(), String::new())
            }
        })
        .collect();
    let finite = || parts.iter().zip(values).filter(|(_, v)| v.1.is_finite());
    let right = finite().map(|(p, _)| p.1.len()).max().unwrap_or(0);
    let left = finite().map(|(p, _)| p.0.len()).max().unwrap_or(0);
    let tail = finite().map(|(p, _)| p.2.len()).max().unwrap_or(0);
    let width =
        parts
            .iter()
            .map(|p| p.0.len())
            .max()
            .unwrap_or(0)
            .max(if finite().next().is_some() {
                left + 1 + right + tail
            } else {
                0
            });
    let fill = if scientific { '0' } else { ' ' };
    parts
        .iter()
        .zip(values)
        .map(|((whole, fraction, exponent), (_, x))| {
            if !x.is_finite() {
                return format!("{whole:>width$}");
            }
            let pad: String = std::iter::repeat_n(fill, right - fraction.len()).collect();
            let text = format!("{whole}.{fraction}{pad}{exponent}");
            format!("{text:>width$}")
        })
        .collect()
}

/// Before the point, after it, and the exponent.
fn exponential(text: &str) -> (String, String, String) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if fraction.len() > PRECISION
        && let Ok(x) = text.parse::<f64>()
    {
        let rounded = format!("{x:.PRECISION$e}");
        let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
        let trimmed = mantissa.trim_end_matches('0');
        return exponential(&format!("{}e{exponent}", trimmed.trim_end_matches('.')));
    }
    let power: i32 = exponent.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    let exponent = format!("e{sign}{:02}", power.unsigned_abs());
    (whole.to_string(), fraction.to_string(), exponent)
}

fn positional(text: &str) -> (String, String, String) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{first}{rest}");
    // Where the point stands among the digits.
    let point = first.len() as i32 + power;
    let (whole, fraction) = if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        ("0".to_string(), format!("{zeros}{all}"))
    } else if (point as usize) < all.len() {
        let (a, b) = all.split_at(point as usize);
        (a.to_string(), b.to_string())
    } else {
        (
            format!("{all:0<width$}", width = point as usize),
            String::new(),
        )
    };
    if fraction.len() > PRECISION
        && let Ok(x) = text.parse::<f64>()
    {
        let rounded = format!("{:.PRECISION$}", x.abs());
        let (whole, fraction) = rounded.split_once('.').unwrap_or((&rounded, ""));
        let fraction = fraction.trim_end_matches('0');
        return (
            format!("{sign}{whole}"),
            fraction.to_string(),
            String::new(),
        );
    }
    let fraction = fraction.trim_end_matches('0');
    (
        format!("{sign}{whole}"),
        fraction.to_string(),
        String::new(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::dense_strides;

    fn text<T>(values: &[T], dtype: DType, shape: &[usize]) -> String {
        let ty = Ty::new(dtype, shape.to_vec()).unwrap();
        let strides = dense_strides(shape);
        let view = HostView {
            ptr: values.as_ptr().cast(),
            shape,
            strides: &strides,
            dtype,
        };
        fill("<{0}>", &[Shown { ty: &ty, view }])
    }

    /// What NumPy 2 writes for the same arrays.
    #[test]
    fn test_values_are_written_as_numpy_writes_them() {
        let f = DType::F32;
        let cases = [
            (text(&[1.0f32], f, &[]), "<1.>"),
            (text(&[0.1f32], f, &[]), "<0.1>"),
            (text(&[1.0f64 / 3.0], DType::F64, &[]), "<0.33333333>"),
            (
                text(&[1.0f32, 0.5, -2.25], f, &[3]),
                "<[ 1.    0.5  -2.25]>",
            ),
            (text(&[1e-5f32, 2.0], f, &[2]), "<[1.e-05 2.e+00]>"),
            (text(&[1.5e-5f32, 2.0], f, &[2]), "<[1.5e-05 2.0e+00]>"),
            (
                text(&[f32::NAN, 1.0, f32::NEG_INFINITY], f, &[3]),
                "<[ nan   1. -inf]>",
            ),
            (
                text(&[1.0f32, 2.0, 3.0, 4.0], f, &[2, 2]),
                "<[[1. 2.]\n [3. 4.]]>",
            ),
            (text(&[7i32, -100], DType::I32, &[2]), "<[   7 -100]>"),
            (text(&[1u8, 0], DType::Bool, &[2]), "<[ True False]>"),
            (text(&[1u8, 1], DType::Bool, &[2]), "<[ True  True]>"),
            (text(&[1u8], DType::Bool, &[]), "<True>"),
            (text(&[0i32; 0], DType::I32, &[0]), "<[]>"),
            (text(&[f16::from_f32(0.1)], DType::F16, &[]), "<0.1>"),
            (text(&[123456.0f32], f, &[]), "<123456.>"),
            (text(&[1e9f32], f, &[]), "<1.e+09>"),
        ];
        for (got, wanted) in cases {
            assert_eq!(got, wanted);
        }
        let long: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.234567891).collect();
        let wrapped = "<[ 0.          1.23456789  2.46913578  3.70370367  4.93827156  6.17283946\n  7.40740735  \
                       8.64197524  9.87654313 11.11111102 12.34567891 13.5802468\n 14.81481469 16.04938258 \
                       17.28395047 18.51851836 19.75308626 20.98765415\n 22.22222204 23.45678993]>";
        assert_eq!(text(&long, DType::F64, &[20]), wrapped);
        let cube: Vec<i64> = (0..8).collect();
        assert_eq!(
            text(&cube, DType::I64, &[2, 2, 2]),
            "<[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]>"
        );
        let many: Vec<i64> = (0..21).collect();
        assert_eq!(text(&many, DType::I64, &[21]), "<[ 0  1  2 ... 18 19 20]>");
    }

    #[test]
    fn test_only_numbers_of_values_are_replaced() {
        let ty = Ty::scalar(DType::I32);
        let view = HostView {
            ptr: (&raw const ANSWER).cast(),
            shape: &[],
            strides: &[],
            dtype: DType::I32,
        };
        static ANSWER: i32 = 42;
        let values = [Shown { ty: &ty, view }];
        for (template, wanted) in [
            ("x = {0}, again {0}", "x = 42, again 42"),
            ("{1} {} {x} {0", "{1} {} {x} {0"),
            ("{{0}} {{{0}}} }}", "{0} {42} }"),
            ("{1234567}", "{1234567}"),
            ("é{0}ü", "é42ü"),
        ] {
            assert_eq!(fill(template, &values), wanted);
        }
    }
}
