//! Operations, blocks, regions and values.

use std::hash::{Hash, Hasher};

use mlir_sys::*;

use super::{Attr, AttrValue, Ctx, Loc, Type, print, retired, str_ref, to_string};
use crate::ffi;

/// An operation.
#[derive(Clone, Copy)]
pub struct Op(pub(crate) MlirOperation);
/// An SSA value: an operation's result or a block's argument.
#[derive(Clone, Copy)]
pub struct Value(pub(crate) MlirValue);
/// A block.
#[derive(Clone, Copy)]
pub struct Block(pub(crate) MlirBlock);
/// A region.
#[derive(Clone, Copy)]
pub struct Region(pub(crate) MlirRegion);

/// One use of a value: the using operation and the number of its operand.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The user.
    pub op: Op,
    /// Operand number.
    pub index: usize,
}

macro_rules! identity {
    ($name:ident) => {
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.ptr == other.0.ptr
            }
        }
        impl Eq for $name {}
        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.ptr.hash(state);
            }
        }
    };
}
identity!(Op);
identity!(Value);
identity!(Block);

// SAFETY of every block below: handles are live by the module's contract; indices are below the counts that MLIR reports; strings are
// borrowed for the call and copied by MLIR.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl Op {
    /// Wraps a raw operation, which must be live.
    pub(crate) fn from_raw(raw: MlirOperation) -> Self {
        Self(raw)
    }
    /// The raw handle.
    pub fn raw(self) -> MlirOperation {
        self.0
    }
    /// The context.
    pub fn ctx(self) -> Ctx {
        Ctx(unsafe { mlirOperationGetContext(self.0) })
    }
    /// `dialect.op`.
    pub fn name(self) -> String {
        to_string(unsafe { mlirIdentifierStr(mlirOperationGetName(self.0)) })
    }
    /// Returns true if the operation has this name.
    pub fn is(self, name: &str) -> bool {
        self.name_bytes() == name.as_bytes()
    }
    /// Returns true if it is an operation of this dialect.
    pub fn is_of(self, dialect: &str) -> bool {
        self.name_bytes().strip_prefix(dialect.as_bytes()).is_some_and(|rest| rest.starts_with(b"."))
    }
    /// Calls `look` with its name, without a copy.
    pub(crate) fn with_name<T>(self, look: impl FnOnce(&str) -> T) -> T {
        look(std::str::from_utf8(self.name_bytes()).unwrap_or_default())
    }
    /// The name as stored in the context, without a copy: passes query it for every operation.
    fn name_bytes(&self) -> &[u8] {
        let s = unsafe { mlirIdentifierStr(mlirOperationGetName(self.0)) };
        unsafe { std::slice::from_raw_parts(s.data.cast::<u8>(), s.length) }
    }
    /// Returns true if it has the Elementwise trait.
    pub fn is_elementwise(self) -> bool {
        unsafe { ffi::dynamoOperationIsElementwise(self.0) }
    }
    /// Returns true if it does not have side effects.
    pub fn is_pure(self) -> bool {
        unsafe { ffi::dynamoOperationIsPure(self.0) }
    }
    /// The location.
    pub fn loc(self) -> Loc {
        Loc(unsafe { mlirOperationGetLocation(self.0) })
    }
    /// Number of operands.
    pub fn num_operands(self) -> usize {
        unsafe { mlirOperationGetNumOperands(self.0) as usize }
    }
    /// Operand `i`.
    ///
    /// # Panics
    /// If the operation has been erased, or has fewer operands.
    pub fn operand(self, i: usize) -> Value {
        assert!(i < self.num_operands(), "{} has no operand {i}", self.name());
        let raw = unsafe { mlirOperationGetOperand(self.0, i as isize) };
        assert!(!raw.ptr.is_null(), "{} has been erased", self.name());
        Value(raw)
    }
    /// All operands.
    pub fn operands(self) -> Vec<Value> {
        (0..self.num_operands()).map(|i| self.operand(i)).collect()
    }
    /// Replaces operand `i`.
    pub fn set_operand(self, i: usize, value: Value) {
        unsafe { mlirOperationSetOperand(self.0, i as isize, value.0) }
    }
    /// Number of results.
    pub fn num_results(self) -> usize {
        unsafe { mlirOperationGetNumResults(self.0) as usize }
    }
    /// Result `i`.
    ///
    /// # Panics
    /// If the operation has fewer results.
    pub fn result(self, i: usize) -> Value {
        assert!(i < self.num_results(), "{} has no result {i}", self.name());
        Value(unsafe { mlirOperationGetResult(self.0, i as isize) })
    }
    /// All results.
    pub fn results(self) -> Vec<Value> {
        (0..self.num_results()).map(|i| self.result(i)).collect()
    }
    /// An attribute or inherent property by name.
    pub fn attr(self, name: &str) -> Option<Attr> {
        let raw = unsafe { mlirOperationGetAttributeByName(self.0, str_ref(name)) };
        (!raw.ptr.is_null()).then_some(Attr(raw))
    }
    /// An attribute that the operation's definition requires.
    ///
    /// # Panics
    /// If the operation is not one that its verifier accepts.
    pub fn required<T: AttrValue>(self, name: &str) -> T {
        self.optional(name).unwrap_or_else(|| panic!("{} lacks its attribute {name}", self.name()))
    }
    /// An attribute that may be missing.
    pub fn optional<T: AttrValue>(self, name: &str) -> Option<T> {
        T::read(self.attr(name)?)
    }
    /// The range of operands in segment `index` of the definition, for operations with an attribute of segment sizes.
    pub(crate) fn segment(self, index: usize) -> std::ops::Range<usize> {
        let sizes = self.attr("operandSegmentSizes").and_then(Attr::as_i32s).unwrap_or_default();
        let end = |names: &[i32]| names.iter().map(|size| *size as usize).sum::<usize>();
        end(&sizes[..index])..end(&sizes[..=index])
    }
    /// The integer list of an attribute.
    pub fn attr_i64s(self, name: &str) -> Option<Vec<i64>> {
        self.attr(name)?.as_i64s()
    }
    /// The integer of an attribute.
    pub fn attr_i64(self, name: &str) -> Option<i64> {
        self.attr(name)?.as_i64()
    }
    /// The string of an attribute.
    pub fn attr_str(self, name: &str) -> Option<String> {
        self.attr(name)?.as_str()
    }
    /// All attributes.
    pub fn attrs(self) -> Vec<(String, Attr)> {
        (0..unsafe { mlirOperationGetNumAttributes(self.0) })
            .map(|i| unsafe { mlirOperationGetAttribute(self.0, i) })
            .map(|named| (to_string(unsafe { mlirIdentifierStr(named.name) }), Attr(named.attribute)))
            .collect()
    }
    /// Sets an attribute or inherent property.
    pub fn set_attr(self, name: &str, attr: Attr) {
        unsafe { mlirOperationSetAttributeByName(self.0, str_ref(name), attr.0) }
    }
    /// Removes an attribute; returns true if it was present.
    pub fn remove_attr(self, name: &str) -> bool {
        unsafe { mlirOperationRemoveAttributeByName(self.0, str_ref(name)) }
    }
    /// `sym_name`.
    pub fn symbol(self) -> Option<String> {
        self.attr_str("sym_name")
    }
    /// Number of regions.
    pub fn num_regions(self) -> usize {
        unsafe { mlirOperationGetNumRegions(self.0) as usize }
    }
    /// Region `i`.
    pub fn region(self, i: usize) -> Region {
        Region(unsafe { mlirOperationGetRegion(self.0, i as isize) })
    }
    /// First block of region 0 (a module's or function's body), if there is one.
    pub fn body(self) -> Option<Block> {
        if self.num_regions() == 0 {
            return None;
        }
        let raw = unsafe { mlirRegionGetFirstBlock(self.region(0).0) };
        (!raw.ptr.is_null()).then_some(Block(raw))
    }
    /// The block that contains the operation.
    pub fn block(self) -> Option<Block> {
        let raw = unsafe { mlirOperationGetBlock(self.0) };
        (!raw.ptr.is_null()).then_some(Block(raw))
    }
    /// The enclosing operation.
    pub fn parent(self) -> Option<Self> {
        let raw = unsafe { mlirOperationGetParentOperation(self.0) };
        (!raw.ptr.is_null()).then_some(Self(raw))
    }
    /// The next operation in the block.
    pub fn next(self) -> Option<Self> {
        let raw = unsafe { mlirOperationGetNextInBlock(self.0) };
        (!raw.ptr.is_null()).then_some(Self(raw))
    }
    /// Erases the operation. Its memory stays until the pass is over ([`super::retired`]); accessing an operand of it panics.
    ///
    /// # Panics
    /// If a result has uses.
    pub fn erase(self) {
        assert!(self.is_unused(), "{} is erased although it is used", self.name());
        retired::retire(self.0);
    }
    /// Removes the operation from its block, to be inserted elsewhere.
    pub fn detach(self) {
        unsafe { mlirOperationRemoveFromParent(self.0) }
    }
    /// Moves it before `other`.
    ///
    /// # Panics
    /// If `other` is not in a block.
    pub fn move_before(self, other: Self) {
        assert!(other.block().is_some(), "{} is in no block", other.name());
        unsafe { mlirOperationMoveBefore(self.0, other.0) }
    }
    /// Moves it after `other`.
    ///
    /// # Panics
    /// If `other` is not in a block.
    pub fn move_after(self, other: Self) {
        assert!(other.block().is_some(), "{} is in no block", other.name());
        unsafe { mlirOperationMoveAfter(self.0, other.0) }
    }
    /// A deep copy, detached.
    pub fn clone_detached(self) -> Self {
        Self(unsafe { mlirOperationClone(self.0) })
    }
    /// Returns true if no result has a use.
    pub fn is_unused(self) -> bool {
        self.results().iter().all(|r| !r.has_uses())
    }
    /// Runs the verifiers; diagnostics go to the context's handlers.
    pub fn verify(self) -> bool {
        unsafe { mlirOperationVerify(self.0) }
    }
    /// Emits an error diagnostic at the operation.
    pub fn emit_error(self, message: &str) {
        let text = std::ffi::CString::new(message.replace('\0', " ")).unwrap_or_default();
        unsafe { mlirEmitError(self.loc().0, text.as_ptr()) }
    }
    /// Visits this operation and all operations inside, outermost first.
    pub fn walk(self, visit: &mut dyn FnMut(Self)) {
        visit(self);
        for i in 0..self.num_regions() {
            for block in self.region(i).blocks() {
                for op in block.ops() {
                    op.walk(visit);
                }
            }
        }
    }
    /// The operation's text, without locations. It does not depend on anything around the function: numbering starts at the function, and
    /// attributes are written out.
    pub fn text(self) -> String {
        print(|cb, data| unsafe {
            let flags = mlirOpPrintingFlagsCreate();
            // Without locations, even if the command line asks for them: the text is compared.
            mlirOpPrintingFlagsEnableDebugInfo(flags, false, false);
            mlirOpPrintingFlagsUseLocalScope(flags);
            mlirOperationPrintWithFlags(self.0, flags, cb, data);
            mlirOpPrintingFlagsDestroy(flags);
        })
    }
    /// The operation in MLIR's binary form, locations included; [`crate::Session::read`] reads it.
    pub fn bytecode(self) -> Vec<u8> {
        unsafe extern "C" fn append(part: MlirStringRef, bytes: *mut std::ffi::c_void) {
            let part = unsafe { std::slice::from_raw_parts(part.data.cast::<u8>(), part.length) };
            unsafe { &mut *bytes.cast::<Vec<u8>>() }.extend_from_slice(part);
        }
        let mut bytes = Vec::new();
        unsafe { mlirOperationWriteBytecode(self.0, Some(append), (&raw mut bytes).cast()) };
        bytes
    }
    /// The operation's text with locations.
    pub fn text_with_locations(self) -> String {
        print(|cb, data| unsafe {
            let flags = mlirOpPrintingFlagsCreate();
            mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
            mlirOperationPrintWithFlags(self.0, flags, cb, data);
            mlirOpPrintingFlagsDestroy(flags);
        })
    }
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

