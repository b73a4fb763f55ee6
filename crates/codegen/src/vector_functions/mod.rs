//! `dynamo-vector-functions`: defines vector variants of functions for which the vector math library is slow.
//!
//! A loop calls the scalar function; LLVM's vectorizer uses the variant if there is one ([`crate::vectorize_math`]). A variant of ours
//! computes all lanes by a formula that is valid for common arguments; if one lane has another argument, all lanes are recomputed in a way
//! that is valid for every argument: ours, or else the library's.
//!
//! - `sin`, `cos`, `tan` of `f32`: once one argument exceeds 125, the library's variants reduce each lane separately.
//! - `exp`, `erf`, `erfc`, `tanh`, `log`, `log2`, `log10`, `sin`, `cos`, `tan`, `atan`, `asin`, `acos` of `f64`: the library's variants
//!   take at least twice as long.
//! - `fmod` (from `arith.remf`), exact, in one step if quotients have no more digits than a mantissa.
//!
//! Before: `%1 = arith.remf %0, %cst : f32`
//!
//! After:
//! ```mlir
//! func.func private @fmodf(f32, f32) -> f32 attributes {llvm.readnone}
//! func.func private @dynamlir_fmodf16(%x: vector<16xf32>, %y: vector<16xf32>) -> vector<16xf32>
//! …
//! %1 = func.call @fmodf(%0, %cst) : (f32, f32) -> f32
//! ```

mod exponential;
mod inverse;
mod logarithm;
mod modulo;
mod normal;
mod trigonometry;
mod turns;

use std::{collections::BTreeMap, ops::Deref};

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op, Target, Type, Value},
    pass::{Pass, PassResult, Run, Statistic, Takes},
    upstream::{arith, func, llvm, math, vector::Reduction},
};

use crate::{
    math::{Real, Variant, VectorFunction, own_symbol, vector_function},
    target::simd_level,
};

/// The pass.
pub static PASS: Pass = Pass {
    name: "dynamo-vector-functions",
    description: "Define vector variants of functions for which the vector math library is slow",
    takes: Takes::Lowered,
    options: &[],
    statistics: &[DEFINED],
    run,
};

const DEFINED: Statistic = Statistic { name: "defined", description: "vector functions defined" };

/// The computation for common arguments: returns the value, and the lanes in which it is not valid.
type Common = fn(&Lanes, &[Value]) -> (Value, Value);
/// The computation for all arguments.
type Rare = fn(&Lanes, &[Value]) -> Value;

/// A function that has a variant of ours.
#[derive(Clone, Copy)]
struct Own {
    /// The operation that needs it.
    operation: &'static str,
    /// Its name in the C library.
    symbol: &'static str,
    real: Real,
    common: Common,
    /// `None` uses the library's.
    rare: Option<Rare>,
}

const fn single(operation: &'static str, symbol: &'static str, common: Common, rare: Option<Rare>) -> Own {
    Own { operation, symbol, real: Real::F32, common, rare }
}
const fn double(operation: &'static str, symbol: &'static str, common: Common, rare: Option<Rare>) -> Own {
    Own { operation, symbol, real: Real::F64, common, rare }
}

const FUNCTIONS: &[Own] = &[
    single(math::COS, "cosf", trigonometry::cos, None),
    single(math::SIN, "sinf", trigonometry::sin, None),
    single(math::TAN, "tanf", trigonometry::tan, None),
    single(arith::REMF, "fmodf", modulo::one_step, Some(modulo::in_double)),
    double(arith::REMF, "fmod", modulo::one_step, Some(modulo::step_by_step)),
    double(math::ACOS, "acos", inverse::acos, None),
    double(math::ASIN, "asin", inverse::asin, None),
    double(math::ATAN, "atan", inverse::atan, None),
    double(math::COS, "cos", turns::cos, None),
    double(math::ERF, "erf", normal::erf, None),
    double(math::ERFC, "erfc", normal::erfc, None),
    double(math::EXP, "exp", exponential::exp, None),
    double(math::LOG, "log", logarithm::ln, None),
    double(math::LOG10, "log10", logarithm::lg, None),
    double(math::LOG2, "log2", logarithm::lb, None),
    double(math::SIN, "sin", turns::sin, None),
    double(math::TAN, "tan", turns::tan, None),
    double(math::TANH, "tanh", exponential::tanh, None),
];

fn run(module: Op, pass: &Run) -> PassResult {
    let mut asked: BTreeMap<&str, Own> = BTreeMap::new();
    let mut remainders = Vec::new();
    module.walk(&mut |op| {
        let Some(ty) = (op.num_results() == 1).then(|| op.result(0).ty()).filter(|ty| ty.is_f32() || ty.is_f64()) else { return };
        let is_asked = |own: &&Own| op.is(own.operation) && (own.real == Real::F32) == ty.is_f32();
        asked.extend(FUNCTIONS.iter().find(is_asked).map(|own| (own.symbol, *own)));
        if op.is(arith::REMF) {
            remainders.push(op);
        }
    });
    if remainders.is_empty() {
        pass.counts_all();
    }
    let Some(&first) = module.body().map(Block::ops).unwrap_or_default().first() else { return Ok(()) };
    let outside = Builder::before(first).with_loc(module.loc());
    for op in remainders {
        let ty = op.result(0).ty();
        let symbol = if ty.is_f32() { "fmodf" } else { "fmod" };
        declare(outside, symbol, &[ty, ty], ty);
        let value = Builder::before(op).func_call(symbol, &op.operands(), ty);
        op.result(0).replace_all_uses_with(value);
        op.erase();
    }
    let level = simd_level(&Target::of(module));
    for (symbol, own) in asked {
        let Some(function) = vector_function(symbol, level) else { continue };
        for variant in &function.variants {
            define(outside, own, &function, variant);
            pass.count(&DEFINED, 1);
        }
    }
    Ok(())
}

