//! The C API of the dialect (`dialects/dynamo/include/dynamo-c/Dynamo.h`), declared by hand.
//!
//! Ownership: all types here are uniqued handles owned by the context; strings are borrowed for the call.

#![expect(missing_docs, reason = "the header documents them")]

use std::ffi::{c_char, c_int, c_void};

use mlir_sys::{MlirAttribute, MlirContext, MlirDialectRegistry, MlirModule, MlirOperation, MlirPassManager, MlirStringRef, MlirType};

/// The kind of value that an option takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// A non-negative number.
    Number,
    /// Text.
    Text,
}

/// The declaration of an option.
#[repr(C)]
pub struct Declaration {
    pub name: MlirStringRef,
    pub description: MlirStringRef,
    pub kind: OptionKind,
}

/// An option's value, if one was given.
#[repr(C)]
pub struct OptionValue {
    pub is_given: bool,
    pub number: u64,
    pub text: MlirStringRef,
}

/// A statistic of a pass.
#[repr(C)]
pub struct Statistic {
    pub name: MlirStringRef,
    pub description: MlirStringRef,
}

/// The parts of `#dynamo.target`.
#[repr(C)]
pub struct TargetParts {
    pub triple: MlirStringRef,
    pub cpu: MlirStringRef,
    pub features: MlirStringRef,
    pub vector_bits: i64,
    pub library_vector_bits: i64,
    pub chip: MlirStringRef,
}

/// The outcome of a pass.
#[repr(C)]
pub enum PassOutcome {
    /// An error has been emitted.
    Failed,
    /// The module was changed.
    Changed,
    /// The module was not changed, and need not be verified again.
    Unchanged,
}

/// The body of a pass: takes the module, one value per option, one count per statistic and the pointer given at registration. It must not
/// unwind.
pub type PassCallback = unsafe extern "C" fn(MlirOperation, *const OptionValue, *mut u64, *mut c_void) -> PassOutcome;

/// A pass to be registered.
#[repr(C)]
pub struct PassDeclaration {
    pub name: MlirStringRef,
    pub description: MlirStringRef,
    pub options: *const Declaration,
    pub num_options: isize,
    pub statistics: *const Statistic,
    pub num_statistics: isize,
    pub run: PassCallback,
    pub user_data: *mut c_void,
}

/// The fields of `#dynamo.output<…>`.
#[repr(C)]
pub struct OutputFields {
    pub kind: i64,
    pub index: i64,
    pub sizes: MlirAttribute,
    pub strides: MlirAttribute,
    pub offset: MlirAttribute,
}

/// A size that was parsed, or the error in its text.
#[repr(C)]
pub struct Size {
    pub is_number: bool,
    pub number: i64,
    pub text: MlirStringRef,
    pub symbols: *const i64,
    pub num_symbols: isize,
    pub fault: MlirStringRef,
    pub position: isize,
}

/// Receives a size, which is borrowed for the call, and the pointer given with it.
pub type SizeTake = unsafe extern "C" fn(*const Size, *mut c_void);

/// The fields of `#dynamo.symbol<…>`.
#[repr(C)]
pub struct SymbolFields {
    pub number: i64,
    pub argument: i64,
    pub dim: i64,
    pub min: i64,
    pub max: i64,
    pub divisor: i64,
    pub hint: i64,
}

/// A relation between two sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRelation {
    Equal,
    Less,
    LessOrEqual,
}

/// The callbacks for the algebra of sizes; neither may unwind.
#[repr(C)]
pub struct SizeCallbacks {
    pub read: unsafe extern "C" fn(MlirStringRef, SizeTake, *mut c_void),
    pub decide: unsafe extern "C" fn(*const SymbolFields, isize, MlirStringRef, SizeRelation, MlirStringRef, MlirStringRef) -> i32,
}

/// Called after a pass has run, with its name, the seconds it took and the pointer given at registration. It must not unwind.
pub type PassTimeCallback = unsafe extern "C" fn(MlirStringRef, f64, *mut c_void);