// SAFETY: as for `Op`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl Value {
    /// The raw handle.
    pub fn raw(self) -> MlirValue {
        self.0
    }
    /// The type.
    pub fn ty(self) -> Type {
        Type(unsafe { mlirValueGetType(self.0) })
    }
    /// Changes the type in place (function boundaries, bufferization).
    pub fn set_type(self, ty: Type) {
        unsafe { mlirValueSetType(self.0, ty.0) }
    }
    /// Changes the location of a block argument.
    ///
    /// # Panics
    /// If it is an operation's result.
    pub fn set_loc(self, loc: Loc) {
        assert!(self.arg_index().is_some(), "an operation's result has its operation's location");
        unsafe { mlirBlockArgumentSetLocation(self.0, loc.0) }
    }
    /// The operation that defines it; `None` for a block argument.
    pub fn def(self) -> Option<Op> {
        unsafe { mlirValueIsAOpResult(self.0).then(|| Op(mlirOpResultGetOwner(self.0))) }
    }
    /// Its number among the results of its operation; `None` for a block argument.
    pub fn result_index(self) -> Option<usize> {
        unsafe { mlirValueIsAOpResult(self.0).then(|| mlirOpResultGetResultNumber(self.0) as usize) }
    }
    /// Its number among the arguments of its block; `None` for an operation's result.
    pub fn arg_index(self) -> Option<usize> {
        unsafe { mlirValueIsABlockArgument(self.0).then(|| mlirBlockArgumentGetArgNumber(self.0) as usize) }
    }
    /// All uses, in no particular order.
    pub fn uses(self) -> Vec<Use> {
        let mut uses = Vec::new();
        let mut next = unsafe { mlirValueGetFirstUse(self.0) };
        while !next.ptr.is_null() {
            uses.push(Use {
                op: Op(unsafe { mlirOpOperandGetOwner(next) }),
                index: unsafe { mlirOpOperandGetOperandNumber(next) } as usize,
            });
            next = unsafe { mlirOpOperandGetNextUse(next) };
        }
        uses
    }
    /// Returns true if anything uses it.
    pub fn has_uses(self) -> bool {
        !unsafe { mlirValueGetFirstUse(self.0) }.ptr.is_null()
    }
    /// Replaces every use.
    pub fn replace_all_uses_with(self, other: Self) {
        unsafe { mlirValueReplaceAllUsesOfWith(self.0, other.0) }
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the callback appends to a string that outlives the call.
        f.write_str(&print(|cb, data| unsafe { mlirValuePrint(self.0, cb, data) }))
    }
}