/// Declares a function without side effects, unless it is already declared.
fn declare(outside: Builder, symbol: &str, operands: &[Type], result: Type) {
    if is_there(outside, symbol) {
        return;
    }
    let attrs = [
        ("sym_name", Attr::str(outside.ctx(), symbol)),
        (func::FUNCTION_TYPE, Type::function(outside.ctx(), operands, &[result]).as_attr()),
        ("sym_visibility", Attr::str(outside.ctx(), "private")),
        (llvm::READNONE, Attr::unit(outside.ctx())),
    ];
    outside.insert(outside.detached(func::FUNC, &[], &[], &attrs, 1));
}

fn is_there(outside: Builder, symbol: &str) -> bool {
    outside.block().ops().into_iter().any(|op| op.symbol().as_deref() == Some(symbol))
}

/// Defines one variant.
fn define(outside: Builder, own: Own, function: &VectorFunction, variant: &Variant) {
    let ctx = outside.ctx();
    let symbol = own_symbol(own.symbol, variant.lanes);
    if is_there(outside, &symbol) {
        return;
    }
    let element = if function.real == Real::F32 { Type::f32(ctx) } else { Type::f64(ctx) };
    let real = Type::vector(&[i64::from(variant.lanes)], element);
    let operands = vec![real; function.operands];
    if own.rare.is_none() {
        declare(outside, &variant.symbol, &operands, real);
    }
    let attrs = [("sym_visibility", Attr::str(ctx, "private")), ("llvm.linkage", Attr::known(ctx, "#llvm.linkage<internal>"))];
    let (_, body) = outside.func(&symbol, &operands, &[real], &attrs);
    let lanes = Lanes { builder: Builder::at_end(body, outside.loc), real };
    let (value, fails) = (own.common)(&lanes, &body.args());
    let ([yes, no], result) = lanes.scf_if_value(any(lanes.builder, fails), real);
    let rare = Lanes { builder: Builder::at_end(yes, outside.loc), real };
    let value_of_all = match own.rare {
        Some(rare_of) => rare_of(&rare, &body.args()),
        None => rare.func_call(&variant.symbol, &body.args(), real),
    };
    rare.scf_yield(&[value_of_all]);
    Builder::at_end(no, outside.loc).scf_yield(&[value]);
    lanes.func_return(&[result]);
}

/// True if any lane is true.
fn any(builder: Builder, lanes: Value) -> Value {
    builder.vector_reduction(Reduction::Or, lanes)
}

/// The number of coefficients from which a polynomial counts as long.
const LONG: usize = 6;
/// The operand that makes an instruction round in the current rounding mode.
const CURRENT_ROUNDING: i64 = 4;

/// Builds arithmetic on vectors of one float type.
struct Lanes {
    builder: Builder,
    real: Type,
}

impl Deref for Lanes {
    type Target = Builder;
    fn deref(&self) -> &Builder {
        &self.builder
    }
}

impl Lanes {
    fn number(&self, value: f64) -> Value {
        self.float(self.real, value)
    }
    /// The same lanes as `f64`.
    fn wide(&self) -> Self {
        Self { builder: self.builder, real: self.real.with_element(Type::f64(self.ctx())) }
    }
    /// A constant bit pattern.
    fn bits(&self, pattern: i64) -> Value {
        self.int(self.word(), pattern)
    }
    /// The integer type with the width of a number.
    fn word(&self) -> Type {
        self.real.with_element(Type::int(self.ctx(), self.real.element().width()))
    }
    /// The lanes that hold NaN.
    fn is_nan(&self, x: Value) -> Value {
        self.cmpf(arith::CmpF::Uno, x, x)
    }
    /// A polynomial, highest coefficient first. A long one is computed as two polynomials of the square, whose steps overlap: within one
    /// polynomial each step waits for the one before.
    fn polynomial(&self, x: Value, coefficients: &[f64]) -> Value {
        if coefficients.len() < LONG {
            return self.horner(x, coefficients.iter().copied());
        }
        let square = self.mulf(x, x);
        let half = |odd: usize| {
            let skipped = (coefficients.len() + 1 + odd) % 2;
            self.horner(square, coefficients.iter().copied().skip(skipped).step_by(2))
        };
        self.fma(half(1), x, half(0))
    }
    /// A polynomial by Horner's method.
    fn horner(&self, x: Value, mut coefficients: impl Iterator<Item = f64>) -> Value {
        let first = self.number(coefficients.next().expect("a polynomial has a coefficient"));
        coefficients.fold(first, |sum, coefficient| self.fma(sum, x, self.number(coefficient)))
    }
    /// The mask with no lanes set.
    fn none(&self) -> Value {
        self.int(self.real.with_element(Type::int(self.ctx(), 1)), 0)
    }
    /// Returns true if the target has an instruction that scales by powers of two and rounds subnormal results: with 512-bit vectors.
    fn scales(&self) -> bool {
        self.real.shape() == [8] && self.real.element().is_f64()
    }
    /// A number times two to the power of an integer.
    fn scale(&self, x: Value, exponent: Value) -> Value {
        let (all, rounding) = (self.int(Type::int(self.ctx(), 8), -1), self.int(Type::int(self.ctx(), 32), CURRENT_ROUNDING));
        self.llvm_call_instruction("llvm.x86.avx512.mask.scalef.pd.512", &[x, exponent, x, all, rounding], self.real)
    }
    /// The lanes in which x is not below a bound; these include NaN.
    fn not_below(&self, x: Value, bound: f64) -> Value {
        let below = self.cmpf(arith::CmpF::Olt, x, self.number(bound));
        self.xori(below, self.int(below.ty(), 1))
    }
}
