//===- Verifiers.cpp - Verifiers of the primitives ------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "llvm/ADT/SmallBitVector.h"

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

static LogicalResult expectShape(Operation *op, ArrayRef<Size> expected, Value result) {
  if (areEqual(op, sizesOf(tensorOf(result)), expected))
    return success();
  return op->emitOpError() << "expected a result of shape " << sizesToString(expected) << ", got " << result.getType();
}

/// a + b; `?` if one of them is, or if the sum is not a size.
static Size addSizes(Size a, Size b) { return add(a, b).value_or(ShapedType::kDynamic); }

/// offset + Σ (size - 1) · stride: the last element of a window that shows at least one; nothing if that number is too
/// large to represent.
static std::optional<Size> lastElement(ArrayRef<Size> sizes, ArrayRef<Size> strides, Size offset) {
  std::optional<Size> last = offset;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    std::optional<Size> steps = add(size, -1);
    std::optional<Size> distance = steps ? multiply(*steps, stride) : std::nullopt;
    last = distance ? add(*last, *distance) : std::nullopt;
    if (!last)
      return std::nullopt;
  }
  return last;
}

/// Returns true if a relation holds for all values of the symbols: a bound is an error only if it is violated for all
/// of them.
static bool surely(Operation *op, Size a, Relation relation, Size b) { return decide(op, a, relation, b) == true; }

static LogicalResult expectCount(Operation *op, StringRef what, size_t count, int64_t rank) {
  if (static_cast<int64_t>(count) == rank)
    return success();
  return op->emitOpError() << "expected one entry of '" << what << "' per dimension (" << rank << "), got " << count;
}

/// Checks that the dims are distinct and in range; `dropped` marks them.
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
  auto number = dyn_cast<TypedAttr>(getValueAttr());
  Type type = number ? number.getType() : IntegerType::get(getContext(), 64);
  if (type != element)
    return emitOpError() << "expected a value of the result's element type " << element << ", got " << type;
  return success();
}

LogicalResult IotaOp::verify() { return dimInRange(*this, getDim(), tensorOf(getResult()).getRank()); }

LogicalResult RandomOp::verify() {
  if (getHalf() != 0 && getHalf() != 1)
    return emitOpError() << "expected the first half (0) or the second (1), got " << getHalf();
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "dims", getDims().size(), from.getRank())))
    return failure();
  SizeList fromSizes = sizesOf(from), toSizes = sizesOf(to);
  int64_t previous = -1;
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (failed(dimInRange(*this, dim, to.getRank())))
      return failure();
    if (dim <= previous)
      return emitOpError() << "expected strictly increasing dims";
    previous = dim;
    if (fromSizes[i] != 1 && !areEqual(*this, fromSizes[i], toSizes[dim]))
      return emitOpError() << "operand dimension " << i << " of size " << fromSizes[i].str() << " does not broadcast to size "
                           << toSizes[dim].str();
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())))
    return failure();
  // Nothing is known about a `?`.
  std::optional<Size> given = multiply(sizesOf(from)), made = multiply(sizesOf(to));
  if (!given || !made)
    return emitOpError() << "has a number of elements that does not fit 64 bits";
  if (given->isUnknown() || made->isUnknown() || areEqual(*this, *given, *made))
    return success();
  return emitOpError() << "expected as many elements, got " << given->str() << " and " << made->str();
}

LogicalResult PermuteOp::verify() {
  auto from = tensorOf(getOperand());
  llvm::SmallBitVector seen;
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "dims", getDims().size(), from.getRank())) ||
      failed(distinctDims(*this, getDims(), from.getRank(), seen)))
    return failure();
  SizeList shape, sizes = sizesOf(from);
  for (int64_t dim : getDims())
    shape.push_back(sizes[dim]);
  return expectShape(*this, shape, getResult());
}

LogicalResult SliceOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "starts", countSizes(getStarts()), from.getRank())) ||
      failed(expectCount(*this, "steps", getSteps().size(), from.getRank())))
    return failure();
  if (to.getRank() != from.getRank())
    return emitOpError() << "expected a result of rank " << from.getRank() << ", got " << to;
  SizeList starts = sizesOf(getStarts()), given = sizesOf(from), taken = sizesOf(to);
  for (int64_t i = 0; i < from.getRank(); ++i) {
    int64_t step = getSteps()[i];
    if (step < 1)
      return emitOpError() << "expected steps of at least 1, got " << step;
    if (surely(*this, starts[i], Relation::less, 0))
      return emitOpError() << "expected starts that are not negative, got " << starts[i].str();
    // If symbols decide whether anything is taken at all, the bounds cannot be checked.
    if (taken[i].isUnknown() || given[i].isUnknown() || !surely(*this, 0, Relation::less, taken[i]))
      continue;
    std::optional<Size> last = lastElement(taken[i], Size(step), starts[i]);
    if (!last || surely(*this, given[i], Relation::lessOrEqual, *last))
      return emitOpError() << "slice leaves dimension " << i << " of size " << given[i].str();
  }
  return success();
}