// SAFETY: as for `Op`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl Block {
    /// A new, detached block with these arguments.
    pub fn new(args: &[(Type, Loc)]) -> Self {
        let types: Vec<_> = args.iter().map(|(t, _)| t.0).collect();
        let locs: Vec<_> = args.iter().map(|(_, l)| l.0).collect();
        Self(unsafe { mlirBlockCreate(types.len() as isize, types.as_ptr(), locs.as_ptr()) })
    }
    /// The raw handle.
    pub fn raw(self) -> MlirBlock {
        self.0
    }
    /// All operations, first to last (a snapshot: safe to edit the block while iterating).
    pub fn ops(self) -> Vec<Op> {
        let mut ops = Vec::new();
        let mut next = unsafe { mlirBlockGetFirstOperation(self.0) };
        while !next.ptr.is_null() {
            ops.push(Op(next));
            next = unsafe { mlirOperationGetNextInBlock(next) };
        }
        ops
    }
    /// The terminator.
    pub fn terminator(self) -> Option<Op> {
        let raw = unsafe { mlirBlockGetTerminator(self.0) };
        (!raw.ptr.is_null()).then_some(Op(raw))
    }
    /// All arguments.
    pub fn args(self) -> Vec<Value> {
        (0..unsafe { mlirBlockGetNumArguments(self.0) }).map(|i| Value(unsafe { mlirBlockGetArgument(self.0, i) })).collect()
    }
    /// Adds an argument.
    pub fn add_arg(self, ty: Type, loc: Loc) -> Value {
        Value(unsafe { mlirBlockAddArgument(self.0, ty.0, loc.0) })
    }
    /// Appends a detached operation.
    ///
    /// # Panics
    /// If it is in a block.
    pub fn append(self, op: Op) {
        assert!(op.block().is_none(), "{} is in a block", op.name());
        unsafe { mlirBlockAppendOwnedOperation(self.0, op.0) }
    }
    /// Inserts a detached operation before `before`, which is in this block.
    ///
    /// # Panics
    /// If `op` is in a block, or `before` is not in this one.
    pub fn insert_before(self, before: Op, op: Op) {
        assert!(op.block().is_none(), "{} is in a block", op.name());
        assert!(before.block() == Some(self), "{} is not in this block", before.name());
        unsafe { mlirBlockInsertOwnedOperationBefore(self.0, before.0, op.0) }
    }
    /// Inserts a detached operation at the beginning.
    ///
    /// # Panics
    /// If it is in a block.
    pub fn prepend(self, op: Op) {
        assert!(op.block().is_none(), "{} is in a block", op.name());
        unsafe { mlirBlockInsertOwnedOperation(self.0, 0, op.0) }
    }
    /// The operation that contains the block.
    pub fn parent(self) -> Option<Op> {
        let raw = unsafe { mlirBlockGetParentOperation(self.0) };
        (!raw.ptr.is_null()).then_some(Op(raw))
    }
}

// SAFETY: as for `Op`.
#[expect(clippy::undocumented_unsafe_blocks, reason = "said once, above")]
impl Region {
    /// The blocks, first to last.
    pub fn blocks(self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut next = unsafe { mlirRegionGetFirstBlock(self.0) };
        while !next.ptr.is_null() {
            blocks.push(Block(next));
            next = unsafe { mlirBlockGetNextInRegion(next) };
        }
        blocks
    }
    /// Appends a detached block.
    pub fn append(self, block: Block) {
        unsafe { mlirRegionAppendOwnedBlock(self.0, block.0) }
    }
}
