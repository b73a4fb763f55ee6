//===- PlannedVerifiers.cpp - Calls, launches and buffers -----------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of `dynamo.aten` and of the ops after outlining and planning. The
// runtime executes the planned ones by their types alone: a launch passes bare
// addresses, so its operands must be exactly those that the kernel was compiled
// for.
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dynamlir::dynamo;

//===----------------------------------------------------------------------===//
// Calls of ATen operators
//===----------------------------------------------------------------------===//

/// Checks that every `#dynamo.operand<i>` in `attr`, at any depth, is in range; records the used ones.
static LogicalResult checkOperandRefs(Operation *op, Attribute attr, int64_t count, llvm::SmallBitVector &used) {
  if (auto operand = dyn_cast<OperandAttr>(attr)) {
    if (operand.getIndex() < 0 || operand.getIndex() >= count)
      return op->emitOpError() << "args name operand " << operand.getIndex() << " of " << count;
    used.set(operand.getIndex());
  }
  if (auto array = dyn_cast<ArrayAttr>(attr))
    for (Attribute element : array)
      if (failed(checkOperandRefs(op, element, count, used)))
        return failure();
  return success();
}

/// The checks shared by `dynamo.aten` and `dynamo.extern`: the schema's form, and that `args` refer to each of `count`
/// operands.
static LogicalResult checkCall(Operation *op, StringRef schema, Attribute args, int64_t count) {
  SmallVector<StringRef> parts;
  schema.split(parts, '.');
  if (parts.size() != 3 || schema.contains("::") || llvm::any_of(parts, [](StringRef part) { return part.empty(); }))
    return op->emitOpError() << "expected a schema 'namespace.op.overload', got '" << schema << "'";
  llvm::SmallBitVector used(count);
  if (failed(checkOperandRefs(op, args, count, used)))
    return failure();
  if (!used.all())
    return op->emitOpError() << "operand " << used.find_first_unset() << " is named by no argument";
  return success();
}

/// Checks the strides of each tensor in eager: one per dimension, none negative.
static LogicalResult checkLayouts(Operation *op, StringRef name, ArrayAttr layouts, TypeRange types) {
  if (!layouts)
    return success();
  for (auto [layout, type] : llvm::zip_equal(layouts, types)) {
    auto shaped = dyn_cast<ShapedType>(type);
    size_t rank = shaped ? shaped.getRank() : cast<MutableTensorType>(type).getSizes().size();
    bool fits = isa<DenseI64ArrayAttr, SizesAttr>(layout) && countSizes(layout) == rank &&
                llvm::none_of(sizesOf(layout), [](Size stride) { return stride.isNegative(); });
    if (!fits)
      return op->emitOpError() << "'" << name << "' has " << layout << " for " << type;
  }
  return success();
}

/// Checks code that may replace a call: it uses values from outside, and returns the types that the call returns.
static LogicalResult checkCode(AtenOp op, Region &code) {
  Block &block = code.front();
  if (block.getNumArguments() != 0)
    return op.emitOpError() << "its code uses values from around: expected no block arguments";
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getOperandTypes() != op.getResultTypes())
    return op.emitOpError() << "its code must end in dynamo.yield of the results' types";
  return success();
}

