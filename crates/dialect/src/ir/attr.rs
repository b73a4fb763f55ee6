//! Attributes of the kinds that the dialect's ops carry.

use mlir_sys::*;

use super::{Ctx, Symbol, Type, print, str_ref, to_string};
use crate::ffi;

/// A uniqued attribute.
#[derive(Clone, Copy)]
pub struct Attr(pub(crate) MlirAttribute);

impl PartialEq for Attr {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both handles are live as long as their context.
        unsafe { mlirAttributeEqual(self.0, other.0) }
    }
}
impl Eq for Attr {}
impl std::hash::Hash for Attr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // Attributes are uniqued, so equal ones have equal pointers.
        self.0.ptr.hash(state);
    }
}

// SAFETY of every block below: attribute handles are uniqued in a context that outlives them; kinds are checked
// before kind-specific getters are called; arrays and strings are passed with their own length and copied.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl Attr {
    /// Parses an attribute such as `#dynamo.operand<0>`.
    pub fn parse(ctx: Ctx, text: &str) -> Option<Self> {
        let raw = unsafe { mlirAttributeParseGet(ctx.0, str_ref(text)) };
        (!raw.ptr.is_null()).then_some(Self(raw))
    }
    /// Parses an attribute of a registered dialect.
    ///
    /// # Panics
    /// If the text is not such an attribute.
    pub fn known(ctx: Ctx, text: &str) -> Self {
        Self::parse(ctx, text).unwrap_or_else(|| panic!("{text} is not an attribute of the registered dialects"))
    }
    /// Wraps a raw attribute.
    pub fn from_raw(raw: MlirAttribute) -> Self {
        Self(raw)
    }
    /// The raw handle.
    pub fn raw(self) -> MlirAttribute {
        self.0
    }
    /// The context.
    pub fn ctx(self) -> Ctx {
        Ctx(unsafe { mlirAttributeGetContext(self.0) })
    }
    /// An integer of the given type.
    pub fn int_of(ty: Type, value: i64) -> Self {
        Self(unsafe { mlirIntegerAttrGet(ty.0, value) })
    }
    /// An `i64`.
    pub fn i64(ctx: Ctx, value: i64) -> Self {
        Self::int_of(Type::int(ctx, 64), value)
    }
    /// A float of the given type (rounded to it).
    pub fn float_of(ty: Type, value: f64) -> Self {
        Self(unsafe { mlirFloatAttrDoubleGet(ty.ctx().0, ty.0, value) })
    }
    /// An `f64`.
    pub fn f64(ctx: Ctx, value: f64) -> Self {
        Self::float_of(Type::f64(ctx), value)
    }
    /// A scalar of any element type from a double (exact for values that fit; see [`Attr::int_of`] for wide integers).
    pub fn scalar(ty: Type, value: f64) -> Self {
        if ty.is_float() { Self::float_of(ty, value) } else { Self::int_of(ty, value as i64) }
    }
    /// `dense<element>` of a vector or tensor type.
    pub fn splat(ty: Type, element: Self) -> Self {
        Self(unsafe { mlirDenseElementsAttrSplatGet(ty.0, element.0) })
    }
    /// `true` or `false`.
    pub fn bool(ctx: Ctx, value: bool) -> Self {
        Self(unsafe { mlirBoolAttrGet(ctx.0, value.into()) })
    }
    /// `unit`.
    pub fn unit(ctx: Ctx) -> Self {
        Self(unsafe { mlirUnitAttrGet(ctx.0) })
    }
    /// A string.
    pub fn str(ctx: Ctx, value: &str) -> Self {
        Self(unsafe { mlirStringAttrGet(ctx.0, str_ref(value)) })
    }
    /// `[…]`.
    pub fn array(ctx: Ctx, elements: &[Self]) -> Self {
        let raw: Vec<_> = elements.iter().map(|a| a.0).collect();
        Self(unsafe { mlirArrayAttrGet(ctx.0, raw.len() as isize, raw.as_ptr()) })
    }
    /// `dense<[…]> : vector<…xi32>`, or another one-dimensional type with elements of `i32`.
    pub fn dense_i32s(ty: Type, values: &[i32]) -> Self {
        Self(unsafe { mlirDenseElementsAttrInt32Get(ty.raw(), values.len() as isize, values.as_ptr()) })
    }
    /// `array<i64: …>`.
    pub fn i64s(ctx: Ctx, values: &[i64]) -> Self {
        Self(unsafe { mlirDenseI64ArrayGet(ctx.0, values.len() as isize, values.as_ptr()) })
    }
    /// `array<i32: …>`.
    pub fn i32s(ctx: Ctx, values: &[i32]) -> Self {
        Self(unsafe { mlirDenseI32ArrayGet(ctx.0, values.len() as isize, values.as_ptr()) })
    }
    /// The case with this number of the dialect's enumeration with this mnemonic.
    pub fn of_enumerator(ctx: Ctx, mnemonic: &str, number: i64) -> Self {
        let raw = unsafe { ffi::dynamoEnumAttrGet(ctx.0, str_ref(mnemonic), number) };
        assert!(!raw.ptr.is_null(), "CAPI.cpp does not know the enumeration {mnemonic}");
        Self(raw)
    }
    /// The number of the case, if this is a case of the enumeration with this mnemonic.
    pub fn enumerator(self, mnemonic: &str) -> Option<i64> {
        let number = unsafe { ffi::dynamoEnumAttrGetValue(self.0, str_ref(mnemonic)) };
        (number >= 0).then_some(number)
    }
    /// `{name = value, …}`.
    pub fn dict(ctx: Ctx, entries: &[(&str, Self)]) -> Self {
        let named: Vec<_> = entries
            .iter()
            .map(|(name, value)| unsafe { mlirNamedAttributeGet(mlirIdentifierGet(ctx.0, str_ref(name)), value.0) })
            .collect();
        Self(unsafe { mlirDictionaryAttrGet(ctx.0, named.len() as isize, named.as_ptr()) })
    }
    /// `@name`.
    pub fn symbol(ctx: Ctx, name: &str) -> Self {
        Self(unsafe { mlirFlatSymbolRefAttrGet(ctx.0, str_ref(name)) })
    }
    /// `@outer::@inner`.
    pub fn nested_symbol(ctx: Ctx, outer: &str, inner: &str) -> Self {
        let inner = Self::symbol(ctx, inner);
        Self(unsafe { mlirSymbolRefAttrGet(ctx.0, str_ref(outer), 1, &raw const inner.0) })
    }
    /// `#dynamo.operand<index>`.
    pub fn operand(ctx: Ctx, index: usize) -> Self {
        Self(unsafe { ffi::dynamoOperandAttrGet(ctx.0, index as i64) })
    }
    /// The integer's value, if this is an integer (bool included).
    pub fn as_i64(self) -> Option<i64> {
        if !unsafe { mlirAttributeIsAInteger(self.0) } {
            return None;
        }
        let ty = Type(unsafe { mlirAttributeGetType(self.0) });
        Some(if ty.is_unsigned() {
            unsafe { mlirIntegerAttrGetValueUInt(self.0) as i64 }
        } else if ty.is_int() && ty.width() == 1 {
            i64::from(unsafe { mlirIntegerAttrGetValueInt(self.0) } != 0)
        } else if unsafe { mlirIntegerTypeIsSigned(ty.0) } {
            unsafe { mlirIntegerAttrGetValueSInt(self.0) }
        } else {
            unsafe { mlirIntegerAttrGetValueInt(self.0) }
        })
    }
    /// The float's value, if this is a float.
    pub fn as_f64(self) -> Option<f64> {
        unsafe { mlirAttributeIsAFloat(self.0).then(|| mlirFloatAttrGetValueDouble(self.0)) }
    }
    /// The bool's value, if this is an `i1`.
    pub fn as_bool(self) -> Option<bool> {
        unsafe { mlirAttributeIsABool(self.0).then(|| mlirBoolAttrGetValue(self.0)) }
    }
    /// The text, if this is a string.
    pub fn as_str(self) -> Option<String> {
        unsafe { mlirAttributeIsAString(self.0).then(|| to_string(mlirStringAttrGetValue(self.0))) }
    }
    /// The elements, if this is an array.
    pub fn as_array(self) -> Option<Vec<Self>> {
        unsafe {
            mlirAttributeIsAArray(self.0)
                .then(|| (0..mlirArrayAttrGetNumElements(self.0)).map(|i| Self(mlirArrayAttrGetElement(self.0, i))).collect())
        }
    }
    /// The numbers, if this is `array<i64: …>`.
    pub fn as_i64s(self) -> Option<Vec<i64>> {
        unsafe {
            mlirAttributeIsADenseI64Array(self.0)
                .then(|| (0..mlirDenseArrayGetNumElements(self.0)).map(|i| mlirDenseI64ArrayGetElement(self.0, i)).collect())
        }
    }
    /// The numbers, if this is `array<i32: …>`.
    pub fn as_i32s(self) -> Option<Vec<i32>> {
        unsafe {
            mlirAttributeIsADenseI32Array(self.0)
                .then(|| (0..mlirDenseArrayGetNumElements(self.0)).map(|i| mlirDenseI32ArrayGetElement(self.0, i)).collect())
        }
    }
    /// The type, if this is a type attribute.
    pub fn as_type(self) -> Option<Type> {
        unsafe { mlirAttributeIsAType(self.0).then(|| Type(mlirTypeAttrGetValue(self.0))) }
    }
    /// The last name of a symbol reference, if this is one.
    pub fn as_symbol(self) -> Option<String> {
        unsafe { mlirAttributeIsASymbolRef(self.0).then(|| to_string(mlirSymbolRefAttrGetLeafReference(self.0))) }
    }
    /// The symbol, if this is a reference at most one symbol table deep.
    pub fn as_symbol_path(self) -> Option<Symbol> {
        if !unsafe { mlirAttributeIsASymbolRef(self.0) } {
            return None;
        }
        let root = to_string(unsafe { mlirSymbolRefAttrGetRootReference(self.0) });
        match unsafe { mlirSymbolRefAttrGetNumNestedReferences(self.0) } {
            0 => Some(Symbol { outer: None, name: root }),
            1 => Some(Symbol { outer: Some(root), name: to_string(unsafe { mlirSymbolRefAttrGetLeafReference(self.0) }) }),
            _ => None,
        }
    }
    /// The operand number, if this is `#dynamo.operand<…>`.
    pub fn as_operand(self) -> Option<usize> {
        usize::try_from(unsafe { ffi::dynamoOperandAttrGetIndex(self.0) }).ok()
    }
    /// Returns true if this is `unit` (None in `args`).
    pub fn is_unit(self) -> bool {
        unsafe { mlirAttributeIsAUnit(self.0) }
    }
    /// Type of a typed attribute.
    pub fn ty(self) -> Type {
        Type(unsafe { mlirAttributeGetType(self.0) })
    }
    /// An entry of a dictionary.
    pub fn get(self, name: &str) -> Option<Self> {
        let raw = unsafe { mlirDictionaryAttrGetElementByName(self.0, str_ref(name)) };
        (!raw.ptr.is_null()).then_some(Self(raw))
    }
    /// All entries of a dictionary; empty for other attributes.
    pub fn entries(self) -> Vec<(String, Self)> {
        if !unsafe { mlirAttributeIsADictionary(self.0) } {
            return Vec::new();
        }
        (0..unsafe { mlirDictionaryAttrGetNumElements(self.0) })
            .map(|i| unsafe { mlirDictionaryAttrGetElement(self.0, i) })
            .map(|named| (to_string(unsafe { mlirIdentifierStr(named.name) }), Self(named.attribute)))
            .collect()
    }
}

impl std::fmt::Display for Attr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the callback appends to a string that outlives the call.
        f.write_str(&print(|cb, data| unsafe { mlirAttributePrint(self.0, cb, data) }))
    }
}

impl std::fmt::Debug for Attr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
