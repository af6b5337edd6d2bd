//! The functions of [`Real`]. Where `std` loses accuracy, `f32` goes through `f64` and `f64` through `libm`.

use super::num::Real;

macro_rules! from_std {
    ($T:ty) => {
        #[inline(always)]
        fn floor(self) -> Self {
            <$T>::floor(self)
        }
        #[inline(always)]
        fn ceil(self) -> Self {
            <$T>::ceil(self)
        }
        #[inline(always)]
        fn trunc(self) -> Self {
            <$T>::trunc(self)
        }
        #[inline(always)]
        fn round_even(self) -> Self {
            <$T>::round_ties_even(self)
        }
        #[inline(always)]
        fn exp(self) -> Self {
            <$T>::exp(self)
        }
        #[inline(always)]
        fn expm1(self) -> Self {
            <$T>::exp_m1(self)
        }
        #[inline(always)]
        fn log(self) -> Self {
            <$T>::ln(self)
        }
        #[inline(always)]
        fn log1p(self) -> Self {
            <$T>::ln_1p(self)
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            <$T>::sqrt(self)
        }
        #[inline(always)]
        fn rsqrt(self) -> Self {
            1.0 / <$T>::sqrt(self)
        }
        #[inline(always)]
        fn sin(self) -> Self {
            <$T>::sin(self)
        }
        #[inline(always)]
        fn cos(self) -> Self {
            <$T>::cos(self)
        }
        #[inline(always)]
        fn tan(self) -> Self {
            <$T>::tan(self)
        }
        #[inline(always)]
        fn arcsin(self) -> Self {
            <$T>::asin(self)
        }
        #[inline(always)]
        fn arccos(self) -> Self {
            <$T>::acos(self)
        }
        #[inline(always)]
        fn arctan(self) -> Self {
            <$T>::atan(self)
        }
        #[inline(always)]
        fn sinh(self) -> Self {
            <$T>::sinh(self)
        }
        #[inline(always)]
        fn cosh(self) -> Self {
            <$T>::cosh(self)
        }
        #[inline(always)]
        fn tanh(self) -> Self {
            <$T>::tanh(self)
        }
        #[inline(always)]
        fn arctan2(self, x: Self) -> Self {
            <$T>::atan2(self, x)
        }
        #[inline(always)]
        fn finite(self) -> bool {
            <$T>::is_finite(self)
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            self / other
        }
        #[inline(always)]
        fn from_count(n: usize) -> Self {
            n as $T
        }
        /// Both branches keep the exponential at most 1, so nothing overflows and small results stay exact.
        #[inline(always)]
        fn sigmoid(self) -> Self {
            let e = <$T>::exp(-<$T>::abs(self));
            let d = 1.0 + e;
            if self < 0.0 { e / d } else { 1.0 / d }
        }
    };
}

impl Real for f32 {
    from_std!(f32);
    #[inline(always)]
    fn arcsinh(self) -> Self {
        libm::asinh(self as f64) as f32
    }
    #[inline(always)]
    fn arccosh(self) -> Self {
        f64::arccosh(self as f64) as f32
    }
    #[inline(always)]
    fn arctanh(self) -> Self {
        libm::atanh(self as f64) as f32
    }
    #[inline(always)]
    fn erf(self) -> Self {
        libm::erff(self)
    }
}

impl Real for f64 {
    from_std!(f64);
    #[inline(always)]
    fn arcsinh(self) -> Self {
        libm::asinh(self)
    }
    /// `libm` gives numbers for large negative operands.
    #[inline(always)]
    fn arccosh(self) -> Self {
        if self < 1.0 {
            f64::NAN
        } else {
            libm::acosh(self)
        }
    }
    #[inline(always)]
    fn arctanh(self) -> Self {
        libm::atanh(self)
    }
    #[inline(always)]
    fn erf(self) -> Self {
        libm::erf(self)
    }
}
