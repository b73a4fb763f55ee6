//===- Verifiers.cpp - What each op may look like -------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dynamlir::dynamo;

static RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static LogicalResult sameElementType(Operation *op, Value operand, Value result) {
  if (tensorOf(operand).getElementType() == tensorOf(result).getElementType())
    return success();
  return op->emitOpError() << "expected operand and result of one element type, got " << operand.getType() << " and "
                           << result.getType();
}

static LogicalResult dimInRange(Operation *op, int64_t dim, int64_t rank) {
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError() << "dimension " << dim << " is out of range for rank " << rank;
}

static LogicalResult expectShape(Operation *op, ArrayRef<int64_t> expected, Value result) {
  if (tensorOf(result).getShape() == expected)
    return success();
  InFlightDiagnostic diag = op->emitOpError() << "expected a result of shape [";
  llvm::interleaveComma(expected, diag, [&](int64_t size) {
    if (ShapedType::isDynamic(size))
      diag << "?";
    else
      diag << size;
  });
  return diag << "], got " << result.getType();
}

/// a + b, unknown if one of them is, or if it is no size at all.
static int64_t addSizes(int64_t a, int64_t b) {
  int64_t sum;
  if (ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || llvm::AddOverflow(a, b, sum))
    return ShapedType::kDynamic;
  return sum;
}

/// offset + Σ (size - 1) · stride: the last element of a window that shows
/// at least one; nothing when that number is too large to write down.
static std::optional<int64_t> lastElement(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, int64_t offset) {
  int64_t last = offset;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    int64_t step;
    if (llvm::MulOverflow(size - 1, stride, step) || llvm::AddOverflow(last, step, last))
      return std::nullopt;
  }
  return last;
}

static LogicalResult expectCount(Operation *op, StringRef what, size_t count, int64_t rank) {
  if (static_cast<int64_t>(count) == rank)
    return success();
  return op->emitOpError() << "expected one entry of '" << what << "' per dimension (" << rank << "), got " << count;
}

/// The dims are distinct and in range; `dropped` marks them.
static LogicalResult distinctDims(Operation *op, ArrayRef<int64_t> dims, int64_t rank, llvm::SmallBitVector &dropped) {
  dropped.resize(rank);
  for (int64_t dim : dims) {
    if (failed(dimInRange(op, dim, rank)))
      return failure();
    if (dropped.test(dim))
      return op->emitOpError() << "dimension " << dim << " is listed twice";
    dropped.set(dim);
  }
  return success();
}

LogicalResult BitcastOp::verify() {
  unsigned from = tensorOf(getOperand()).getElementTypeBitWidth(), to = tensorOf(getResult()).getElementTypeBitWidth();
  if (from != to)
    return emitOpError() << "expected element types of equal width, got " << from << " and " << to << " bits";
  return success();
}

LogicalResult FullOp::verify() {
  Type element = tensorOf(getResult()).getElementType();
  auto value = cast<TypedAttr>(getValueAttr());
  if (value.getType() != element)
    return emitOpError() << "expected a value of the result's element type " << element << ", got " << value.getType();
  return success();
}

LogicalResult IotaOp::verify() { return dimInRange(*this, getDim(), tensorOf(getResult()).getRank()); }

LogicalResult BroadcastOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "dims", getDims().size(), from.getRank())))
    return failure();
  int64_t previous = -1;
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (failed(dimInRange(*this, dim, to.getRank())))
      return failure();
    if (dim <= previous)
      return emitOpError() << "expected strictly increasing dims";
    previous = dim;
    if (from.getDimSize(i) != 1 && from.getDimSize(i) != to.getDimSize(dim))
      return emitOpError() << "operand dimension " << i << " of size " << from.getDimSize(i)
                           << " does not broadcast to size " << to.getDimSize(dim);
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())))
    return failure();
  if (from.hasStaticShape() && to.hasStaticShape() && from.getNumElements() != to.getNumElements())
    return emitOpError() << "expected as many elements, got " << from.getNumElements() << " and "
                         << to.getNumElements();
  return success();
}

LogicalResult PermuteOp::verify() {
  auto from = tensorOf(getOperand());
  llvm::SmallBitVector seen;
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "dims", getDims().size(), from.getRank())) ||
      failed(distinctDims(*this, getDims(), from.getRank(), seen)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t dim : getDims())
    shape.push_back(from.getDimSize(dim));
  return expectShape(*this, shape, getResult());
}