LogicalResult AtenOp::verify() {
  if (getBodies().size() > 1)
    return emitOpError() << "expected the code of one body, got " << getBodies().size();
  for (Region &code : getBodies())
    if (failed(checkCode(*this, code)))
      return failure();
  int64_t count = getInputs().size();
  if (failed(checkCall(*this, getSchema(), getArgs(), count)))
    return failure();
  auto perResult = [&](StringRef name, std::optional<size_t> size, size_t expected) -> LogicalResult {
    if (size && *size != expected)
      return emitOpError() << "expected " << expected << " entries in '" << name << "', got " << *size;
    return success();
  };
  auto sizeOf = [](auto attr) { return attr ? std::optional<size_t>(attr->size()) : std::nullopt; };
  if (failed(perResult("aliases", sizeOf(getAliases()), getNumResults())) ||
      failed(perResult("operand_strides", sizeOf(getOperandStrides()), count)) ||
      failed(perResult("result_strides", sizeOf(getResultStrides()), getNumResults())))
    return failure();
  if (failed(checkLayouts(*this, "operand_strides", getOperandStridesAttr(), getInputs().getTypes())) ||
      failed(checkLayouts(*this, "result_strides", getResultStridesAttr(), getOutputs().getTypes())))
    return failure();
  for (int64_t index : getMutates().value_or(ArrayRef<int64_t>{}))
    if (index < 0 || index >= count)
      return emitOpError() << "'mutates' names operand " << index << " of " << count;
  for (int64_t index : getAliases().value_or(ArrayRef<int64_t>{}))
    if (index < -1 || index >= count)
      return emitOpError() << "'aliases' names operand " << index << " of " << count;
  return success();
}

/// Checks that each static number of a memref equals the separately given size.
static LogicalResult verifySaid(Operation *op, StringRef name, ArrayRef<int64_t> numbers, Attribute said, Type type) {
  if (!isa<SizesAttr, DenseI64ArrayAttr>(said))
    return op->emitOpError() << "expected sizes in '" << name << "', got " << said;
  SizeList list = sizesOf(said);
  if (list.size() != numbers.size())
    return op->emitOpError() << "expected a number of '" << name << "' per dimension of " << type << ", got " << said;
  for (auto [size, number] : llvm::zip_equal(list, numbers))
    if (size.getNumber() != number)
      return op->emitOpError() << "its '" << name << "' are " << sizesToString(list) << ", and in its type "
                               << sizesToString(sizesOf(numbers));
  return verifyNotNegative(op, "'" + Twine(name) + "'", list);
}

LogicalResult ExternOp::verify() {
  if (!getOuts().empty() && getNumResults() != 0)
    return emitOpError() << "expected either outs or results";
  for (auto [name, lists] : {std::pair(StringRef("sizes"), getSizes()), std::pair(StringRef("strides"), getStrides())}) {
    if (!lists)
      continue;
    if (lists->size() != getNumResults())
      return emitOpError() << "expected '" << name << "' of each result, got " << *lists;
    for (auto [type, said] : llvm::zip_equal(getOutputs().getTypes(), *lists)) {
      int64_t offset;
      SmallVector<int64_t> strides;
      (void)cast<MemRefType>(type).getStridesAndOffset(strides, offset);
      ArrayRef<int64_t> numbers = name == "sizes" ? cast<MemRefType>(type).getShape() : ArrayRef(strides);
      if (failed(verifySaid(*this, name, numbers, said, type)))
        return failure();
    }
  }
  return checkCall(*this, getSchema(), getArgs(), getInputs().size());
}

LogicalResult CheckRangeOp::verify() {
  SmallVector<Type> expected;
  Type type = getOperand().getType();
  if (isa<RankedTensorType>(type))
    expected.push_back(type);
  if (getChecked().getTypes() != ArrayRef(expected))
    return emitOpError() << "returns its operand if that is a tensor, else nothing";
  if (!cast<ShapedType>(type).getElementType().isInteger(64))
    return emitOpError() << "expected indices of type i64, got " << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  bool tensors = llvm::any_of(getInputs().getTypes(), llvm::IsaPred<TensorType>);
  bool memrefs = llvm::any_of(getInputs().getTypes(), llvm::IsaPred<MemRefType>);
  if (tensors && memrefs)
    return emitOpError() << "expected operands that are all tensors or all memrefs";
  if (memrefs && getNumResults() != 0)
    return emitOpError() << "on memrefs has no results: the last operands are written";
  if (getSizes() && !memrefs)
    return emitOpError() << "hands sizes to a kernel on memrefs only: the types of tensors say them";
  SymbolRefAttr kernel = getKernel();
  if (kernel.getRootReference() != "kernels" || kernel.getNestedReferences().size() != 1)
    return emitOpError() << "expected a function of module @kernels, got " << kernel;
  return success();
}

