//===- OptMain.cpp - mlir-opt with everything registered ------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Dynamo.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int dynamoOptMain(int argc, char **argv) {
  mlir::registerAllPasses();
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllGPUToLLVMIRTranslations(registry);
  registry.insert<dynamlir::dynamo::DynamoDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "dynamlir optimizer driver\n", registry));
}
