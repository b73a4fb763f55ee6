//===- LspServerMain.cpp - mlir-lsp-server's main --------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/CAPI/IR.h"
#include "mlir/Support/LLVM.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int dynamoLspServerMain(int argc, char **argv, MlirDialectRegistry registry) {
  return failed(mlir::MlirLspServerMain(argc, argv, *unwrap(registry)));
}
