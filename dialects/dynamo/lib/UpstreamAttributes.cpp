//===- UpstreamAttributes.cpp - Attributes that MLIR's C API lacks --------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/CAPI/IR.h"
#include "mlir/Conversion/ArithCommon/AttrToLLVMConverter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;

MlirAttribute dynamoIteratorTypeAttrGet(MlirContext context, bool isReduction) {
  auto type = isReduction ? utils::IteratorType::reduction : utils::IteratorType::parallel;
  return wrap(linalg::IteratorTypeAttr::get(unwrap(context), type));
}

bool dynamoIteratorTypeAttrIsReduction(MlirAttribute attr) {
  auto type = dyn_cast<linalg::IteratorTypeAttr>(unwrap(attr));
  return type && type.getValue() == utils::IteratorType::reduction;
}

MlirAttribute dynamoFastmathAttrToLLVM(MlirContext context, MlirAttribute flags, bool noSignedZeros) {
  auto given = dyn_cast_or_null<arith::FastMathFlagsAttr>(unwrap(flags));
  auto all = given ? given.getValue() : arith::FastMathFlags::none;
  if (noSignedZeros)
    all = all | arith::FastMathFlags::nsz;
  return wrap(LLVM::FastmathFlagsAttr::get(unwrap(context), arith::convertArithFastMathFlagsToLLVM(all)));
}