unsafe extern "C" {
    pub fn dynamoRegisterDialects(registry: MlirDialectRegistry);
    pub fn dynamoRegisterUpstreamPasses();
    pub fn dynamoTypeIsMutableTensor(ty: MlirType) -> bool;
    pub fn dynamoMutableTensorTypeGet(
        context: MlirContext,
        rank: isize,
        sizes: *const i64,
        element: MlirType,
        strides: *const i64,
        offset: i64,
    ) -> MlirType;
    pub fn dynamoMutableTensorTypeGetRank(ty: MlirType) -> isize;
    pub fn dynamoMutableTensorTypeGetSize(ty: MlirType, dim: isize) -> i64;
    pub fn dynamoMutableTensorTypeGetStride(ty: MlirType, dim: isize) -> i64;
    pub fn dynamoMutableTensorTypeGetOffset(ty: MlirType) -> i64;
    pub fn dynamoMutableTensorTypeGetElementType(ty: MlirType) -> MlirType;
    pub fn dynamoMutableTensorTypeGetOfSizes(
        context: MlirContext,
        rank: isize,
        sizes: *const MlirAttribute,
        element: MlirType,
        strides: *const MlirAttribute,
        offset: MlirAttribute,
    ) -> MlirType;
    pub fn dynamoMutableTensorTypeGetSizeAttr(ty: MlirType, dim: isize) -> MlirAttribute;
    pub fn dynamoMutableTensorTypeGetStrideAttr(ty: MlirType, dim: isize) -> MlirAttribute;
    pub fn dynamoMutableTensorTypeGetOffsetAttr(ty: MlirType) -> MlirAttribute;
    pub fn dynamoSetSizeCallbacks(callbacks: *const SizeCallbacks);
    pub fn dynamoSizeAttrIs(attr: MlirAttribute) -> bool;
    pub fn dynamoSizeAttrGet(context: MlirContext, text: MlirStringRef) -> MlirAttribute;
    pub fn dynamoExprAttrGetText(attr: MlirAttribute, text: *mut MlirStringRef) -> bool;
    pub fn dynamoSizesAttrGet(context: MlirContext, count: isize, sizes: *const MlirAttribute) -> MlirAttribute;
    pub fn dynamoSizesAttrGetCount(attr: MlirAttribute) -> isize;
    pub fn dynamoSizesAttrGetSize(attr: MlirAttribute, index: isize) -> MlirAttribute;
    pub fn dynamoSymbolAttrGet(context: MlirContext, fields: *const SymbolFields) -> MlirAttribute;
    pub fn dynamoSymbolAttrGetFields(attr: MlirAttribute, fields: *mut SymbolFields) -> bool;
    pub fn dynamoContextHoldsExpressions(context: MlirContext) -> bool;
    pub fn dynamoFindExpression(root: MlirOperation, text: *mut MlirStringRef) -> MlirOperation;
    pub fn dynamoOperandAttrGet(context: MlirContext, index: i64) -> MlirAttribute;
    pub fn dynamoOperandAttrGetIndex(attr: MlirAttribute) -> i64;
    pub fn dynamoTextAttrGet(context: MlirContext, mnemonic: MlirStringRef, value: MlirStringRef) -> MlirAttribute;
    pub fn dynamoTextAttrGetValue(attr: MlirAttribute, mnemonic: MlirStringRef, value: *mut MlirStringRef) -> bool;
    pub fn dynamoOutputAttrGet(context: MlirContext, fields: *const OutputFields) -> MlirAttribute;
    pub fn dynamoOutputAttrGetFields(attr: MlirAttribute, fields: *mut OutputFields) -> bool;
    pub fn dynamoBaseAttrGet(context: MlirContext, kind: i64, index: i64) -> MlirAttribute;
    pub fn dynamoBaseAttrGetFields(attr: MlirAttribute, kind: *mut i64, index: *mut i64) -> bool;
    pub fn dynamoIteratorTypeAttrGet(context: MlirContext, is_reduction: bool) -> MlirAttribute;
    pub fn dynamoIteratorTypeAttrIsReduction(attr: MlirAttribute) -> bool;
    pub fn dynamoFastmathAttrToLLVM(context: MlirContext, flags: MlirAttribute, no_signed_zeros: bool) -> MlirAttribute;
    pub fn dynamoEnumAttrGet(context: MlirContext, mnemonic: MlirStringRef, value: i64) -> MlirAttribute;
    pub fn dynamoEnumAttrGetValue(attr: MlirAttribute, mnemonic: MlirStringRef) -> i64;
    pub fn dynamoTargetAttrGet(context: MlirContext, parts: *const TargetParts) -> MlirAttribute;
    pub fn dynamoTargetAttrGetParts(attr: MlirAttribute, parts: *mut TargetParts) -> bool;
    pub fn dynamoFormatAttrGet(context: MlirContext) -> MlirAttribute;
    pub fn dynamoModuleParse(context: MlirContext, text: MlirStringRef, file: MlirStringRef) -> MlirModule;
    pub fn dynamoDataLayout(triple: MlirStringRef, user_data: *mut c_void, take: unsafe extern "C" fn(MlirStringRef, *mut c_void));
    pub fn dynamoOperationDropReferences(op: MlirOperation);
    pub fn dynamoOperationIsElementwise(op: MlirOperation) -> bool;
    pub fn dynamoOperationIsPure(op: MlirOperation) -> bool;
    pub fn dynamoRegisterPass(pass: *const PassDeclaration);
    pub fn dynamoRegisterPipeline(
        name: MlirStringRef,
        description: MlirStringRef,
        passes: MlirStringRef,
        options: *const Declaration,
        num_options: isize,
    );
    pub fn dynamoPassManagerNoteTimes(manager: MlirPassManager, note: PassTimeCallback, user_data: *mut c_void);
    pub fn dynamoSetLoopStrengthReduction(enabled: bool) -> bool;
    pub fn dynamoFindDeepNesting(text: MlirStringRef) -> isize;
    pub fn dynamoRegisterAllOfUpstream(registry: MlirDialectRegistry);
    pub fn dynamoOptMain(argc: c_int, argv: *mut *mut c_char, registry: MlirDialectRegistry) -> c_int;
    pub fn dynamoLspServerMain(argc: c_int, argv: *mut *mut c_char, registry: MlirDialectRegistry) -> c_int;
    pub fn dynamoSetVersion(tool: MlirStringRef, version: MlirStringRef);
}
