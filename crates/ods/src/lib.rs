//! Generates Rust from a dialect's ODS files: a type for each operation with its accessors and builder, an enum for each enumeration, a
//! constant for each discardable attribute.
//!
//! `crates/dialect/build.rs` runs it. The result is the only place in Rust that spells out the names of the dialect's operations and
//! attributes:
//!
//! ```text
//! def Dynamo_SliceOp : ShapePrim<"slice", …> {                 pub struct SliceOp(Op);
//!   let arguments = (ins Dynamo_Tensor:$operand,               impl SliceOp {
//!       DenseI64ArrayAttr:$starts, …);                 ──►         pub const NAME: &str = "dynamo.slice";
//! }                                                                pub fn cast(op: Op) -> Option<Self>
//!                                                                  pub fn operand(self) -> Value
//!                                                                  pub fn starts(self) -> Vec<i64>
//!                                                                  pub fn build(b: &Builder, operand: Value, starts: &[i64], …)
//! ```
//!
//! Accessors assume that an attribute exists and is of its kind. The verifier that upstream's tblgen generates from the same definition has
//! checked this.
#![forbid(unsafe_code)]

mod attribute;
mod discardable;
mod enumeration;
mod operation;
mod text;

use std::path::Path;

use tblgen::{RecordKeeper, TableGenParser};

use operation::Operation;

/// The reason why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `TableGen` cannot read the files.
    #[error("TableGen: {0}")]
    TableGen(#[from] tblgen::Error),
    /// A definition uses something that the generator does not support.
    #[error("{definition}: {what}")]
    Unknown {
        /// The operation or attribute.
        definition: String,
        /// The unsupported part.
        what: String,
    },
}

/// The Rust source for the dialect that is defined in `file`. `folders` are searched for the file and its includes.
///
/// # Errors
/// If the files do not parse, or use an unsupported kind of operand or attribute.
pub fn generate(file: &str, folders: &[&Path]) -> Result<String, Error> {
    let mut parser = TableGenParser::new().add_source(&format!("include \"{file}\"\n"))?;
    for folder in folders {
        parser = parser.add_include_directory(&folder.to_string_lossy());
    }
    let keeper: RecordKeeper<'_> = parser.parse()?;
    let mut source = String::new();
    for record in keeper.all_derived_definitions("I32EnumAttr") {
        source += &enumeration::write(record)?;
    }
    for record in keeper.all_derived_definitions("EnumAttr") {
        source += &enumeration::write_attribute(record)?;
    }
    let mut operations = Vec::new();
    for record in keeper.all_derived_definitions("Op") {
        operations.push(Operation::read(record)?);
    }
    for operation in &operations {
        source += &operation.write();
    }
    source += &operation::write_set(&operations);
    for record in keeper.all_derived_definitions("Dialect").filter(|record| record.name() == Ok("Dynamo_Dialect")) {
        source += &discardable::write(record)?;
    }
    Ok(source)
}
