//===- Folders.cpp - Ops that are equal to something simpler --------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Only exact identities, including for NaN and signed zero.
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"

using namespace mlir;
using namespace dynamlir::dynamo;

/// f(f(x)) = x
template <typename Op> static OpFoldResult foldInvolution(Op op) {
  if (auto inner = op.getOperand().template getDefiningOp<Op>())
    return inner.getOperand();
  return {};
}

OpFoldResult NegOp::fold(FoldAdaptor) { return foldInvolution(*this); }
OpFoldResult NotOp::fold(FoldAdaptor) { return foldInvolution(*this); }

/// x ∘ x = x
template <typename Op> static OpFoldResult foldIdempotent(Op op) {
  return op.getLhs() == op.getRhs() ? OpFoldResult(op.getLhs()) : OpFoldResult();
}

OpFoldResult MaxOp::fold(FoldAdaptor) { return foldIdempotent(*this); }
OpFoldResult MinOp::fold(FoldAdaptor) { return foldIdempotent(*this); }
OpFoldResult AndOp::fold(FoldAdaptor) { return foldIdempotent(*this); }
OpFoldResult OrOp::fold(FoldAdaptor) { return foldIdempotent(*this); }

/// select(c, x, x) = x
OpFoldResult SelectOp::fold(FoldAdaptor) {
  return getOnTrue() == getOnFalse() ? OpFoldResult(getOnTrue()) : OpFoldResult();
}

/// An operation that keeps all elements in their places, and their type, folds to its operand.
template <typename Op> static OpFoldResult foldSameType(Op op) {
  return op.getOperand().getType() == op.getType() ? OpFoldResult(op.getOperand()) : OpFoldResult();
}

/// A shape operation that does not change anything folds to its operand. Two `?` need not be equal; if sizes are
/// expressions, equal types have equal sizes.
template <typename Op> static OpFoldResult foldSameSizes(Op op) {
  RankedTensorType type = op.getType();
  return type.hasStaticShape() || isa_and_nonnull<SizesAttr>(type.getEncoding()) ? foldSameType(op) : OpFoldResult();
}

OpFoldResult ConvertOp::fold(FoldAdaptor) { return foldSameType(*this); }
OpFoldResult BitcastOp::fold(FoldAdaptor) { return foldSameType(*this); }
OpFoldResult BroadcastOp::fold(FoldAdaptor) { return foldSameSizes(*this); }

/// reshape(reshape(x)) = reshape(x)
OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (OpFoldResult same = foldSameSizes(*this))
    return same;
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>()) {
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

/// permute(permute(x, p), q) = permute(x, p∘q); the identity is x
OpFoldResult PermuteOp::fold(FoldAdaptor) {
  bool identity = llvm::all_of(llvm::enumerate(getDims()),
                               [](auto it) { return static_cast<int64_t>(it.index()) == it.value(); });
  if (identity)
    return foldSameType(*this);
  if (auto inner = getOperand().getDefiningOp<PermuteOp>()) {
    SmallVector<int64_t> dims;
    for (int64_t dim : getDims())
      dims.push_back(inner.getDims()[dim]);
    setDims(dims);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

/// A slice that keeps everything. Equal types imply that, except if a dimension is empty, and then the values cannot
/// differ.
OpFoldResult SliceOp::fold(FoldAdaptor) { return foldSameSizes(*this); }