LogicalResult ReverseOp::verify() {
  llvm::SmallBitVector seen;
  auto from = tensorOf(getOperand());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(distinctDims(*this, getDims(), from.getRank(), seen)))
    return failure();
  return expectShape(*this, sizesOf(from), getResult());
}

LogicalResult ConcatenateOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "expected at least one operand";
  int64_t rank = tensorOf(getResult()).getRank(), dim = getDim();
  if (failed(dimInRange(*this, dim, rank)))
    return failure();
  SizeList shape = sizesOf(tensorOf(getResult()));
  shape[dim] = 0;
  for (Value operand : getInputs()) {
    auto type = tensorOf(operand);
    if (failed(sameElementType(*this, operand, getResult())))
      return failure();
    if (type.getRank() != rank)
      return emitOpError() << "expected operands of rank " << rank << ", got " << type;
    SizeList sizes = sizesOf(type);
    for (int64_t i = 0; i < rank; ++i)
      if (i != dim && !areEqual(*this, sizes[i], shape[i]))
        return emitOpError() << "operands differ in dimension " << i;
    shape[dim] = addSizes(shape[dim], sizes[dim]);
  }
  return expectShape(*this, shape, getResult());
}

LogicalResult PadOp::verify() {
  auto from = tensorOf(getOperand());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "low", countSizes(getLow()), from.getRank())) ||
      failed(expectCount(*this, "high", countSizes(getHigh()), from.getRank())))
    return failure();
  if (cast<TypedAttr>(getValueAttr()).getType() != from.getElementType())
    return emitOpError() << "expected a value of the element type " << from.getElementType();
  SizeList shape = sizesOf(from);
  for (auto [size, low, high] : llvm::zip(shape, sizesOf(getLow()), sizesOf(getHigh()))) {
    if (surely(*this, low, Relation::less, 0) || surely(*this, high, Relation::less, 0))
      return emitOpError() << "expected padding that is not negative";
    size = addSizes(addSizes(size, low), high);
  }
  return expectShape(*this, shape, getResult());
}

/// Checks that every element of the window lies in the row-major elements of `buffer`.
static LogicalResult windowFits(Operation *op, RankedTensorType window, Attribute strideArray, Size offset, RankedTensorType buffer) {
  SizeList strides = sizesOf(strideArray), sizes = sizesOf(window);
  if (failed(expectCount(op, "strides", strides.size(), window.getRank())))
    return failure();
  if (surely(op, offset, Relation::less, 0))
    return op->emitOpError() << "expected an offset that is not negative";
  if (llvm::any_of(strides, [&](Size stride) { return surely(op, stride, Relation::less, 0); }))
    return op->emitOpError() << "expected strides that are not negative";
  std::optional<Size> room = multiply(sizesOf(buffer));
  if (!room || room->isUnknown() || !llvm::all_of(sizes, [&](Size size) { return surely(op, 0, Relation::less, size); }))
    return success();
  std::optional<Size> last = lastElement(sizes, strides, offset);
  if (!last)
    return op->emitOpError() << "window reaches beyond any buffer";
  if (surely(op, *room, Relation::lessOrEqual, *last))
    return op->emitOpError() << "window reaches element " << last->str() << " of " << room->str();
  return success();
}

LogicalResult AsStridedOp::verify() {
  if (failed(sameElementType(*this, getOperand(), getResult())))
    return failure();
  return windowFits(*this, tensorOf(getResult()), getStrides(), Size::of(getOffset()), tensorOf(getOperand()));
}

LogicalResult AsStridedScatterOp::verify() {
  if (failed(sameElementType(*this, getBase(), getResult())) || failed(sameElementType(*this, getSource(), getResult())))
    return failure();
  if (getBase().getType() != getResult().getType())
    return emitOpError() << "expected the result to have the base's type";
  return windowFits(*this, tensorOf(getSource()), getStrides(), Size::of(getOffset()), tensorOf(getBase()));
}

LogicalResult MatmulOp::verify() {
  auto lhs = tensorOf(getLhs()), rhs = tensorOf(getRhs());
  int64_t batch = getBatch();
  if (failed(sameElementType(*this, getLhs(), getResult())) || failed(sameElementType(*this, getRhs(), getResult())))
    return failure();
  if (batch < 0 || lhs.getRank() < batch + 1 || rhs.getRank() < batch + 1)
    return emitOpError() << "expected " << batch << " batch dimensions and k in both operands, got " << lhs << " and " << rhs;
  SizeList left = sizesOf(lhs), right = sizesOf(rhs), expected(left.begin(), left.end() - 1);
  expected.append(right.begin() + batch + 1, right.end());
  auto front = [batch](const SizeList &sizes) { return ArrayRef<Size>(sizes).take_front(batch); };
  if (!areEqual(*this, front(left), front(right)) || !areEqual(*this, left.back(), right[batch]))
    return emitOpError() << "expected equal batch dimensions and equal sizes of k, got " << lhs << " and " << rhs;
  return expectShape(*this, expected, getResult());
}

