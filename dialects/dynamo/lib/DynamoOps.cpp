//===- DynamoOps.cpp - Generated definitions of the ops -------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Split from the verifiers and folders so that each file compiles quickly.
//
//===----------------------------------------------------------------------===//

#include "dynamo/Sizes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace dynamlir::dynamo;

#define GET_OP_CLASSES
#include "dynamo/DynamoOps.cpp.inc"
