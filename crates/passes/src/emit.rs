//! Emitters of primitive ops. Each infers its result type, checks what the verifier would refuse, and emits nothing if the primitive would
//! change nothing (a reshape to the same shape, a conversion to the same element type).
//!
//! Calling an emitter with operands that do not fit is a bug of the caller and panics; the pass runner turns that into a diagnostic.
#![expect(clippy::missing_panics_doc, reason = "said once, above")]
#![expect(clippy::cast_precision_loss, reason = "constants and element counts, which eager makes doubles too")]

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Builder, Ctx, Op, Type, Value, sizes},
    ops::*,
    upstream::func,
};
use dynamlir_shapes::{Dim, Dimension, Relation, product};

use crate::extent::{Extent, dims as dims_of, numbers};

/// A constant that does not have an element type yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A Python int.
    Int(i64),
    /// A Python float.
    Float(f64),
    /// A Python bool.
    Bool(bool),
}

impl Scalar {
    /// The number as a double.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(v) => v as f64,
            Self::Float(v) => v,
            Self::Bool(v) => f64::from(u8::from(v)),
        }
    }
    /// The number as an integer; floats are truncated toward zero.
    pub fn as_i64(self) -> i64 {
        match self {
            Self::Int(v) => v,
            Self::Float(v) => v as i64,
            Self::Bool(v) => i64::from(v),
        }
    }
    /// Returns true if the number is not 0.
    pub fn as_bool(self) -> bool {
        match self {
            Self::Int(v) => v != 0,
            Self::Float(v) => v != 0.0,
            Self::Bool(v) => v,
        }
    }
    /// The constant as an attribute of an element type, wrapped and rounded as `dynamo.convert` would.
    pub fn attr(self, element: Type) -> Attr {
        if element.is_bool() {
            return Attr::bool(element.ctx(), self.as_bool());
        }
        if element.is_float() {
            return Attr::float_of(element, self.as_f64());
        }
        let value = self.as_i64();
        let wrapped = match (element.width(), element.is_unsigned()) {
            (8, true) => i64::from(value as u8),
            (8, false) => i64::from(value as i8),
            (16, _) => i64::from(value as i16),
            (32, _) => i64::from(value as i32),
            _ => value,
        };
        Attr::int_of(element, wrapped)
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}
impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Emits primitives at an insertion point.
#[derive(Clone, Copy)]
pub struct Emit {
    /// The insertion point, and the location of the emitted operations.
    pub b: Builder,
}

macro_rules! unary {
    ($($name:ident = $op:ident;)*) => { $(
        #[doc = concat!("`dynamo.", stringify!($name), "`.")]
        pub fn $name(&self, x: Value) -> Value { $op::build(&self.b, x).result() }
    )* };
}
macro_rules! binary {
    ($($name:ident = $op:ident;)*) => {
        $(
            #[doc = concat!("`dynamo.", stringify!($name), "`.")]
            pub fn $name(&self, a: Value, b: Value) -> Value {
                assert_eq!(a.ty(), b.ty(), concat!("operands of ", stringify!($name)));
                $op::build(&self.b, a, b).result()
            }
        )*
        /// A pointwise op by its name, with two operands of one type.
        pub fn binary(&self, name: &str, a: Value, b: Value) -> Value {
            match name {
                $( stringify!($name) => self.$name(a, b), )*
                _ => panic!("dynamo.{name} is not a pointwise op of two operands"),
            }
        }
    };
}
macro_rules! compare {
    ($($name:ident)*) => { $(
        #[doc = concat!("`dynamo.compare ", stringify!($name), "`.")]
        pub fn $name(&self, a: Value, b: Value) -> Value { self.compare(stringify!($name), a, b) }
    )* };
}

impl Emit {
    /// Emits at a builder's insertion point.
    pub fn new(b: Builder) -> Self {
        Self { b }
    }
    /// The context.
    pub fn ctx(&self) -> Ctx {
        self.b.ctx()
    }

