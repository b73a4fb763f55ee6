//===- AllOfUpstream.cpp - Everything that MLIR has -----------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For the development build's dynamlir-opt. It is a file of its own because
// everything referred to here is linked, which would make the wheel too large.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Dynamo.h"
#include "mlir/CAPI/IR.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"

void dynamoRegisterAllOfUpstream(MlirDialectRegistry known) {
  mlir::DialectRegistry &registry = *unwrap(known);
  mlir::registerAllPasses();
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllGPUToLLVMIRTranslations(registry);
  registry.insert<dynamlir::dynamo::DynamoDialect>();
}