// Adds to `expected` the number of windows of these sizes along height and width of the images.
static LogicalResult expectWindows(Operation *op, RankedTensorType input, ArrayRef<int64_t> window, ArrayRef<int64_t> strides,
                                   ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, SizeList &expected) {
  for (ArrayRef<int64_t> list : {window, strides, padding, dilation})
    if (list.size() != 2)
      return op->emitOpError() << "expected two sizes, strides, paddings and dilations of windows";
  for (int64_t i = 0; i < 2; ++i) {
    int64_t size = input.getDimSize(i + 2);
    // Larger numbers do not occur for images; below the limit, nothing overflows.
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
static LogicalResult expectElements(Operation *op, ArrayRef<Size> expected, Value result) {
  std::optional<Size> count = multiply(sizesOf(tensorOf(result))), wanted = multiply(expected);
  if (count && wanted && !count->isUnknown() && areEqual(op, *count, *wanted))
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
  std::optional<Size> channels = multiply(sizesOf(weight)[1], Size(groups));
  std::optional<Size> rest = groups < 1 ? std::nullopt : modulo(sizesOf(weight)[0], groups);
  bool inGroups = rest && (rest->isUnknown() || areEqual(*this, *rest, 0));
  if (!inGroups || !channels || !areEqual(*this, sizesOf(input)[1], *channels))
    return emitOpError() << "expected " << groups << " groups of channels, got " << input << " and " << weight;
  SizeList expected = {sizesOf(input)[0], sizesOf(weight)[0]};
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
  SizeList expected = {sizesOf(input)[0], sizesOf(input)[1]};
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
  SizeList queries = sizesOf(query), keys = sizesOf(key), values = sizesOf(value);
  auto same = [&](const SizeList &a, const SizeList &b, int64_t dim) { return areEqual(*this, a[dim], b[dim]); };
  if (!same(queries, keys, 0) || !same(queries, keys, 1) || !same(queries, values, 0) || !same(queries, values, 1) ||
      !same(queries, keys, 3) || !same(keys, values, 2))
    return emitOpError() << "expected as many heads of each, keys as long as queries and as many as values, got " << query << ", " << key
                         << " and " << value;
  SizeList expected = queries;
  if (getMask()) {
    expected[3] = keys[2];
    if (failed(expectShape(*this, expected, getMask())))
      return failure();
  }
  expected[3] = values[3];
  return expectElements(*this, expected, getResult());
}

LogicalResult GatherOp::verify() {
  auto from = tensorOf(getOperand()), to = tensorOf(getResult());
  if (failed(sameElementType(*this, getOperand(), getResult())) ||
      failed(expectCount(*this, "indices", getIndices().size(), from.getRank())))
    return failure();
  for (Value index : getIndices())
    if (!haveOneShape(*this, tensorOf(index), to))
      return emitOpError() << "expected indices of the result's shape, got " << index.getType();
  return success();
}

static SizeList withoutDims(RankedTensorType type, const llvm::SmallBitVector &dropped) {
  SizeList shape, sizes = sizesOf(type);
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (!dropped.test(i))
      shape.push_back(sizes[i]);
  return shape;
}

/// Checks that `and`, `or` and `xor`, which combine bits, have a suitable type.
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
    if (!haveOneShape(*this, tensorOf(index), source))
      return emitOpError() << "expected indices of the source's shape, got " << index.getType();
  SizeList places = sizesOf(base), written = sizesOf(source);
  for (auto [size, dim] : llvm::zip(places, getDims())) {
    if (dim == -1)
      continue;
    if (failed(dimInRange(*this, dim, source.getRank())))
      return failure();
    if (surely(*this, size, Relation::less, written[dim]))
      return emitOpError() << "dimension " << dim << " of the source does not fit into " << size.str() << " places";
  }
  if (!getKind())
    return success();
  // In memory a bool is a byte, and integers are signless.
  auto element = base.getElementType();
  bool ordered = *getKind() == ReduceKind::max || *getKind() == ReduceKind::min;
  if (element.isInteger(1) || (element.isUnsignedInteger() && ordered))
    return emitOpError() << "'" << stringifyReduceKind(*getKind()) << "' has no meaning for " << element << " in memory";
  return kindSuits(*this, *getKind(), base);
}
