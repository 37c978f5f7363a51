#pragma once

#include "testsuite/onnx/ModelText.h"

#include <fstream>

namespace pdc::testing {

/// Written by Google's FlatBuffers library by ONNX Runtime's schema: trained b = [0.5, -1] and
/// w = [[1, 2], [3, 4], [5, 6]], frozen fixed = [7], one group of step 0 and learning rate 0.25.
inline const std::string checkpointBytes(
    "\x14\x00\x00\x00\x4f\x44\x54\x43\x00\x00\x0a\x00\x10\x00\x0c\x00\x08\x00\x04\x00\x0a\x00"
    "\x00\x00\x0c\x00\x00\x00\x3c\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00"
    "\x00\x00\x0a\x00\x0c\x00\x08\x00\x00\x00\x04\x00\x0a\x00\x00\x00\x00\x00\x80\x3e\x04\x00"
    "\x00\x00\x06\x00\x00\x00\x67\x72\x6f\x75\x70\x30\x00\x00\x08\x00\x0c\x00\x08\x00\x04\x00"
    "\x08\x00\x00\x00\x08\x00\x00\x00\x44\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x6a\xff"
    "\xff\xff\x2c\x00\x00\x00\x01\x00\x00\x00\x14\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00"
    "\x66\x69\x78\x65\x64\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x04\x00\x00\x00\x00\x00\xe0\x40\x02\x00\x00\x00\x68\x00\x00\x00\x04\x00\x00\x00"
    "\xae\xff\xff\xff\x30\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00\x04\x00\x00\x00\x01\x00"
    "\x00\x00\x77\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x18\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00"
    "\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40\x00\x00\x0e\x00\x14\x00\x10\x00"
    "\x00\x00\x0c\x00\x08\x00\x04\x00\x0e\x00\x00\x00\x28\x00\x00\x00\x01\x00\x00\x00\x10\x00"
    "\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x62\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x3f\x00\x00\x80\xbf",
    328);

/// The training graph of y = x w + b, with the gradients of w and b.
inline const char *const trainingGraph =
    R"(<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]>
  net (float[2, 3] x, int64[2] labels, float[3, 2] w, float[2] b,
       float[3, 2] w_grad.accumulation.buffer, float[2] b_grad.accumulation.buffer,
       bool[1] lazy_reset_grad)
      => (float loss, bool[1] w_grad.accumulation.out, bool[1] b_grad.accumulation.out) {
    y = Gemm(x, w, b)
    loss, log_prob = com.microsoft.SoftmaxCrossEntropyLossInternal<reduction = "mean">(y, labels)
    one = Constant<value = float {1.0}>()
    y_grad = com.microsoft.SoftmaxCrossEntropyLossInternalGrad<reduction = "mean">(one, log_prob, labels)
    w_grad = Gemm<transA = 1>(x, y_grad)
    b_grad = com.microsoft.ReduceSumTraining(y_grad)
    w_grad.accumulation.out = com.microsoft.InPlaceAccumulatorV2(w_grad.accumulation.buffer, w_grad, lazy_reset_grad)
    b_grad.accumulation.out = com.microsoft.InPlaceAccumulatorV2(b_grad.accumulation.buffer, b_grad, lazy_reset_grad)
  })";

class OrtArtifacts : public ::testing::Test {
protected:
  void SetUp() override {
    folder =
        std::filesystem::path(::testing::TempDir()) /
        ("pdc-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder);
    write("checkpoint", checkpointBytes);
    write("training_model.onnx", named(trainingGraph).SerializeAsString());
    write("optimizer_model.onnx", optimizer("AdamWOptimizer<adam_mode = 1, alpha = 0.8>"));
  }

  /// The text form has no dots in names.
  static onnx::ModelProto named(std::string text) {
    const std::string dotted = ".accumulation.";
    for (size_t at; (at = text.find(dotted)) != std::string::npos;)
      text.replace(at, dotted.size(), "_accumulation_");
    onnx::ModelProto proto = protoOf(text);
    auto rename = [](std::string &name) {
      if (size_t at = name.find("_accumulation_"); at != std::string::npos)
        name.replace(at, 14, ".accumulation.");
    };
    for (auto *values :
         {proto.mutable_graph()->mutable_input(), proto.mutable_graph()->mutable_output()})
      for (onnx::ValueInfoProto &value : *values)
        rename(*value.mutable_name());
    for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
      for (auto *names : {node.mutable_input(), node.mutable_output()})
        for (std::string &name : *names)
          rename(name);
    return proto;
  }

  static std::string optimizer(const std::string &call) {
    return protoOf(R"(<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]>
      step (float[1] rate, float[1] a) => (bool[1] done) { done = com.microsoft.)" +
                   call + "(rate, a) }")
        .SerializeAsString();
  }

  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }

  Model model(const ArtifactFiles &files = {}) const {
    return readModel(folder / "training_model.onnx", files);
  }

  std::string refused(const ArtifactFiles &files = {}) const {
    try {
      model(files);
      return "";
    } catch (const Error &error) {
      return error.what();
    }
  }

  std::filesystem::path folder;
};

} // namespace pdc::testing