/// The type that a torch element type has in a kernel's memory: bool is a byte, and kernels do not have unsigned types.
static Type memoryType(Type element) {
  if (element.isInteger(1) || element.isUnsignedInteger(8))
    return IntegerType::get(element.getContext(), 8);
  return element;
}

/// Returns true if a kernel compiled for `taken` accepts `given`: the same elements at the same distances from element
/// 0. With `open` sizes, which are passed to the kernel, `?` fits `?`.
static bool isTakenFor(MemRefType given, MemRefType taken, bool open) {
  if ((!open && !given.hasStaticShape()) || given.getShape() != taken.getShape() ||
      memoryType(given.getElementType()) != taken.getElementType() ||
      given.getMemorySpace() != taken.getMemorySpace())
    return false;
  int64_t givenOffset, takenOffset;
  SmallVector<int64_t> givenStrides, takenStrides;
  if (failed(given.getStridesAndOffset(givenStrides, givenOffset)) ||
      failed(taken.getStridesAndOffset(takenStrides, takenOffset)) || takenOffset != 0)
    return false;
  for (auto [size, ours, theirs] : llvm::zip_equal(given.getShape(), givenStrides, takenStrides)) {
    if (size == 0)
      return true;
    if (size != 1 && (ours != theirs || (!open && ShapedType::isDynamic(ours))))
      return false;
  }
  return true;
}

