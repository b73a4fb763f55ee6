//! Types whose sizes may be expressions.

use dynamlir_shapes::{Dim, Dimension, Scope, Window};
use mlir_sys::{MlirAttribute, mlirRankedTensorTypeGet, mlirRankedTensorTypeGetEncoding};

use crate::{
    ffi,
    ir::{Attr, AttrValue, DYNAMIC, Type},
};

/// A size as MLIR stores it in a shape.
fn number(dim: &Dim) -> i64 {
    dim.known().unwrap_or(DYNAMIC)
}

/// A size from MLIR, if it is static.
fn known(number: i64) -> Option<Dim> {
    (number != DYNAMIC).then(|| Dim::from(number))
}

/// All of them as sizes, if all are numbers: the cheapest way to read them.
fn all_known(numbers: Vec<i64>) -> Option<Vec<Dim>> {
    (!numbers.contains(&DYNAMIC)).then(|| numbers.into_iter().map(Dim::from).collect())
}

fn read(raw: MlirAttribute) -> Option<Dim> {
    if raw.ptr.is_null() { None } else { Dim::read(Attr::from_raw(raw)) }
}

impl Type {
    /// Sizes of a tensor, memref or `!dynamo.tensor`; empty for others. `None` if one is a `?` without an expression.
    pub fn sizes(self) -> Option<Vec<Dim>> {
        if self.is_mutable() {
            if let Some(known) = all_known(self.shape()) {
                return Some(known);
            }
            // SAFETY: it is a `!dynamo.tensor` with as many dimensions.
            return (0..self.rank()).map(|i| read(unsafe { ffi::dynamoMutableTensorTypeGetSizeAttr(self.raw(), i as isize) })).collect();
        }
        if self.is_tensor() {
            // SAFETY: it is a ranked tensor; the encoding may be null.
            let encoding = unsafe { mlirRankedTensorTypeGetEncoding(self.raw()) };
            if !encoding.ptr.is_null() {
                return Vec::<Dim>::read(Attr::from_raw(encoding));
            }
        }
        self.shape().into_iter().map(known).collect()
    }

    /// The same for a type whose sizes are known to be given.
    ///
    /// # Panics
    /// If one is a `?` without an expression.
    pub fn dims(self) -> Vec<Dim> {
        self.sizes().unwrap_or_else(|| panic!("{self} does not say its sizes"))
    }

    /// Sizes, if all of them are numbers.
    pub fn numbers(self) -> Option<Vec<i64>> {
        let shape = self.shape();
        (!shape.contains(&DYNAMIC)).then_some(shape)
    }

    /// Sizes, strides and offset of a `!dynamo.tensor` or memref, or of a builtin tensor, which is row-major. `None` if one is a `?`
    /// without an expression, and for types without sizes.
    pub fn window(self, scope: &Scope) -> Option<Window> {
        let sizes = self.sizes()?;
        if self.is_mutable() {
            if let Some((strides, offset)) = all_known(self.strides()).zip(known(self.offset())) {
                return Window::new(sizes, strides, offset).ok();
            }
            // SAFETY: it is a `!dynamo.tensor` with as many dimensions.
            let stride = |i| read(unsafe { ffi::dynamoMutableTensorTypeGetStrideAttr(self.raw(), i as isize) });
            let strides = (0..sizes.len()).map(stride).collect::<Option<_>>()?;
            // SAFETY: as above.
            let offset = read(unsafe { ffi::dynamoMutableTensorTypeGetOffsetAttr(self.raw()) })?;
            return Window::new(sizes, strides, offset).ok();
        }
        if let Some((strides, offset)) = self.strided() {
            return Window::new(sizes, strides.into_iter().map(known).collect::<Option<_>>()?, known(offset)?).ok();
        }
        if self.is_tensor() { Window::row_major_in(&sizes, scope).ok() } else { None }
    }