    unary! {
        neg = NegOp; abs = AbsOp; exp = ExpOp; exp2 = Exp2Op; expm1 = Expm1Op;
        log = LogOp; log2 = Log2Op; log10 = Log10Op; log1p = Log1pOp; sqrt = SqrtOp;
        rsqrt = RsqrtOp; sin = SinOp; cos = CosOp; tan = TanOp; asin = AsinOp;
        acos = AcosOp; atan = AtanOp; sinh = SinhOp; cosh = CoshOp; tanh = TanhOp;
        asinh = AsinhOp; acosh = AcoshOp; atanh = AtanhOp; erf = ErfOp; erfc = ErfcOp;
        lgamma = LgammaOp; floor = FloorOp; ceil = CeilOp; round = RoundOp; trunc = TruncOp;
        not = NotOp;
    }
    binary! {
        add = AddOp; sub = SubOp; mul = MulOp; div = DivOp; rem = RemOp;
        pow = PowOp; atan2 = Atan2Op; hypot = HypotOp; copysign = CopysignOp; nextafter = NextafterOp;
        max = MaxOp; min = MinOp; and = AndOp; or = OrOp; xor = XorOp;
        shl = ShlOp; shr = ShrOp;
    }
    compare! { eq ne lt le gt ge }

    /// `dynamo.fma`: `a * b + c`, rounded once.
    pub fn fma(&self, a: Value, b: Value, c: Value) -> Value {
        assert!(a.ty() == b.ty() && b.ty() == c.ty(), "operands of fma");
        FmaOp::build(&self.b, a, b, c).result()
    }
    /// `dynamo.compare`, to bool.
    pub fn compare(&self, predicate: &str, a: Value, b: Value) -> Value {
        assert_eq!(a.ty(), b.ty(), "operands of compare {predicate}");
        let predicate = Predicate::of_word(predicate).unwrap_or_else(|| panic!("`{predicate}` is not a predicate"));
        CompareOp::build(&self.b, predicate, a, b, a.ty().with_element(self.bool_type())).result()
    }
    /// `dynamo.select`.
    pub fn select(&self, condition: Value, on_true: Value, on_false: Value) -> Value {
        assert_eq!(on_true.ty(), on_false.ty(), "branches of select");
        assert_eq!(condition.ty(), on_true.ty().with_element(self.bool_type()), "condition of select");
        SelectOp::build(&self.b, condition, on_true, on_false, on_true.ty()).result()
    }
    /// Converts the value to another element type.
    pub fn convert(&self, x: Value, element: Type) -> Value {
        if x.ty().element() == element {
            return x;
        }
        ConvertOp::build(&self.b, x, x.ty().with_element(element)).result()
    }
    /// Reinterprets the bits as another element type of the same width.
    pub fn bitcast(&self, x: Value, element: Type) -> Value {
        if x.ty().element() == element {
            return x;
        }
        assert_eq!(x.ty().element().width(), element.width(), "widths of bitcast");
        BitcastOp::build(&self.b, x, x.ty().with_element(element)).result()
    }

    /// A constant tensor with every element equal to `value`.
    pub fn full<E: Extent>(&self, shape: &[E], element: Type, value: impl Into<Scalar>) -> Value {
        FullOp::build(&self.b, value.into().attr(element), E::tensor(shape, element)).result()
    }
    /// A single number.
    pub fn scalar(&self, element: Type, value: impl Into<Scalar>) -> Value {
        self.full::<i64>(&[], element, value)
    }
    /// A constant of the shape and element type of `x`.
    pub fn full_like(&self, x: Value, value: impl Into<Scalar>) -> Value {
        FullOp::build(&self.b, value.into().attr(x.ty().element()), x.ty()).result()
    }
    /// A tensor with every element equal to a size.
    pub fn size(&self, size: &Dim, ty: Type) -> Value {
        if let Some(number) = size.known() {
            return FullOp::build(&self.b, Scalar::Int(number).attr(ty.element()), ty).result();
        }
        let whole = ty.with_element(Type::int(self.ctx(), 64));
        self.convert(FullOp::build(&self.b, Dim::write(self.ctx(), size), whole).result(), ty.element())
    }
    /// A size in the shape and element type of `x`.
    pub fn size_like(&self, x: Value, size: &Dim) -> Value {
        self.size(size, x.ty())
    }
    /// The index along `dim`, as `i64`.
    pub fn iota<E: Extent>(&self, shape: &[E], dim: usize) -> Value {
        assert!(dim < shape.len(), "dimension of iota");
        IotaOp::build(&self.b, dim as i64, E::tensor(shape, Type::int(self.ctx(), 64))).result()
    }

