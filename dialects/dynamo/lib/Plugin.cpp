//===- Plugin.cpp - Symbols that stock mlir-opt looks up in a plugin ------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Dynamo.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;

/// Registers every pass by name; defined in Rust (crates/opt).
extern "C" void dynamlirRegisterPasses();

//===----------------------------------------------------------------------===//
// --dynamo-… as flags
//
// mlir-opt creates a flag for each pass before it loads a plugin: passes that a plugin registers can be named only in
// --pass-pipeline. The list of flags is an option that every pass's flag belongs to, and its parser accepts more
// entries at any time; only its type is private to MLIR's PassRegistry.cpp. The three types below have the same layout,
// which is valid for one major version.
//===----------------------------------------------------------------------===//

static_assert(LLVM_VERSION_MAJOR == 22, "compare PassArgData and PassNameParser with MLIR's PassRegistry.cpp");

namespace {
struct PassFlag {
  const PassRegistryEntry *entry = nullptr;
  StringRef options;
};
} // namespace

template <>
struct llvm::cl::OptionValue<PassFlag> final : OptionValueBase<PassFlag, /*isClass=*/true> {
  OptionValue() = default;
  OptionValue(const PassFlag &value) : value(value) {}
  void anchor() override {}
  bool hasValue() const { return true; }
  const PassFlag &getValue() const { return value; }
  void setValue(const PassFlag &flag) { value = flag; }
  PassFlag value;
};

namespace {
struct PassFlagParser : llvm::cl::parser<PassFlag> {
  using parser::parser;
  bool passNamesOnly = false;
};

void addFlag(StringRef name) {
  auto &options = llvm::cl::getRegisteredOptions();
  const PassRegistryEntry *pass = PassInfo::lookup(name);
  if (!pass)
    pass = PassPipelineInfo::lookup(name);
  auto flags = options.find("canonicalize");
  // The host does not have flags for passes, or already has this one.
  if (!pass || flags == options.end() || flags->second->hasArgStr() || options.contains(name))
    return;
  auto *list = static_cast<llvm::cl::list<PassFlag, bool, PassFlagParser> *>(flags->second);
  list->getParser().addLiteralOption(pass->getPassArgument(), PassFlag{pass, {}}, pass->getPassDescription());
}
} // namespace

static void registerPasses() {
  dynamlirRegisterPasses();
  dynamoForEachPass([](MlirStringRef name, void *) { addFlag(unwrap(name)); }, nullptr);
}

static void registerDialect(DialectRegistry *registry) { registry->insert<dynamlir::dynamo::DynamoDialect>(); }

extern "C" DialectPluginLibraryInfo dynamoDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "dynamo", LLVM_VERSION_STRING, registerDialect};
}

extern "C" PassPluginLibraryInfo dynamoPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "dynamlir", LLVM_VERSION_STRING, registerPasses};
}
