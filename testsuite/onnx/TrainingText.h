#pragma once

#include "testsuite/onnx/ModelText.h"

namespace pdc::testing {

/// A linear model with training_info, in parts that a test may change. State variables `v`, `u` and
/// `count` stand in the algorithm.
struct TrainingText {
  std::string updates = R"(
    w_new, b_new, v_new, u_new = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.75,
        norm_coefficient = 0.01, mode = "standard">(rate, count, w, b, dw, db, v, u)
    count_new = Add(count, one))";
  std::string outputs = "float[4, 3] w_new, float[3] b_new, float[4, 3] v_new, float[3] u_new, "
                        "int64[1] count_new, float loss";
  std::string gradient =
      R"(dw, db = ai.onnx.preview.training.Gradient<xs = ["w", "b"], zs = ["x", "labels"], y = "loss">(w, b, x, labels))";
  std::string inputs = "int64[2] labels";
  std::map<std::string, std::string> bindings = {{"w", "w_new"},
                                                 {"b", "b_new"},
                                                 {"v", "v_new"},
                                                 {"u", "u_new"},
                                                 {"count", "count_new"}};
  std::map<std::string, std::string> initialBindings;
  std::string initial;

  onnx::ModelProto proto() const {
    onnx::ModelProto model = protoOf(
        R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
        net (float[2, 4] x) => (float[2, 3] scores) { h = MatMul(x, w)  scores = Add(h, b) })");
    addInitializer(model, "w", {4, 3}, std::vector<float>(12, 1));
    addInitializer(model, "b", {3}, {1, 2, 3});
    onnx::TrainingInfoProto &info = *model.add_training_info();
    parse("training (" + inputs + ") => (" + outputs +
              ") { loss = SoftmaxCrossEntropyLoss(scores, labels)  " + gradient + "  " + updates +
              " }",
          *info.mutable_algorithm());
    addTensors(*info.mutable_algorithm());
    bind(bindings, *info.mutable_update_binding());
    if (!initial.empty())
      parse(initial, *info.mutable_initialization());
    bind(initialBindings, *info.mutable_initialization_binding());
    return model;
  }

private:
  static void parse(const std::string &text, onnx::GraphProto &graph) {
    auto status = onnx::OnnxParser::Parse(graph, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  }

  template <class List> static void bind(const std::map<std::string, std::string> &map, List &list) {
    for (const auto &[key, value] : map) {
      auto &entry = *list.Add();
      entry.set_key(key);
      entry.set_value(value);
    }
  }

  /// Floats of value 0, but for the learning rate; integers 0 and 1.
  static void addTensors(onnx::GraphProto &graph) {
    onnx::ModelProto holder;
    addInitializer(holder, "rate", {}, {0.125});
    addInitializer(holder, "v", {4, 3}, std::vector<float>(12, 0));
    addInitializer(holder, "v2", {4, 3}, std::vector<float>(12, 0));
    addInitializer(holder, "u", {3}, {0, 0, 0});
    addShape(holder, "count", {0});
    addShape(holder, "one", {1});
    for (const onnx::TensorProto &tensor : holder.graph().initializer())
      *graph.add_initializer() = tensor;
  }
};

inline void expectRefusal(const TrainingText &text, const std::string &part) {
  std::string found = refusal(text.proto());
  EXPECT_NE(found.find(part), std::string::npos) << found << "\nlacks\n" << part;
}

} // namespace pdc::testing