LogicalResult SliceOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "starts", getStarts().size(), from.getRank())) ||
      failed(expectCount(*this, "steps", getSteps().size(), from.getRank())))
    return failure();
  if (to.getRank() != from.getRank())
    return emitOpError() << "expected a result of rank " << from.getRank() << ", got " << to;
  for (int64_t i = 0; i < from.getRank(); ++i) {
    int64_t start = getStarts()[i], step = getSteps()[i], size = to.getDimSize(i);
    if (step < 1)
      return emitOpError() << "expected steps of at least 1, got " << step;
    if (start < 0)
      return emitOpError() << "expected starts that are not negative, got " << start;
    if (size == 0 || ShapedType::isDynamic(size) || from.isDynamicDim(i))
      continue;
    std::optional<int64_t> last = lastElement(size, step, start);
    if (!last || *last >= from.getDimSize(i))
      return emitOpError() << "slice leaves dimension " << i << " of size " << from.getDimSize(i);
  }
  return success();
}

LogicalResult ReverseOp::verify() {
  llvm::SmallBitVector seen;
  auto from = tensorOf(getOperand());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(distinctDims(*this, getDims(), from.getRank(), seen)))
    return failure();
  return expectShape(*this, from.getShape(), getResult());
}

LogicalResult ConcatenateOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "expected at least one operand";
  int64_t rank = tensorOf(getResult()).getRank(), dim = getDim();
  if (failed(dimInRange(*this, dim, rank)))
    return failure();
  SmallVector<int64_t> shape(tensorOf(getResult()).getShape());
  shape[dim] = 0;
  for (Value operand : getInputs()) {
    auto type = tensorOf(operand);
    if (failed(sameElementType(*this, operand, getResult())))
      return failure();
    if (type.getRank() != rank)
      return emitOpError() << "expected operands of rank " << rank << ", got " << type;
    for (int64_t i = 0; i < rank; ++i)
      if (i != dim && type.getDimSize(i) != shape[i])
        return emitOpError() << "operands differ in dimension " << i;
    shape[dim] = addSizes(shape[dim], type.getDimSize(dim));
  }
  return expectShape(*this, shape, getResult());
}

LogicalResult PadOp::verify() {
  auto from = tensorOf(getOperand());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "low", getLow().size(), from.getRank())) ||
      failed(expectCount(*this, "high", getHigh().size(), from.getRank())))
    return failure();
  if (cast<TypedAttr>(getValueAttr()).getType() != from.getElementType())
    return emitOpError() << "expected a value of the element type " << from.getElementType();
  SmallVector<int64_t> shape(from.getShape());
  for (auto [size, low, high] : llvm::zip(shape, getLow(), getHigh())) {
    if (low < 0 || high < 0)
      return emitOpError() << "expected padding that is not negative";
    size = addSizes(addSizes(size, low), high);
  }
  return expectShape(*this, shape, getResult());
}

/// Every element of the window lies in the row-major elements of `buffer`.
static LogicalResult windowFits(Operation *op, RankedTensorType window, ArrayRef<int64_t> strides, int64_t offset,
                                RankedTensorType buffer) {
  if (failed(expectCount(op, "strides", strides.size(), window.getRank())))
    return failure();
  if (offset < 0)
    return op->emitOpError() << "expected an offset that is not negative";
  if (llvm::any_of(strides, [](int64_t stride) { return stride < 0; }))
    return op->emitOpError() << "expected strides that are not negative";
  if (!window.hasStaticShape() || !buffer.hasStaticShape() || llvm::is_contained(window.getShape(), 0))
    return success();
  std::optional<int64_t> last = lastElement(window.getShape(), strides, offset);
  if (!last)
    return op->emitOpError() << "window reaches beyond any buffer";
  if (*last >= buffer.getNumElements())
    return op->emitOpError() << "window reaches element " << *last << " of " << buffer.getNumElements();
  return success();
}

LogicalResult AsStridedOp::verify() {
  if (failed(sameElementType(*this, getOperand(), getResult())))
    return failure();
  return windowFits(*this, tensorOf(getResult()), getStrides(), getOffset(), tensorOf(getOperand()));
}

LogicalResult AsStridedScatterOp::verify() {
  if (failed(sameElementType(*this, getBase(), getResult())) || failed(sameElementType(*this, getSource(), getResult())))
    return failure();
  if (getBase().getType() != getResult().getType())
    return emitOpError() << "expected the result to have the base's type";
  return windowFits(*this, tensorOf(getSource()), getStrides(), getOffset(), tensorOf(getBase()));
}

LogicalResult GatherOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "indices", getIndices().size(), from.getRank())))
    return failure();
  for (Value index : getIndices())
    if (tensorOf(index).getShape() != to.getShape())
      return emitOpError() << "expected indices of the result's shape, got " << index.getType();
  return success();
}

static SmallVector<int64_t> withoutDims(RankedTensorType type, const llvm::SmallBitVector &dropped) {
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (!dropped.test(i))
      shape.push_back(type.getDimSize(i));
  return shape;
}