/// The memrefs that a kernel takes: those in `dynamo.signature`, or, as long as it is missing, the kernel's own
/// argument types.
static SmallVector<Type> takenMemRefs(FunctionOpInterface kernel) {
  auto signature = kernel->getAttrOfType<TypeAttr>("dynamo.signature");
  auto type = signature ? dyn_cast<FunctionType>(signature.getValue()) : FunctionType();
  if (!type)
    return llvm::to_vector(kernel.getArgumentTypes());
  SmallVector<Type> types(type.getInputs());
  llvm::append_range(types, type.getResults());
  return types;
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = dyn_cast_or_null<FunctionOpInterface>(symbols.lookupNearestSymbolFrom(*this, getKernel()));
  if (!kernel)
    return emitOpError() << "there is no kernel " << getKernel();
  auto differs = [&](Twine what) -> LogicalResult {
    InFlightDiagnostic diag = emitOpError() << what;
    diag.attachNote(kernel.getLoc()) << "the kernel is here";
    return diag;
  };
  bool memrefs = llvm::any_of(getInputs().getTypes(), llvm::IsaPred<MemRefType>);
  SmallVector<Type> taken = llvm::to_vector(kernel.getArgumentTypes());
  // Without operands, only the kernel determines which form this is.
  bool planned = memrefs || (getInputs().empty() && getNumResults() == 0);
  if (planned) {
    // They are followed by sizes: `index`, or the type it becomes on the way to LLVM.
    taken = takenMemRefs(kernel);
    ArrayRef<Type> arguments = kernel.getArgumentTypes();
    size_t memory = taken.size() - llvm::count_if(taken, [](Type type) { return type.isIndex(); });
    size_t sizes = arguments.size() - std::min(memory, arguments.size()), given = getSizes() ? countSizes(*getSizes()) : 0;
    taken.resize(memory);
    if (sizes != given)
      return differs("hands over " + Twine(given) + " sizes, its kernel takes " + Twine(sizes));
  }
  if (taken.size() != getInputs().size())
    return differs("has " + Twine(getInputs().size()) + " operands, its kernel takes " + Twine(taken.size()));
  for (auto [i, given, expected] : llvm::enumerate(getInputs().getTypes(), taken)) {
    auto memref = dyn_cast<MemRefType>(given);
    auto expectedMemRef = dyn_cast<MemRefType>(expected);
    bool open = static_cast<bool>(getSizes());
    bool fits = memref ? expectedMemRef && isTakenFor(memref, expectedMemRef, open) : given == expected;
    if (fits)
      continue;
    if (memref && expectedMemRef && !open && isTakenFor(memref, expectedMemRef, true))
      return differs("operand " + Twine(i) + " has sizes or strides that are not numbers, which a launch hands over as 'sizes'");
    InFlightDiagnostic diag = emitOpError() << "operand " << i << " is " << given << ", its kernel takes " << expected;
    diag.attachNote(kernel.getLoc()) << "the kernel is here";
    return diag;
  }
  if (TypeRange(kernel.getResultTypes()) != TypeRange(getOutputs().getTypes()))
    return differs("expected the result types of its kernel");
  if (getSizes() && failed(verifyNotNegative(*this, "'sizes'", sizesOf(*getSizes()))))
    return failure();
  // Before planning, a kernel's symbols are those of its launches.
  auto own = kernel->getAttrOfType<ArrayAttr>("dynamo.symbols");
  auto function = (*this)->getParentOfType<FunctionOpInterface>();
  auto ours = function ? function->getAttrOfType<ArrayAttr>("dynamo.symbols") : ArrayAttr();
  if (planned || !own || !ours)
    return success();
  for (Attribute of : own)
    for (Attribute here : ours) {
      auto symbol = dyn_cast<SizeSymbolAttr>(of), launched = dyn_cast<SizeSymbolAttr>(here);
      if (symbol && launched && symbol.getNumber() == launched.getNumber() &&
          (symbol.getMin() > launched.getMin() || symbol.getMax() < launched.getMax() || launched.getDivisor() % symbol.getDivisor() != 0))
        return differs("its kernel takes more for granted of s" + Twine(symbol.getNumber()) + " than is declared here");
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {
/// The elements that a window reaches, counted from its base: the lowest, and
/// the highest plus one.
struct Reach {
  int64_t low, high;
};
} // namespace

static bool addProduct(int64_t &sum, int64_t a, int64_t b) {
  int64_t product;
  return !llvm::MulOverflow(a, b, product) && !llvm::AddOverflow(sum, product, sum);
}

/// The elements that a memref reaches. `overflow` is set if a number overflows; nothing if it reaches no elements or
/// the type does not determine them.
static std::optional<Reach> reachOf(MemRefType type, bool &overflow) {
  int64_t offset;
  SmallVector<int64_t> strides;
  if (!type.hasStaticShape() || failed(type.getStridesAndOffset(strides, offset)) || ShapedType::isDynamic(offset) ||
      llvm::any_of(strides, ShapedType::isDynamic) || llvm::is_contained(type.getShape(), 0))
    return std::nullopt;
  Reach reach{offset, offset};
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides))
    overflow |= !addProduct(stride < 0 ? reach.low : reach.high, size - 1, stride);
  overflow |= llvm::AddOverflow(reach.high, int64_t(1), reach.high);
  return reach;
}

static int64_t bytesOf(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element))
    return 2 * bytesOf(complex.getElementType());
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

LogicalResult WorkspaceOp::verify() {
  bool known = getResult().getType().hasStaticShape();
  if (known && getBytes())
    return emitOpError() << "says how many bytes it has in its type: 'bytes' is for an expression";
  if (!known && (!getBytes() || !isa<ExprAttr>(*getBytes())))
    return emitOpError() << "expected a number of bytes, got " << getResult().getType();
  return known ? success() : verifyNotNegative(*this, "the number of bytes", Size::of(*getBytes()));
}

