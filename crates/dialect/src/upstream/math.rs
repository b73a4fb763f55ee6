//! `math`.

use crate::ir::{Builder, Value};

/// The dialect.
pub const DIALECT: &str = "math";

like_operand! {
    ABSF absf(x) = "math.absf";
    ACOS acos(x) = "math.acos";
    ACOSH acosh(x) = "math.acosh";
    ASIN asin(x) = "math.asin";
    ASINH asinh(x) = "math.asinh";
    ATAN atan(x) = "math.atan";
    ATAN2 atan2(y, x) = "math.atan2";
    ATANH atanh(x) = "math.atanh";
    CEIL ceil(x) = "math.ceil";
    COPYSIGN copysign(x, sign) = "math.copysign";
    COS cos(x) = "math.cos";
    COSH cosh(x) = "math.cosh";
    ERF erf(x) = "math.erf";
    ERFC erfc(x) = "math.erfc";
    EXP exp(x) = "math.exp";
    EXP2 exp2(x) = "math.exp2";
    EXPM1 expm1(x) = "math.expm1";
    FLOOR floor(x) = "math.floor";
    FMA fma(a, b, c) = "math.fma";
    LOG log(x) = "math.log";
    LOG10 log10(x) = "math.log10";
    LOG1P log1p(x) = "math.log1p";
    LOG2 log2(x) = "math.log2";
    POWF powf(x, y) = "math.powf";
    ROUNDEVEN roundeven(x) = "math.roundeven";
    RSQRT rsqrt(x) = "math.rsqrt";
    SIN sin(x) = "math.sin";
    SINH sinh(x) = "math.sinh";
    SQRT sqrt(x) = "math.sqrt";
    TAN tan(x) = "math.tan";
    TANH tanh(x) = "math.tanh";
    TRUNC trunc(x) = "math.trunc";
}