    /// Operand dimension `i` becomes result dimension `dims[i]`.
    pub fn broadcast<E: Extent>(&self, x: Value, shape: &[E], dims: &[i64]) -> Value {
        let (from, to) = (x.ty().dims(), dims_of(shape));
        assert_eq!(from.len(), dims.len(), "dims of broadcast");
        assert!(dims.is_sorted_by(|a, b| a < b), "dims of broadcast increase");
        // The verifier checks whether expressions are equal: it knows the facts declared about them.
        let fits = |size: &Dim, to: &Dim| size.is(1) || size == to || size.known().zip(to.known()).is_none();
        let all_fit = from.iter().zip(dims).all(|(size, &dim)| dim >= 0 && to.get(dim as usize).is_some_and(|to| fits(size, to)));
        assert!(all_fit, "{from:?} broadcasts to {to:?} along {dims:?}");
        if from == to {
            return x;
        }
        BroadcastOp::build(&self.b, x, dims, E::tensor(shape, x.ty().element())).result()
    }
    /// Torch's broadcasting: dimensions are matched from the last.
    pub fn broadcast_to(&self, x: Value, shape: &[impl Extent]) -> Value {
        let rank = x.ty().rank();
        assert!(rank <= shape.len(), "rank of broadcast_to");
        let dims: Vec<i64> = (shape.len() - rank..shape.len()).map(|d| d as i64).collect();
        self.broadcast(x, shape, &dims)
    }
    /// The same elements in another shape.
    pub fn reshape<E: Extent>(&self, x: Value, shape: &[E]) -> Value {
        let ty = E::tensor(shape, x.ty().element());
        if x.ty() == ty {
            return x;
        }
        // As above, only known sizes are checked.
        let (from, to) = (x.ty().count().and_then(|count| count.known()), product(&dims_of(shape)).ok().and_then(|count| count.known()));
        assert!(from == to || from.is_none() || to.is_none(), "elements of reshape");
        ReshapeOp::build(&self.b, x, ty).result()
    }
    /// Inserts a dimension of size 1 at each of `dims`, counted in the result.
    pub fn unsqueeze(&self, x: Value, dims: &[i64]) -> Value {
        let mut sizes = x.ty().dims().into_iter();
        let rank = x.ty().rank() + dims.len();
        let one = || Dim::from(1);
        let shape: Vec<Dim> = (0..rank as i64).map(|d| if dims.contains(&d) { one() } else { sizes.next().unwrap_or_else(one) }).collect();
        self.reshape(x, &shape)
    }
    /// Result dimension `i` is operand dimension `dims[i]`.
    pub fn permute(&self, x: Value, dims: &[i64]) -> Value {
        if dims.iter().enumerate().all(|(i, &d)| i as i64 == d) {
            return x;
        }
        let from = x.ty().dims();
        let shape: Vec<Dim> = dims.iter().map(|&d| from[d as usize].clone()).collect();
        PermuteOp::build(&self.b, x, dims, Type::tensor_of(&shape, x.ty().element())).result()
    }
    /// Swaps two dimensions.
    pub fn transpose(&self, x: Value, a: i64, b: i64) -> Value {
        let mut dims: Vec<i64> = (0..x.ty().rank() as i64).collect();
        dims.swap(a as usize, b as usize);
        self.permute(x, &dims)
    }
    /// A rectangular, strided part.
    pub fn slice<E: Extent>(&self, x: Value, starts: &[impl Extent], steps: &[i64], sizes: &[E]) -> Value {
        let (ty, starts) = (E::tensor(sizes, x.ty().element()), dims_of(starts));
        if x.ty() == ty && starts.iter().all(|s| s.is(0)) && steps.iter().all(|&s| s == 1) {
            return x;
        }
        let known = numbers(&starts);
        let slice = SliceOp::build(&self.b, x, known.as_deref().unwrap_or_default(), steps, ty);
        if known.is_none() {
            slice.set_starts_dims(&starts);
        }
        slice.result()
    }
    /// `size` elements of one dimension from `start` on, `step` apart.
    pub fn slice_dim(&self, x: Value, dim: i64, start: impl Extent, step: i64, size: impl Extent) -> Value {
        let mut sizes = x.ty().dims();
        let (mut starts, mut steps) = (vec![Dim::from(0); sizes.len()], vec![1; sizes.len()]);
        (sizes[dim as usize], starts[dim as usize], steps[dim as usize]) = (size.dim(), start.dim(), step);
        self.slice(x, &starts, &steps, &sizes)
    }
    /// Reverses the elements along `dims`.
    pub fn reverse(&self, x: Value, dims: &[i64]) -> Value {
        if dims.is_empty() {
            return x;
        }
        ReverseOp::build(&self.b, x, dims, x.ty()).result()
    }
    /// Concatenates the operands along `dim`; at least one is required.
    pub fn concat(&self, inputs: &[Value], dim: i64) -> Value {
        let [first, rest @ ..] = inputs else { panic!("nothing to concatenate") };
        if rest.is_empty() {
            return *first;
        }
        let mut shape = first.ty().dims();
        let sizes = inputs.iter().map(|x| x.ty().dims().swap_remove(dim as usize));
        shape[dim as usize] = sizes.fold(Dim::from(0), |sum, size| sum.add(&size).expect("a size of concatenate"));
        ConcatenateOp::build(&self.b, inputs, dim, Type::tensor_of(&shape, first.ty().element())).result()
    }
    /// Adds constant elements before and after each dimension.
    pub fn pad<E: Extent>(&self, x: Value, low: &[E], high: &[E], value: impl Into<Scalar>) -> Value {
        let (low, high) = (dims_of(low), dims_of(high));
        if low.iter().chain(&high).all(|n| n.is(0)) {
            return x;
        }
        let padded = |(size, (low, high)): (&Dim, (&Dim, &Dim))| size.add(low).and_then(|size| size.add(high)).expect("a size of pad");
        let shape: Vec<Dim> = x.ty().dims().iter().zip(low.iter().zip(&high)).map(padded).collect();
        let element = x.ty().element();
        let pad = PadOp::build(&self.b, x, &[], &[], value.into().attr(element), Type::tensor_of(&shape, element));
        pad.set_low_dims(&low);
        pad.set_high_dims(&high);
        pad.result()
    }
    /// A strided window on the operand in row-major order.
    pub fn as_strided<E: Extent>(&self, x: Value, shape: &[E], strides: &[E], offset: E) -> Value {
        let (strides, offset) = (dims_of(strides), offset.dim());
        let view = AsStridedOp::build(&self.b, x, &[], 0, E::tensor(shape, x.ty().element()));
        view.set_strides_dims(&strides);
        view.set_offset_dims(&offset);
        view.result()
    }
    /// `base` with `source` written through a strided window.
    pub fn as_strided_scatter<E: Extent>(&self, base: Value, source: Value, strides: &[E], offset: E) -> Value {
        let scatter = AsStridedScatterOp::build(&self.b, base, source, &[], 0, base.ty());
        scatter.set_strides_dims(&dims_of(strides));
        scatter.set_offset_dims(&offset.dim());
        scatter.result()
    }

