//! Dim expressions: sizes in terms of named dims.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, Result, clip};

/// Values of the named dims.
pub type Env = BTreeMap<String, i64>;

/// The longest expression that is read.
pub const MAX_EXPRESSION: usize = 512;
const MAX_DEPTH: usize = 32;

/// An expression over dim names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    Const(i64),
    Name(String),
    Add(Box<Dim>, Box<Dim>),
    Sub(Box<Dim>, Box<Dim>),
    Mul(Box<Dim>, Box<Dim>),
    FloorDiv(Box<Dim>, Box<Dim>),
}

impl Dim {
    /// Reads `+ - * // ( )`, names and integers.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_EXPRESSION {
            return Err(Error::invalid_program(format!(
                "a dim expression of {} characters",
                text.len()
            )));
        }
        let mut p = Parser {
            text: text.as_bytes(),
            at: 0,
            depth: 0,
        };
        let dim = p.sum().and_then(|dim| {
            p.blank();
            (p.at == p.text.len()).then_some(dim)
        });
        dim.ok_or_else(|| {
            Error::invalid_program(format!("{:?} is not a dim expression", clip(text)))
        })
    }

    /// The value, which may be negative; `None` on overflow, division by zero or an unknown name.
    fn value(&self, env: &Env) -> Option<i64> {
        match self {
            Dim::Const(n) => Some(*n),
            Dim::Name(name) => env.get(name).copied(),
            Dim::Add(a, b) => a.value(env)?.checked_add(b.value(env)?),
            Dim::Sub(a, b) => a.value(env)?.checked_sub(b.value(env)?),
            Dim::Mul(a, b) => a.value(env)?.checked_mul(b.value(env)?),
            Dim::FloorDiv(a, b) => {
                let (a, b) = (a.value(env)?, b.value(env)?);
                let q = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) {
                    q - 1
                } else {
                    q
                })
            }
        }
    }

    /// The size; a negative or overflowing one is an error.
    pub fn eval(&self, env: &Env) -> Result<usize> {
        let value = self.value(env);
        value.and_then(|v| usize::try_from(v).ok()).ok_or_else(|| {
            let reason = match value {
                Some(v) => format!("dim {self} is {v}"),
                None => format!("dim {self} has no value"),
            };
            Error::argument(reason)
                .with_code("dim")
                .with("dim", self.to_string())
                .with(
                    "sizes",
                    env.iter()
                        .map(|(k, v)| (k.clone(), (*v).into()))
                        .collect::<serde_json::Map<_, _>>(),
                )
        })
    }

    /// Calls `f` with every name.
    pub fn names(&self, f: &mut impl FnMut(&str)) {
        match self {
            Dim::Const(_) => {}
            Dim::Name(name) => f(name),
            Dim::Add(a, b) | Dim::Sub(a, b) | Dim::Mul(a, b) | Dim::FloorDiv(a, b) => {
                a.names(f);
                b.names(f);
            }
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(n) => write!(f, "{n}"),
            Dim::Name(name) => f.write_str(name),
            Dim::Add(a, b) => write!(f, "({a} + {b})"),
            Dim::Sub(a, b) => write!(f, "({a} - {b})"),
            Dim::Mul(a, b) => write!(f, "({a} * {b})"),
            Dim::FloorDiv(a, b) => write!(f, "({a} // {b})"),
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn blank(&mut self) {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &[u8]) -> bool {
        self.blank();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn sum(&mut self) -> Option<Dim> {
        let mut left = self.product()?;
        // A chain is a tree as deep as it is long, so it counts towards the depth.
        let mut links = 0;
        loop {
            links += 1;
            if links > MAX_DEPTH {
                return None;
            }
            if self.take(b"+") {
                left = Dim::Add(left.into(), self.product()?.into());
            } else if self.take(b"-") {
                left = Dim::Sub(left.into(), self.product()?.into());
            } else {
                return Some(left);
            }
        }
    }

    fn product(&mut self) -> Option<Dim> {
        let mut left = self.atom()?;
        let mut links = 0;
        loop {
            links += 1;
            if links > MAX_DEPTH {
                return None;
            }
            if self.take(b"//") {
                left = Dim::FloorDiv(left.into(), self.atom()?.into());
            } else if self.take(b"*") {
                left = Dim::Mul(left.into(), self.atom()?.into());
            } else {
                return Some(left);
            }
        }
    }

    fn atom(&mut self) -> Option<Dim> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let out = if self.take(b"(") {
            let inner = self.sum()?;
            self.take(b")").then_some(inner)?
        } else if self.take(b"-") {
            match self.atom()? {
                Dim::Const(n) => Dim::Const(n.checked_neg()?),
                other => Dim::Sub(Dim::Const(0).into(), other.into()),
            }
        } else {
            self.word()?
        };
        self.depth -= 1;
        Some(out)
    }

    fn word(&mut self) -> Option<Dim> {
        self.blank();
        let rest = &self.text[self.at..];
        let len = rest
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric() || **c == b'_')
            .count();
        let word = std::str::from_utf8(&rest[..len]).ok()?;
        self.at += len;
        if word.as_bytes().first()?.is_ascii_digit() {
            word.parse().ok().map(Dim::Const)
        } else {
            Some(Dim::Name(word.to_string()))
        }
    }
}

/// True when `text` can name a dim.
pub fn is_name(text: &str) -> bool {
    text.len() <= MAX_EXPRESSION && matches!(Dim::parse(text), Ok(Dim::Name(n)) if n == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> Result<usize> {
        let env = Env::from([("b".to_string(), 7), ("n_1".to_string(), 3)]);
        Dim::parse(text)?.eval(&env)
    }

    #[test]
    fn expressions_follow_python() {
        assert_eq!(eval("2*b+1").unwrap(), 15);
        assert_eq!(eval("(b - 1) // 2 * n_1").unwrap(), 9);
        assert_eq!(eval("-(1 - b) // 4 + 0").unwrap(), 1);
        assert_eq!(eval("(1 - b) // 4 + 2").unwrap(), 0);
    }

    #[test]
    fn bad_expressions_are_refused() {
        for text in [
            "",
            "b b",
            "b +",
            "(b",
            "b / 2",
            "1x",
            "é",
            "b**2",
            "b//0",
            "c",
            "1-b",
            "9223372036854775807+1",
        ] {
            assert!(eval(text).is_err(), "{text}");
        }
        let deep = format!("{}b{}", "(".repeat(100), ")".repeat(100));
        assert!(eval(&deep).is_err());
        assert!(eval(&"b+".repeat(5000)).is_err());
        assert!(Dim::parse(&format!("b{}", "+b".repeat(200))).is_err());
    }
}
