//===- Plugin.cpp - What stock mlir-opt looks up in the plugin ------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

/// Registers every pass by name; defined in Rust (crates/opt).
extern "C" void dynamlirRegisterPasses();

static void registerDialect(mlir::DialectRegistry *registry) {
  registry->insert<dynamlir::dynamo::DynamoDialect>();
}

extern "C" mlir::DialectPluginLibraryInfo dynamoDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "dynamo", LLVM_VERSION_STRING, registerDialect};
}

extern "C" mlir::PassPluginLibraryInfo dynamoPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "dynamlir", LLVM_VERSION_STRING, dynamlirRegisterPasses};
}
