//===- CAPI.cpp - The dialect for C and Rust ------------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Dynamo.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace dynamlir::dynamo;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Dynamo, dynamo, dynamlir::dynamo::DynamoDialect)

bool dynamoTypeIsMutableTensor(MlirType type) { return isa<MutableTensorType>(unwrap(type)); }

MlirType dynamoMutableTensorTypeGet(MlirContext context, intptr_t rank, const int64_t *sizes, MlirType elementType,
                                    const int64_t *strides, int64_t offset) {
  return wrap(MutableTensorType::get(unwrap(context), ArrayRef(sizes, rank), unwrap(elementType),
                                     ArrayRef(strides, rank), offset));
}

static MutableTensorType mutableTensor(MlirType type) { return cast<MutableTensorType>(unwrap(type)); }

intptr_t dynamoMutableTensorTypeGetRank(MlirType type) { return mutableTensor(type).getSizes().size(); }
int64_t dynamoMutableTensorTypeGetSize(MlirType type, intptr_t dim) { return mutableTensor(type).getSizes()[dim]; }
int64_t dynamoMutableTensorTypeGetStride(MlirType type, intptr_t dim) { return mutableTensor(type).getStrides()[dim]; }
int64_t dynamoMutableTensorTypeGetOffset(MlirType type) { return mutableTensor(type).getOffset(); }
MlirType dynamoMutableTensorTypeGetElementType(MlirType type) { return wrap(mutableTensor(type).getElementType()); }

int64_t dynamoOperandAttrGetIndex(MlirAttribute attr) {
  if (auto operand = dyn_cast<OperandAttr>(unwrap(attr)))
    return operand.getIndex();
  return -1;
}

bool dynamoOperationIsElementwise(MlirOperation op) { return unwrap(op)->hasTrait<OpTrait::Elementwise>(); }
bool dynamoOperationIsPure(MlirOperation op) { return isPure(unwrap(op)); }
