//===- RustPass.cpp - Passes whose body is a callback, and pipelines ------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR registers passes under a name from C++ only. This pass does nothing but
// hand the module to a callback, so that pipelines, `mlir-opt` and plugins see
// a pass written in Rust like any other.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Dynamo.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace {
struct Callback {
  std::string name, description;
  DynamoPassCallback run;
  void *userData;
};

class RustPass : public PassWrapper<RustPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RustPass)

  explicit RustPass(std::shared_ptr<const Callback> callback) : callback(std::move(callback)) {}
  RustPass(const RustPass &other) : PassWrapper(other), callback(other.callback) {}

  StringRef getName() const final { return callback->name; }
  StringRef getArgument() const final { return callback->name; }
  StringRef getDescription() const final { return callback->description; }

  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<dynamlir::dynamo::DynamoDialect, arith::ArithDialect, bufferization::BufferizationDialect,
                    gpu::GPUDialect, linalg::LinalgDialect, math::MathDialect, memref::MemRefDialect,
                    NVVM::NVVMDialect, scf::SCFDialect, tensor::TensorDialect, transform::TransformDialect,
                    vector::VectorDialect>();
  }

  void runOnOperation() final {
    if (!callback->run(wrap(getOperation().getOperation()), wrap(StringRef(config)), callback->userData))
      signalPassFailure();
  }

private:
  std::shared_ptr<const Callback> callback;
  Option<std::string> config{*this, "config", llvm::cl::desc("settings as key=value, separated by commas")};
};
} // namespace

/// Names in the order of registration.
static std::vector<std::string> &passNames() {
  static std::vector<std::string> names;
  return names;
}

void dynamoRegisterPass(MlirStringRef name, MlirStringRef description, DynamoPassCallback run, void *userData) {
  auto callback = std::make_shared<Callback>(Callback{unwrap(name).str(), unwrap(description).str(), run, userData});
  registerPass([callback] { return std::make_unique<RustPass>(callback); });
  passNames().push_back(callback->name);
}

void dynamoRegisterPipeline(MlirStringRef name, MlirStringRef description, MlirStringRef passes) {
  auto build = [passes = unwrap(passes).str()](OpPassManager &manager, StringRef options,
                                               function_ref<LogicalResult(const Twine &)> error) -> LogicalResult {
    // Where the passes have room for options, these go there.
    constexpr StringRef room = "$options";
    std::string text = passes;
    size_t at = text.find(room);
    if (at == std::string::npos && !options.empty())
      return error("a named pipeline has no options");
    for (; at != std::string::npos; at = text.find(room, at + options.size()))
      text.replace(at, room.size(), options.str());
    std::string message;
    llvm::raw_string_ostream stream(message);
    return succeeded(parsePassPipeline(text, manager, stream)) ? success() : error(message);
  };
  registerPassPipeline(unwrap(name), unwrap(description), build, [](function_ref<void(const mlir::detail::PassOptions &)>) {});
  passNames().push_back(unwrap(name).str());
}

void dynamoForEachPass(void (*visit)(MlirStringRef name, void *userData), void *userData) {
  for (const std::string &name : passNames())
    visit(wrap(StringRef(name)), userData);
}