    /// `dynamo.convolution` with these strides, paddings and dilations.
    pub fn convolution(
        &self,
        input: Value,
        weight: Value,
        [strides, padding, dilation]: [[i64; 2]; 3],
        groups: i64,
        result: Type,
    ) -> Value {
        ConvolutionOp::build(&self.b, input, weight, &strides, &padding, &dilation, groups, result).result()
    }
    /// `dynamo.max_pool` over windows of this size.
    pub fn max_pool(&self, input: Value, [window, strides, padding, dilation]: [[i64; 2]; 4], result: Type) -> Value {
        MaxPoolOp::build(&self.b, input, &window, &strides, &padding, &dilation, result).result()
    }
    /// `dynamo.attention` of queries, keys, values and an optional mask.
    pub fn attention(&self, operands: &[Value], scale: f64, causal: bool, result: Type) -> Value {
        let [query, key, value, mask @ ..] = operands else { panic!("queries, keys and values") };
        AttentionOp::build(&self.b, *query, *key, *value, mask.first().copied(), scale, causal, result).result()
    }
    /// `dynamo.matmul`, `lhs[batch…, m…, k] · rhs[batch…, k, n?]`.
    pub fn matmul(&self, lhs: Value, rhs: Value, batch: usize) -> Value {
        let (left, right) = (lhs.ty().dims(), rhs.ty().dims());
        let lengths = left.last().zip(right.get(batch));
        assert!(lengths.is_some_and(|(a, b)| a == b || a.known().zip(b.known()).is_none()), "one length of sums");
        let shape = [&left[..left.len() - 1], &right[batch + 1..]].concat();
        MatmulOp::build(&self.b, lhs, rhs, batch as i64, Type::tensor_of(&shape, lhs.ty().element())).result()
    }
    /// Element `p` is `table[indices_0[p], indices_1[p], …]`; at least one index is required.
    pub fn gather(&self, table: Value, indices: &[Value]) -> Value {
        GatherOp::build(&self.b, table, indices, indices[0].ty().with_element(table.ty().element())).result()
    }
    /// `base` with each element `p` of `source` written at the index given by `dims` and `indices`; `kind` combines it with the element
    /// already at that index. Without `kind`, the last one wins.
    pub fn scatter(&self, base: Value, dims: &[i64], indices: &[Value], source: Value, kind: Option<&str>) -> Value {
        ScatterOp::build(&self.b, base, indices, source, dims, kind.map(reduce_kind), base.ty()).result()
    }
    /// The value itself, after a check that it is in `low..high`; otherwise the graph fails with the message.
    pub fn check_range(&self, x: Value, low: impl Extent, high: impl Extent, message: &str) -> Value {
        let check = CheckRangeOp::build(&self.b, x, 0, 0, message, &[x.ty()]);
        check.set_low_dims(&low.dim());
        check.set_high_dims(&high.dim());
        check.op().result(0)
    }

