//! Sizes as attributes.

use dynamlir_shapes::Dim;
use mlir_sys::MlirStringRef;

use crate::{
    ffi,
    ir::{Attr, AttrValue, Ctx, str_ref, to_string},
};

impl AttrValue for Dim {
    type Given<'a> = &'a Self;

    fn read(attr: Attr) -> Option<Self> {
        let mut text = MlirStringRef { data: std::ptr::null(), length: 0 };
        // SAFETY: the attribute is live; its text, which the context owns, is copied here.
        if unsafe { ffi::dynamoExprAttrGetText(attr.raw(), &raw mut text) } {
            return to_string(text).parse().ok();
        }
        // SAFETY: the attribute is live.
        let is_size = unsafe { ffi::dynamoSizeAttrIs(attr.raw()) };
        is_size.then(|| attr.as_i64().map(Self::from)).flatten()
    }

    /// # Panics
    /// If C++ rejects the text printed here: the two disagree.
    fn write(ctx: Ctx, given: &Self) -> Attr {
        if let Some(number) = given.known() {
            return Attr::i64(ctx, number);
        }
        // SAFETY: the text is borrowed for the call.
        let raw = unsafe { ffi::dynamoSizeAttrGet(ctx.raw(), str_ref(&given.to_string())) };
        assert!(!raw.ptr.is_null(), "{given} is not read as it is printed");
        Attr::from_raw(raw)
    }
}

impl AttrValue for Vec<Dim> {
    type Given<'a> = &'a [Dim];

    fn read(attr: Attr) -> Option<Self> {
        if let Some(numbers) = attr.as_i64s() {
            return Some(numbers.into_iter().map(Dim::from).collect());
        }
        // SAFETY: the attribute is live; there are as many sizes as it reports.
        unsafe {
            let count = ffi::dynamoSizesAttrGetCount(attr.raw());
            (count >= 0).then(|| (0..count).map(|index| Attr::from_raw(ffi::dynamoSizesAttrGetSize(attr.raw(), index))))
        }?
        .map(Dim::read)
        .collect()
    }

    fn write(ctx: Ctx, given: &[Dim]) -> Attr {
        let sizes: Vec<_> = given.iter().map(|dim| Dim::write(ctx, dim).raw()).collect();
        // SAFETY: the list has the stated length and is borrowed for the call.
        Attr::from_raw(unsafe { ffi::dynamoSizesAttrGet(ctx.raw(), sizes.len() as isize, sizes.as_ptr()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;

    /// An expression for each rule of the grammar, with its canonical form.
    const FORMS: &[(&str, &str)] = &[
        ("s0", "s0"),
        ("s0*2 + s0", "s0*3"),
        ("3*s0", "s0*3"),
        ("(s0 + 1)*(s0 - 1)", "s0*s0 - 1"),
        ("-s0 + 4", "-s0 + 4"),
        ("s1 + s0", "s0 + s1"),
        ("(s0*8) floordiv 8", "s0"),
        ("s0 floordiv 8", "s0 floordiv 8"),
        ("s0 ceildiv 8", "-((-s0) floordiv 8)"),
        ("s0 mod 8", "s0 mod 8"),
        ("min(s0, 128, s1)", "min(s0, s1, 128)"),
        ("max(min(s1, 2), s0)", "max(s0, min(s1, 2))"),
        ("s4294967295", "s4294967295"),
        ("-9223372036854775808 + s0", "s0 + -9223372036854775808"),
    ];

    #[test]
    fn both_sides_agree_on_text() {
        let session = Session::new();
        for (text, canonical) in FORMS {
            let dim: Dim = text.parse().expect("parses in Rust");
            let parsed = Attr::parse(session.ctx(), &format!("#dynamo.expr<{text}>")).expect("parses in C++");
            assert_eq!(parsed.to_string(), format!("#dynamo.expr<{dim}>"), "{text}");
            assert_eq!((Dim::read(parsed), dim.to_string().as_str()), (Some(dim.clone()), *canonical), "{text}");
            assert!(Dim::write(session.ctx(), &dim) == parsed, "{text}");
        }
        assert_eq!(session.take_diagnostics(), "");
    }

    #[test]
    fn equal_expressions_are_one_attribute() {
        let session = Session::new();
        let [a, b, c] = ["s0*2 + s0", "3*s0", "s0*3 + 1"].map(|text| Attr::known(session.ctx(), &format!("#dynamo.expr<{text}>")));
        assert!(a == b && a != c);
        let types =
            ["s0*2 + s0", "3*s0"].map(|text| crate::ir::Type::parse(session.ctx(), &format!("tensor<?xf32, #dynamo.sizes<{text}>>")));
        assert!(types[0].is_some() && types[0] == types[1]);
    }

    #[test]
    fn what_needs_no_symbol_is_a_number() {
        let session = Session::new();
        let four = Attr::known(session.ctx(), "#dynamo.expr<s0 - s0 + 4>");
        assert!(four == Attr::i64(session.ctx(), 4));
        assert_eq!(Dim::read(four), Some(Dim::from(4)));
        let numbers = Vec::<Dim>::write(session.ctx(), &[Dim::from(4), Dim::from(2)]);
        assert!(numbers == Attr::i64s(session.ctx(), &[4, 2]));
        assert_eq!(Vec::<Dim>::read(numbers), Some(vec![Dim::from(4), Dim::from(2)]));
        assert_eq!(Dim::read(Attr::bool(session.ctx(), true)), None);
        assert_eq!(Vec::<Dim>::read(four), None);
    }

    #[test]
    fn lists_go_into_attributes_and_back() {
        let session = Session::new();
        let dims = vec![Dim::from(2), "s0*4".parse().expect("parses")];
        let attr = Vec::<Dim>::write(session.ctx(), &dims);
        assert_eq!(attr.to_string(), "#dynamo.sizes<2, s0*4>");
        assert_eq!(Vec::<Dim>::read(attr), Some(dims));
    }

    #[test]
    fn a_fault_has_its_place() {
        let session = Session::new();
        for (text, place, fault) in [
            ("s0 mod 0", 17, "division by zero"),
            ("s0*9223372036854775807*2", 36, "integer overflow"),
            ("9223372036854775808 + s0", 14, "the number is too large"),
            ("s0 +", 18, "expected a number, a symbol or `(`"),
            ("rows", 14, "expected a number, a symbol or `(`"),
            ("s01", 14, "expected a number, a symbol or `(`"),
            ("s0 s1", 17, "expected an operator"),
        ] {
            assert!(Attr::parse(session.ctx(), &format!("#dynamo.expr<{text}>")).is_none(), "{text}");
            let diagnostics = session.take_diagnostics();
            assert!(diagnostics.contains(&format!(":1:{place}")) && diagnostics.contains(fault), "{text}: {diagnostics}");
        }
        let deep = format!("{}s0{}", "(".repeat(400), ")".repeat(400));
        assert!(Attr::parse(session.ctx(), &format!("#dynamo.expr<{deep}>")).is_none());
        assert!(session.take_diagnostics().contains("nested too deeply"));
    }
}