    /// `tensor<sizes x element>`, with `#dynamo.sizes` if a size is an expression.
    pub fn tensor_of(sizes: &[Dim], element: Self) -> Self {
        let shape: Vec<i64> = sizes.iter().map(number).collect();
        if sizes.iter().all(|size| size.known().is_some()) {
            return Self::tensor(&shape, element);
        }
        let encoding = Vec::<Dim>::write(element.ctx(), sizes);
        // SAFETY: there are as many sizes as the rank; the encoding is from this context.
        Self::from_raw(unsafe { mlirRankedTensorTypeGet(shape.len() as isize, shape.as_ptr(), element.raw(), encoding.raw()) })
    }

    /// `!dynamo.tensor` of a window; `None`, with a diagnostic, if no tensor has such a window.
    pub fn mutable_of(window: &Window, element: Self) -> Option<Self> {
        let ctx = element.ctx();
        let write = |dims: &[Dim]| -> Vec<_> { dims.iter().map(|dim| Dim::write(ctx, dim).raw()).collect() };
        let (sizes, strides, offset) = (write(&window.sizes), write(&window.strides), Dim::write(ctx, &window.offset).raw());
        let rank = sizes.len().min(strides.len()) as isize;
        // SAFETY: both lists have equally many attributes, all of them sizes.
        let raw =
            unsafe { ffi::dynamoMutableTensorTypeGetOfSizes(ctx.raw(), rank, sizes.as_ptr(), element.raw(), strides.as_ptr(), offset) };
        (!raw.ptr.is_null()).then(|| Self::from_raw(raw))
    }

    /// Returns true if it is plain that it has one element.
    pub fn is_single(self) -> bool {
        self.shape().iter().all(|&size| size == 1)
    }

    /// Product of the sizes; `None` if one is a `?` without an expression, or the product is not a size.
    pub fn count(self) -> Option<Dim> {
        self.sizes()?.iter().try_fold(Dim::from(1), |product, size| product.mul(size)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;

    fn dim(text: &str) -> Dim {
        text.parse().expect("parses")
    }

    #[test]
    fn tensors_have_sizes() {
        let session = Session::new();
        let f32 = Type::f32(session.ctx());
        let sizes = [dim("s0*2"), Dim::from(4)];
        let open = Type::tensor_of(&sizes, f32);
        assert_eq!(open.to_string(), "tensor<?x4xf32, #dynamo.sizes<s0*2, 4>>");
        assert_eq!((open.sizes(), open.shape()), (Some(sizes.to_vec()), vec![DYNAMIC, 4]));
        assert_eq!(open.count(), Some(dim("s0*8")));
        assert!(Type::parse(session.ctx(), &open.to_string()) == Some(open));
        let window = open.window(&Scope::new()).expect("a window");
        assert_eq!(window.strides, [Dim::from(4), Dim::from(1)]);
    }

    #[test]
    fn numbers_fold() {
        let session = Session::new();
        let f32 = Type::f32(session.ctx());
        assert!(Type::tensor_of(&[Dim::from(2), Dim::from(3)], f32) == Type::tensor(&[2, 3], f32));
        let window = Window::new(vec![2.into()], vec![1.into()], 4.into()).expect("fits");
        assert!(Type::mutable_of(&window, f32) == Some(Type::mutable(&[2], f32, &[1], 4)));
        assert_eq!(Type::tensor(&[DYNAMIC], f32).sizes(), None);
        assert_eq!(Type::memref(&[2], f32, &[3], 1).window(&Scope::new()), Window::new(vec![2.into()], vec![3.into()], 1.into()).ok());
        assert_eq!(f32.window(&Scope::new()), None);
    }

    #[test]
    fn mutable_tensors_are_windows() {
        let session = Session::new();
        let window = Window::new(vec![dim("s0"), Dim::from(4)], vec![dim("s1*4"), Dim::from(1)], dim("s1")).expect("fits");
        let ty = Type::mutable_of(&window, Type::f32(session.ctx())).expect("a type");
        assert_eq!(ty.to_string(), "!dynamo.tensor<[s0, 4]xf32, [s1*4, 1], s1>");
        assert!(Type::parse(session.ctx(), &ty.to_string()) == Some(ty));
        assert_eq!(ty.window(&Scope::new()), Some(window));
        let negative = Window::new(vec![2.into()], vec![(-1).into()], 0.into()).expect("fits");
        assert!(Type::mutable_of(&negative, Type::f32(session.ctx())).is_none());
    }
}