/// Checks that `sizes` and `strides` have an expression where the type has `?`, and the same number where it has a
/// number. They may be omitted: sizes if nothing determines them, strides if the layout does.
static LogicalResult verifyOpen(Operation *op, MemRefType type, std::optional<Attribute> sizes, std::optional<Attribute> strides) {
  int64_t offset;
  SmallVector<int64_t> layout;
  if (failed(type.getStridesAndOffset(layout, offset)))
    return op->emitOpError() << "expected strides";
  for (auto [name, given, numbers] : {std::tuple("sizes", sizes, type.getShape()), std::tuple("strides", strides, ArrayRef(layout))}) {
    if (!given)
      continue;
    auto symbolic = dyn_cast<SizesAttr>(*given);
    if (!symbolic)
      return op->emitOpError() << "has '" << name << "' without an expression: its type says them";
    SizeList list = sizesOf(Attribute(symbolic));
    if (list.size() != numbers.size())
      return op->emitOpError() << "expected a number of '" << name << "' per dimension of " << type << ", got " << symbolic;
    for (auto [size, number] : llvm::zip_equal(list, numbers))
      if (size.getNumber() != number)
        return op->emitOpError() << "its '" << name << "' are " << sizesToString(list) << ", and in its type "
                                 << sizesToString(sizesOf(numbers));
  }
  if (strides && !sizes && !type.hasStaticShape())
    return op->emitOpError() << "has 'strides' that are expressions, and no 'sizes'";
  for (auto [name, given] : {std::pair("sizes", sizes), std::pair("strides", strides)})
    if (given && failed(verifyNotNegative(op, "'" + Twine(name) + "'", sizesOf(*given))))
      return failure();
  bool isOpen = sizes && llvm::any_of(layout, ShapedType::isDynamic) && !type.getLayout().isIdentity();
  if (isOpen && !strides)
    return op->emitOpError() << "expected 'strides': its layout is not row-major";
  return success();
}

/// Sizes and strides of a buffer, with `?` where nothing determines them.
static std::pair<SizeList, SizeList> openWindow(MemRefType type, std::optional<Attribute> sizes, std::optional<Attribute> strides) {
  int64_t offset;
  SmallVector<int64_t> layout;
  (void)type.getStridesAndOffset(layout, offset);
  SizeList shape = sizes ? sizesOf(*sizes) : sizesOf(type.getShape());
  if (strides || !type.getLayout().isIdentity())
    return {shape, strides ? sizesOf(*strides) : sizesOf(ArrayRef(layout))};
  SizeList rowMajor(shape.size(), Size(1));
  for (size_t dim = shape.size(); dim-- > 1;)
    rowMajor[dim - 1] = multiply(rowMajor[dim], shape[dim]).value_or(ShapedType::kDynamic);
  return {shape, rowMajor};
}

/// The byte after the last that a buffer with symbolic sizes reaches; nothing if it cannot be represented.
static std::optional<Size> endOf(BufferOp op, Size start, int64_t width) {
  auto [sizes, strides] = openWindow(cast<MemRefType>(op.getResult().getType()), op.getSizes(), op.getStrides());
  std::optional<Size> elements = Size(1);
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    std::optional<Size> steps = add(size, -1);
    std::optional<Size> distance = steps ? multiply(*steps, stride) : std::nullopt;
    elements = elements && distance ? add(*elements, *distance) : std::nullopt;
  }
  std::optional<Size> bytes = elements ? multiply(*elements, width) : std::nullopt;
  return bytes ? add(start, *bytes) : std::nullopt;
}