    /// Reduces all elements along `dims` (`sum prod max min and or xor`); `keepdim` keeps dimensions of size 1.
    pub fn reduce(&self, kind: &str, x: Value, dims: &[i64], keepdim: bool) -> Value {
        let shape = x.ty().dims();
        let element = x.ty().element();
        // A long f32 sum is computed in f64: one accumulator per column, or a few per row, would lose the precision of eager's cascade sum.
        let along_memory = dims.contains(&(shape.len() as i64 - 1));
        let single = kind == "sum" && element.is_float() && element.width() == 32;
        if single && !self.is_at_most(&elements(&shape, dims), if along_memory { 32_768 } else { 256 }) {
            let wide = self.convert(x, Type::f64(element.ctx()));
            let sum = self.reduce(kind, wide, dims, false);
            sum.def().filter(|op| op.is(ReduceOp::NAME)).into_iter().for_each(|op| LONG_SUM.set(op, ()));
            return self.convert(if keepdim { self.unsqueeze(sum, dims) } else { sum }, element);
        }
        let dropped = |d: usize| dims.contains(&(d as i64));
        let kept: Vec<Dim> = (0..shape.len()).filter(|&d| !dropped(d)).map(|d| shape[d].clone()).collect();
        let reduced = if dims.is_empty() {
            x
        } else {
            ReduceOp::build(&self.b, reduce_kind(kind), x, dims, Type::tensor_of(&kept, x.ty().element())).result()
        };
        if keepdim {
            let ones: Vec<Dim> = (0..shape.len()).map(|d| if dropped(d) { Dim::from(1) } else { shape[d].clone() }).collect();
            return self.reshape(reduced, &ones);
        }
        reduced
    }
    /// The sum along `dims`, in the element type of `x`.
    pub fn sum(&self, x: Value, dims: &[i64], keepdim: bool) -> Value {
        self.reduce("sum", x, dims, keepdim)
    }
    /// The mean along `dims` of a float tensor; NaN over zero elements.
    pub fn mean(&self, x: Value, dims: &[i64], keepdim: bool) -> Value {
        let count = elements(&x.ty().dims(), dims);
        let sum = self.sum(x, dims, keepdim);
        self.div(sum, self.size_like(sum, &count))
    }
    /// Returns true if a size is at most this number, for all values of its symbols.
    fn is_at_most(&self, size: &Dim, most: i64) -> bool {
        if let Some(number) = size.known() {
            return number <= most;
        }
        let scope = self.b.block().parent().map(around).map(sizes::scope).unwrap_or_default();
        size.compare(Relation::Le, &Dim::from(most), &scope).unwrap_or(false)
    }
    /// The index of the first `max` or `min` along `dim`.
    pub fn arg_reduce(&self, kind: &str, x: Value, dim: i64, keepdim: bool) -> Value {
        let mut shape = x.ty().dims();
        shape.remove(dim as usize);
        let ty = Type::tensor_of(&shape, Type::int(self.ctx(), 64));
        let index = ArgReduceOp::build(&self.b, reduce_kind(kind), x, dim, ty).result();
        if keepdim { self.unsqueeze(index, &[dim]) } else { index }
    }
    /// The running reduction along `dim`.
    pub fn scan(&self, kind: &str, x: Value, dim: i64) -> Value {
        ScanOp::build(&self.b, reduce_kind(kind), x, dim).result()
    }

    /// `i1`.
    pub fn bool_type(&self) -> Type {
        Type::int(self.ctx(), 1)
    }
}

/// The number of elements along `dims`.
fn elements(shape: &[Dim], dims: &[i64]) -> Dim {
    let sizes: Vec<Dim> = dims.iter().map(|&d| shape[d as usize].clone()).collect();
    product(&sizes).expect("a number of elements")
}

/// The function that encloses an operation, or the operation itself if it is one.
fn around(op: Op) -> Op {
    let mut function = op;
    while let Some(outer) = function.parent().filter(|_| !function.is(func::FUNC)) {
        function = outer;
    }
    function
}

/// The reduction kind with this name.
fn reduce_kind(word: &str) -> ReduceKind {
    ReduceKind::of_word(word).unwrap_or_else(|| panic!("elements cannot be combined by `{word}`"))
}
