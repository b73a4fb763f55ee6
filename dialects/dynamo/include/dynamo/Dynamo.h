//===- Dynamo.h - The dynamo dialect ----------------------------*- C++ -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything a C++ user of the dialect includes.
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_DYNAMO_H
#define DYNAMO_DYNAMO_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/DenseSet.h"

#include <atomic>

#include "dynamo/DynamoEnums.h.inc"

// Must precede the dialect, which has accessors for discardable attributes of these types.
#define GET_ATTRDEF_CLASSES
#include "dynamo/DynamoAttrs.h.inc"

#include "dynamo/DynamoDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dynamo/DynamoTypes.h.inc"

namespace dynamlir::dynamo {
/// Returns the `dynamo.format` of the texts that this version writes.
FormatAttr formatOfThisVersion(mlir::MLIRContext *context);

/// Returns true if an attribute is a size: an i64 or an expression.
bool isSize(mlir::Attribute attribute);
/// Returns true if an attribute is an array of sizes: of i64, or with expressions. The smallest i64, which is MLIR's
/// `?`, is not a size.
bool isSizeArray(mlir::Attribute attribute);

/// Checks, if expressions are in use, that each symbol in the operation is declared by the enclosing function, and that
/// an elementwise operation has one shape.
llvm::LogicalResult verifySizes(mlir::Operation *op);

template <typename ConcreteType>
class HoldsSizes : public mlir::OpTrait::TraitBase<ConcreteType, HoldsSizes> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    auto *dialect = static_cast<DynamoDialect *>(op->getDialect());
    return dialect->holdsExpressions() ? verifySizes(op) : llvm::success();
  }
};
} // namespace dynamlir::dynamo

#define GET_OP_CLASSES
#include "dynamo/DynamoOps.h.inc"

#endif // DYNAMO_DYNAMO_H
