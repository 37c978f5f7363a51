#include "codegen/LoopBody.h"
#include "codegen/RuntimeNames.h"
#include "compiler/operators/Operator.h"
#include "passes/LegalNames.h"

#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

/// No tensor is named after what loops call.
TEST(LoopBody, CallsWhatNoTensorIsNamed) {
  const LegalNames names;
  auto isReserved = [&](std::string_view call) {
    return names.isTaken(llvm::StringRef(call).drop_back());
  };
  for (auto [standard, own] : runtime_names::kVectorFunctions)
    EXPECT_TRUE(isReserved(own)) << own;
  EXPECT_TRUE(isReserved(runtime_names::kKnownPower));
  for (llvm::StringRef name : {runtime_names::kBroadcast, runtime_names::kStrided,
                               runtime_names::kInto, runtime_names::kPart})
    EXPECT_TRUE(names.isTaken(name)) << name.str();
}

/// A condition on an attribute is decided when it is printed; types by ONNX's numbers: 1 is float,
/// 9 a boolean, 16 bfloat16.
TEST(LoopBody, CastsReadAsWhatTheyDo) {
  mlir::MLIRContext context;
  mlir::Builder builder(&context);
  auto printed = [&](int64_t to) {
    auto attributes =
        builder.getDictionaryAttr(builder.getNamedAttr("to", builder.getI64IntegerAttr(to)));
    return substitute(findOperator("Cast")->expressions[0], {"mask[i]"}, attributes);
  };
  EXPECT_EQ(printed(9), "mask[i] != 0");
  EXPECT_EQ(printed(1), "mask[i]");
  EXPECT_EQ(printed(16), "mask[i]");
}

/// What an operand decides stays as it is.
TEST(LoopBody, ConditionsOnOperandsStay) {
  mlir::MLIRContext context;
  EXPECT_EQ(substitute("$0 == 9 ? $1 : 0", {"x", "y"}, mlir::DictionaryAttr::get(&context)),
            "x == 9 ? y : 0");
}

} // namespace
} // namespace pdc