/// Checks like `BufferOp::verify` that a buffer fits the workspace, if a size is an expression.
static LogicalResult verifyOpenBuffer(BufferOp op, int64_t width) {
  Size start = Size::of(op.getByteOffset());
  auto [sizes, strides] = openWindow(cast<MemRefType>(op.getResult().getType()), op.getSizes(), op.getStrides());
  // Ensures that nothing lies before the start.
  if (failed(verifyNotNegative(op, "'strides'", strides)))
    return failure();
  std::optional<Size> end = endOf(op, start, width);
  if (!end)
    return op.emitOpError() << "reaches beyond any workspace";
  auto workspace = op.getWorkspace().getDefiningOp<WorkspaceOp>();
  Size room = cast<MemRefType>(op.getWorkspace().getType()).getDimSize(0);
  if (workspace && workspace.getBytes())
    room = Size::of(*workspace.getBytes());
  // A window that may be empty need not reach anything.
  bool some = llvm::all_of(sizes, [&](Size size) { return decide(op, 0, Relation::less, size) == true; });
  if (some && decide(op, room, Relation::less, *end) == true)
    return op.emitOpError() << "reaches byte " << end->str() << " of a workspace of " << room.str();
  return success();
}

LogicalResult BufferOp::verify() {
  auto type = cast<MemRefType>(getResult().getType()), workspace = cast<MemRefType>(getWorkspace().getType());
  if (!type.getElementType().isIntOrFloat() && !isa<ComplexType>(type.getElementType()))
    return emitOpError() << "expected elements of a torch type, got " << type;
  int64_t width = bytesOf(type.getElementType());
  Size place = Size::of(getByteOffset());
  if (decide(*this, place, Relation::less, 0) == true)
    return emitOpError() << "expected a byte offset that is not negative";
  if (failed(verifyOpen(*this, type, getSizes(), getStrides())))
    return failure();
  std::optional<Size> rest = modulo(place, width);
  if (!rest || !areEqual(*this, *rest, 0))
    return emitOpError() << "expected a byte offset that is a multiple of the element's " << width << " bytes";
  auto made = getWorkspace().getDefiningOp<WorkspaceOp>();
  if (!place.isNumber() || getSizes() || getStrides() || (made && made.getBytes()))
    return verifyOpenBuffer(*this, width);
  bool overflow = false;
  std::optional<Reach> reach = reachOf(type, overflow);
  if (!reach || !workspace.hasStaticShape())
    return success();
  int64_t start = place.getNumber(), end = start;
  overflow |= !addProduct(start, reach->low, width) || !addProduct(end, reach->high, width);
  if (overflow)
    return emitOpError() << "reaches beyond any workspace";
  if (start < 0)
    return emitOpError() << "reaches " << -start << " bytes before its workspace";
  if (end > workspace.getDimSize(0))
    return emitOpError() << "reaches byte " << end << " of a workspace of " << workspace.getDimSize(0);
  return success();
}

LogicalResult OutputBufferOp::verify() {
  auto type = cast<MemRefType>(getResult().getType());
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return emitOpError() << "expected strides";
  auto negative = [](int64_t stride) { return stride < 0 && !ShapedType::isDynamic(stride); };
  if (offset != 0 || llvm::any_of(strides, negative))
    return emitOpError() << "expected a fresh tensor: no offset, and strides that are not negative";
  bool overflow = false;
  reachOf(type, overflow);
  if (overflow)
    return emitOpError() << "is larger than any memory";
  return verifyOpen(*this, type, getSizes(), getStrides());
}

LogicalResult ViewOp::verify() {
  auto type = cast<MemRefType>(getResult().getType());
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return emitOpError() << "expected strides";
  if (failed(verifySaid(*this, "sizes", type.getShape(), getSizes(), type)))
    return failure();
  SizeList said = sizesOf(getStrides());
  if (said.size() != strides.size())
    return emitOpError() << "expected a number of 'strides' per dimension of " << type << ", got " << getStrides();
  for (auto [size, number] : llvm::zip_equal(said, strides))
    if (size.getNumber() != number)
      return emitOpError() << "its 'strides' are " << sizesToString(said) << ", and in its type " << sizesToString(sizesOf(ArrayRef(strides)));
  Size start = Size::of(getOffset());
  if (start.getNumber() != offset)
    return emitOpError() << "its offset is " << start.str() << ", and in its type " << Size(offset).str();
  return verifyNotNegative(*this, "the offset", start);
}
