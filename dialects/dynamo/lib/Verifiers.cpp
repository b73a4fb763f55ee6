//===- Verifiers.cpp - What each primitive may look like ------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

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

LogicalResult MatmulOp::verify() {
  auto lhs = tensorOf(getLhs()), rhs = tensorOf(getRhs());
  int64_t batch = getBatch();
  if (failed(sameElementType(*this, getLhs(), getResult())) || failed(sameElementType(*this, getRhs(), getResult())))
    return failure();
  if (batch < 0 || lhs.getRank() < batch + 1 || rhs.getRank() < batch + 1)
    return emitOpError() << "expected " << batch << " batch dimensions and k in both operands, got " << lhs << " and " << rhs;
  SmallVector<int64_t> expected(lhs.getShape().drop_back());
  expected.append(rhs.getShape().drop_front(batch + 1).begin(), rhs.getShape().end());
  if (lhs.getShape().take_front(batch) != rhs.getShape().take_front(batch) || lhs.getShape().back() != rhs.getDimSize(batch))
    return emitOpError() << "expected equal batch dimensions and equal sizes of k, got " << lhs << " and " << rhs;
  return expectShape(*this, expected, getResult());
}

// Adds to `expected` how many windows of these sizes lie along height and width of the images.
static LogicalResult expectWindows(Operation *op, RankedTensorType input, ArrayRef<int64_t> window, ArrayRef<int64_t> strides,
                                   ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, SmallVectorImpl<int64_t> &expected) {
  for (ArrayRef<int64_t> list : {window, strides, padding, dilation})
    if (list.size() != 2)
      return op->emitOpError() << "expected two sizes, strides, paddings and dilations of windows";
  for (int64_t i = 0; i < 2; ++i) {
    int64_t size = input.getDimSize(i + 2);
    // Numbers this large say nothing about images; below, nothing overflows.
    constexpr int64_t limit = int64_t(1) << 28;
    auto outside = [&](int64_t number, int64_t least) { return number < least || number > limit; };
    if (outside(strides[i], 1) || outside(padding[i], 0) || outside(dilation[i], 1) || outside(size, 0) || outside(window[i], 1))
      return op->emitOpError() << "expected windows, strides and dilations of at least 1, padding of at least 0 and images of known"
                                  " size, got windows of "
                               << window << " in " << input;
    int64_t room = size + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1;
    if (room < 0)
      return op->emitOpError() << "expected windows that fit into the padded image, got " << window << " in " << input;
    expected.push_back(room / strides[i] + 1);
  }
  return success();
}

// In kernels, the result has the shape of the domain.
static LogicalResult expectElements(Operation *op, ArrayRef<int64_t> expected, Value result) {
  auto type = tensorOf(result);
  if (type.hasStaticShape() && type.getNumElements() == computeProduct(expected))
    return success();
  return expectShape(op, expected, result);
}

LogicalResult ConvolutionOp::verify() {
  auto input = tensorOf(getInput()), weight = tensorOf(getWeight());
  if (failed(sameElementType(*this, getInput(), getResult())) || failed(sameElementType(*this, getWeight(), getResult())))
    return failure();
  if (input.getRank() != 4 || weight.getRank() != 4)
    return emitOpError() << "expected images and windows of two dimensions, with channels, got " << input << " and " << weight;
  int64_t groups = getGroups();
  if (groups < 1 || weight.getDimSize(0) % groups != 0 || input.getDimSize(1) != weight.getDimSize(1) * groups)
    return emitOpError() << "expected " << groups << " groups of channels, got " << input << " and " << weight;
  SmallVector<int64_t> expected = {input.getDimSize(0), weight.getDimSize(0)};
  if (failed(expectWindows(*this, input, weight.getShape().drop_front(2), getStrides(), getPadding(), getDilation(), expected)))
    return failure();
  return expectElements(*this, expected, getResult());
}

LogicalResult MaxPoolOp::verify() {
  auto input = tensorOf(getInput());
  if (failed(sameElementType(*this, getInput(), getResult())))
    return failure();
  if (input.getRank() != 4)
    return emitOpError() << "expected images of two dimensions, with channels, got " << input;
  SmallVector<int64_t> expected = {input.getDimSize(0), input.getDimSize(1)};
  if (failed(expectWindows(*this, input, getWindow(), getStrides(), getPadding(), getDilation(), expected)))
    return failure();
  return expectElements(*this, expected, getResult());
}

LogicalResult AttentionOp::verify() {
  for (Value operand : getOperands())
    if (failed(sameElementType(*this, operand, getResult())))
      return failure();
  auto query = tensorOf(getQuery()), key = tensorOf(getKey()), value = tensorOf(getValue());
  if (query.getRank() != 4 || key.getRank() != 4 || value.getRank() != 4)
    return emitOpError() << "expected queries, keys and values by batch, head and line, got " << query << ", " << key << " and " << value;
  auto outer = [](RankedTensorType type) { return type.getShape().take_front(2); };
  if (outer(query) != outer(key) || outer(query) != outer(value) || query.getDimSize(3) != key.getDimSize(3) ||
      key.getDimSize(2) != value.getDimSize(2))
    return emitOpError() << "expected as many heads of each, keys as long as queries and as many as values, got " << query << ", " << key
                         << " and " << value;
  SmallVector<int64_t> expected(query.getShape());
  if (getMask()) {
    expected[3] = key.getDimSize(2);
    if (failed(expectShape(*this, expected, getMask())))
      return failure();
  }
  expected[3] = value.getDimSize(3);
  return expectElements(*this, expected, getResult());
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

LogicalResult ScatterOp::verify() {
  auto base = tensorOf(getBase()), source = tensorOf(getSource());
  if (getResult().getType() != base)
    return emitOpError() << "expected the result to have the base's type";
  if (failed(sameElementType(*this, getSource(), getResult())) ||
      failed(expectCount(*this, "dims", getDims().size(), base.getRank())))
    return failure();
  if (llvm::count(getDims(), -1) != static_cast<int64_t>(getIndices().size()))
    return emitOpError() << "expected as many indices as dims are -1, got " << getIndices().size();
  for (Value index : getIndices())
    if (tensorOf(index).getShape() != source.getShape())
      return emitOpError() << "expected indices of the source's shape, got " << index.getType();
  for (auto [size, dim] : llvm::zip(base.getShape(), getDims())) {
    if (dim == -1)
      continue;
    if (failed(dimInRange(*this, dim, source.getRank())))
      return failure();
    if (!ShapedType::isDynamic(size) && source.getDimSize(dim) > size)
      return emitOpError() << "dimension " << dim << " of the source does not fit into " << size << " places";
  }
  if (!getKind())
    return success();
  // In memory a bool is a byte and no integer has a sign.
  auto element = base.getElementType();
  bool ordered = *getKind() == ReduceKind::max || *getKind() == ReduceKind::min;
  if (element.isInteger(1) || (element.isUnsignedInteger() && ordered))
    return emitOpError() << "'" << stringifyReduceKind(*getKind()) << "' has no meaning for " << element << " in memory";
  return kindSuits(*this, *getKind(), base);
}