/// `and`, `or` and `xor` combine bits.
static LogicalResult kindSuits(Operation *op, ReduceKind kind, RankedTensorType type) {
  bool bitwise = kind == ReduceKind::bit_and || kind == ReduceKind::bit_or || kind == ReduceKind::bit_xor;
  if (bitwise && !isa<IntegerType>(type.getElementType()))
    return op->emitOpError() << "'" << stringifyReduceKind(kind) << "' needs integers or bool, got " << type;
  return success();
}

LogicalResult ReduceOp::verify() {
  auto from = tensorOf(getOperand());
  llvm::SmallBitVector dropped;
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(distinctDims(*this, getDims(), from.getRank(), dropped)) || failed(kindSuits(*this, getKind(), from)))
    return failure();
  ReduceKind kind = getKind();
  if (kind == ReduceKind::max || kind == ReduceKind::min)
    for (int64_t dim : getDims())
      if (from.getDimSize(dim) == 0)
        return emitOpError() << "'" << stringifyReduceKind(kind) << "' over nothing has no value";
  return expectShape(*this, withoutDims(from, dropped), getResult());
}

LogicalResult ArgReduceOp::verify() {
  auto from = tensorOf(getOperand());
  if (getKind() != ReduceKind::max && getKind() != ReduceKind::min)
    return emitOpError() << "expected 'max' or 'min'";
  llvm::SmallBitVector dropped;
  if (failed(distinctDims(*this, {static_cast<int64_t>(getDim())}, from.getRank(), dropped)))
    return failure();
  if (from.getDimSize(getDim()) == 0)
    return emitOpError() << "there is no index into nothing";
  return expectShape(*this, withoutDims(from, dropped), getResult());
}

LogicalResult ScanOp::verify() {
  auto type = tensorOf(getOperand());
  if (failed(dimInRange(*this, getDim(), type.getRank())))
    return failure();
  return kindSuits(*this, getKind(), type);
}

/// Every `#dynamo.operand<i>` in `attr`, at any depth, is in range; counts them.
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

/// What `dynamo.aten` and `dynamo.extern` share: the schema's form, and `args`
/// that name each of `count` operands.
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

LogicalResult AtenOp::verify() {
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
  for (int64_t index : getMutates().value_or(ArrayRef<int64_t>{}))
    if (index < 0 || index >= count)
      return emitOpError() << "'mutates' names operand " << index << " of " << count;
  for (int64_t index : getAliases().value_or(ArrayRef<int64_t>{}))
    if (index < -1 || index >= count)
      return emitOpError() << "'aliases' names operand " << index << " of " << count;
  return success();
}

LogicalResult LaunchOp::verify() {
  bool tensors = llvm::any_of(getInputs().getTypes(), llvm::IsaPred<TensorType>);
  bool memrefs = llvm::any_of(getInputs().getTypes(), llvm::IsaPred<MemRefType>);
  if (tensors && memrefs)
    return emitOpError() << "expected operands that are all tensors or all memrefs";
  if (memrefs && getNumResults() != 0)
    return emitOpError() << "on memrefs has no results: the last operands are written";
  return success();
}

LogicalResult ExternOp::verify() { return checkCall(*this, getSchema(), getArgs(), getInputs().size()); }

LogicalResult BufferOp::verify() {
  int64_t offset = getByteOffset();
  if (offset < 0)
    return emitOpError() << "expected a byte offset that is not negative";
  auto type = cast<MemRefType>(getResult().getType()), workspace = cast<MemRefType>(getWorkspace().getType());
  int64_t start;
  SmallVector<int64_t> strides;
  if (!type.hasStaticShape() || !workspace.hasStaticShape() || !type.getElementType().isIntOrFloat() ||
      failed(type.getStridesAndOffset(strides, start)) || ShapedType::isDynamic(start) ||
      llvm::any_of(strides, ShapedType::isDynamic) || llvm::is_contained(type.getShape(), 0))
    return success();
  std::optional<int64_t> last = lastElement(type.getShape(), strides, start);
  int64_t width = llvm::divideCeil(type.getElementTypeBitWidth(), 8), end;
  if (!last || llvm::MulOverflow(*last + 1, width, end) || llvm::AddOverflow(end, offset, end))
    return emitOpError() << "reaches beyond any workspace";
  if (end > workspace.getDimSize(0))
    return emitOpError() << "reaches byte " << end << " of a workspace of " << workspace.getDimSize(0);
  return success();
}

LogicalResult CheckRangeOp::verify() {
  SmallVector<Type> expected;
  if (isa<RankedTensorType>(getOperand().getType()))
    expected.push_back(getOperand().getType());
  if (getChecked().getTypes() != ArrayRef(expected))
    return emitOpError() << "returns its operand if that is a tensor, else nothing";
  return success();
}
