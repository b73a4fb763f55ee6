//===- Version.cpp - The answer to --version --------------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/CAPI/Support.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

void dynamoSetVersion(MlirStringRef tool, MlirStringRef version) {
  std::string text = (unwrap(tool) + " " + unwrap(version) + " (LLVM " LLVM_VERSION_STRING ")\n").str();
  llvm::cl::SetVersionPrinter([text](llvm::raw_ostream &os) { os << text; });
}
