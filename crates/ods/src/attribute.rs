//! The Rust types of attributes.

use tblgen::Record;

use crate::Error;

/// The Rust side of a kind of attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The type that an accessor returns, which implements `AttrValue`.
    pub value: String,
    /// The type that a builder takes.
    pub given: String,
    /// True if it may be missing.
    pub optional: bool,
    /// True if only its presence matters.
    pub unit: bool,
    /// For an attribute of sizes, which may be expressions: the type that an accessor for these returns, and the type that a setter takes.
    pub sizes: Option<(&'static str, &'static str)>,
}

/// Constraints on attributes of sizes: their name, the C++ class if all are numbers, and the Rust types for expressions.
const SIZES: &[(&str, &str, &str, &str)] =
    &[("Dynamo_Size", "IntegerAttr", "Dim", "&Dim"), ("Dynamo_SizeArray", "DenseI64ArrayAttr", "Vec<Dim>", "&[Dim]")];

/// C++ class, the type that an accessor returns, the type that a builder takes.
const KNOWN: &[(&str, &str, &str)] = &[
    ("IntegerAttr", "i64", "i64"),
    ("FloatAttr", "f64", "f64"),
    ("StringAttr", "String", "&str"),
    ("UnitAttr", "bool", "bool"),
    ("ArrayAttr", "Vec<Attr>", "&[Attr]"),
    ("DenseI64ArrayAttr", "Vec<i64>", "&[i64]"),
    ("SymbolRefAttr", "Symbol", "&Symbol"),
    ("FlatSymbolRefAttr", "Symbol", "&Symbol"),
    ("TypeAttr", "Type", "Type"),
    ("DictionaryAttr", "Attr", "Attr"),
    ("TypedAttr", "Attr", "Attr"),
    ("Attribute", "Attr", "Attr"),
    ("dynamlir::dynamo::TargetAttr", "Target", "&Target"),
    ("dynamlir::dynamo::FormatAttr", "Attr", "Attr"),
];

impl Kind {
    /// The kind of an attribute constraint.
    pub fn read(definition: &str, record: Record<'_>) -> Result<Self, Error> {
        if record.subclass_of("OptionalAttr") {
            let base = Self::read(definition, record.def_value("baseAttr")?)?;
            return Ok(Self { optional: true, ..base });
        }
        if record.subclass_of("EnumAttr") {
            let name = record.def_value("enum")?.str_value("className")?.to_owned();
            return Ok(Self { value: name.clone(), given: name, optional: false, unit: false, sizes: None });
        }
        if let Some((_, numbers, value, given)) = SIZES.iter().find(|(name, ..)| record.name() == Ok(*name)) {
            return Ok(Self { sizes: Some((value, given)), ..Self::of_class(definition, numbers)? });
        }
        Self::of_class(definition, record.str_value("storageType")?)
    }

    /// The kind of a C++ class.
    pub fn of_class(definition: &str, class: &str) -> Result<Self, Error> {
        let name = class.trim().trim_start_matches("::").trim_start_matches("mlir::");
        let Some((_, value, given)) = KNOWN.iter().find(|(known, _, _)| *known == name) else {
            return Err(Error::Unknown { definition: definition.to_owned(), what: format!("no Rust type for {class}") });
        };
        Ok(Self { value: (*value).to_owned(), given: (*given).to_owned(), optional: false, unit: name == "UnitAttr", sizes: None })
    }

    /// The type of an accessor.
    pub fn returned(&self) -> String {
        if self.optional { format!("Option<{}>", self.value) } else { self.value.clone() }
    }

    /// The type of a builder's argument.
    pub fn taken(&self) -> String {
        if self.optional { format!("Option<{}>", self.given) } else { self.given.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_rust_types() {
        let kind = Kind::of_class("x", "::mlir::DenseI64ArrayAttr").expect("known");
        assert_eq!((kind.returned(), kind.taken()), ("Vec<i64>".to_owned(), "&[i64]".to_owned()));
        let optional = Kind { optional: true, ..kind };
        assert_eq!((optional.returned(), optional.taken()), ("Option<Vec<i64>>".to_owned(), "Option<&[i64]>".to_owned()));
    }

    #[test]
    fn another_class_is_an_error() {
        let error = Kind::of_class("dynamo.x", "::mlir::AffineMapAttr").expect_err("not known").to_string();
        assert_eq!(error, "dynamo.x: no Rust type for ::mlir::AffineMapAttr");
    }
}
