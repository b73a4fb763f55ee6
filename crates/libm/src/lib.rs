//! The functions of the math library that generated code may call: a closed set, with their properties.
//!
//! Code generation annotates calls of them, and the linker resolves them; both use only this list.
#![forbid(unsafe_code)]

/// A function; its name is that of the `double` version, and the `float` version has the suffix `f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// `exp`
    pub name: &'static str,
    /// Its properties.
    pub kind: Kind,
}

/// The properties of a function that matter to the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Depends only on its operands, and has vector variants in SLEEF.
    Vector {
        /// The number of its operands.
        operands: usize,
        /// The error bound in SLEEF's symbols: `u10` is one unit in the last place, torch's own choice; empty if results are exact.
        bound: &'static str,
    },
    /// Depends only on its operands, but does not have a vector variant worth calling.
    Scalar,
    /// May be called. LLVM knows most of these as its own operations.
    Plain,
}

const fn vector(name: &'static str, operands: usize, bound: &'static str) -> Function {
    Function { name, kind: Kind::Vector { operands, bound } }
}

const fn scalar(name: &'static str) -> Function {
    Function { name, kind: Kind::Scalar }
}

const fn plain(name: &'static str) -> Function {
    Function { name, kind: Kind::Plain }
}

/// All functions.
pub const FUNCTIONS: &[Function] = &[
    vector("acos", 1, "u10"),
    vector("acosh", 1, "u10"),
    vector("asin", 1, "u10"),
    vector("asinh", 1, "u10"),
    vector("atan", 1, "u10"),
    vector("atan2", 2, "u10"),
    vector("atanh", 1, "u10"),
    vector("cbrt", 1, "u10"),
    vector("cos", 1, "u10"),
    vector("cosh", 1, "u10"),
    vector("erf", 1, "u10"),
    vector("erfc", 1, "u15"),
    vector("exp", 1, "u10"),
    vector("exp2", 1, "u10"),
    vector("expm1", 1, "u10"),
    vector("fmod", 2, ""),
    vector("hypot", 2, "u05"),
    vector("lgamma", 1, "u10"),
    vector("log", 1, "u10"),
    vector("log10", 1, "u10"),
    vector("log1p", 1, "u10"),
    vector("log2", 1, "u10"),
    vector("nextafter", 2, ""),
    vector("pow", 2, "u10"),
    vector("sin", 1, "u10"),
    vector("sinh", 1, "u10"),
    vector("tan", 1, "u10"),
    vector("tanh", 1, "u10"),
    scalar("remainder"),
    scalar("tgamma"),
    plain("ceil"),
    plain("copysign"),
    plain("exp10"),
    plain("fabs"),
    plain("floor"),
    plain("fma"),
    plain("fmax"),
    plain("fmin"),
    plain("ldexp"),
    plain("nearbyint"),
    plain("rint"),
    plain("round"),
    plain("roundeven"),
    plain("sincos"),
    plain("sqrt"),
    plain("trunc"),
];

/// The function with this symbol, and true if it is the `float` version.
#[must_use]
pub fn find(symbol: &str) -> Option<(Function, bool)> {
    let named = |name: &str| FUNCTIONS.iter().copied().find(|function| function.name == name);
    let double = named(symbol).map(|function| (function, false));
    double.or_else(|| Some((named(symbol.strip_suffix('f')?)?, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_precisions_are_found() {
        let found = |symbol| find(symbol).map(|(function, single)| (function.name, single));
        assert_eq!(found("exp2f"), Some(("exp2", true)));
        assert_eq!(found("expm1"), Some(("expm1", false)));
        assert_eq!((found("erf"), found("erff")), (Some(("erf", false)), Some(("erf", true))));
        assert_eq!((found("expect"), found("puts"), found("f"), found("")), (None, None, None, None));
    }

    #[test]
    fn each_is_there_once() {
        let mut names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
