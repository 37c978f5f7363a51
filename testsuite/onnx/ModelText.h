#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

namespace pdc::testing {

/// A model in ONNX's text form, as protobuf.
inline onnx::ModelProto protoOf(const std::string &text) {
  onnx::ModelProto model;
  auto status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

inline Model read(const onnx::ModelProto &proto) {
  return parseModel(proto.SerializeAsString(), "test.onnx");
}

inline const char *header = "<ir_version: 8, opset_import: [\"\" : 17]>\n";

inline bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// The text of the refusal, empty when nothing is refused.
inline std::string refusal(const onnx::ModelProto &proto) {
  try {
    read(proto);
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

inline onnx::TensorProto &addInitializer(onnx::ModelProto &model, const std::string &name,
                                         const std::vector<int64_t> &shape,
                                         const std::vector<float> &values) {
  onnx::TensorProto &tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t dimension : shape)
    tensor.add_dims(dimension);
  for (float value : values)
    tensor.add_float_data(value);
  return tensor;
}

inline onnx::TensorProto &addShape(onnx::ModelProto &model, const std::string &name,
                                   const std::vector<int64_t> &values) {
  onnx::TensorProto &tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(int64_t));
  return tensor;
}

/// metadata_props, a field that older classes of ONNX do not know.
inline void addMetadata(google::protobuf::Message &message, int field, const std::string &key,
                        const std::string &value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(
      field, entry.SerializeAsString());
}

/// What torch.export says of a program's inputs and outputs, a line each.
inline void addSignature(onnx::ModelProto &model, const std::string &lines) {
  addMetadata(*model.mutable_graph(), 16, "pkg.torch.export.ExportedProgram.graph_signature",
              lines);
}

} // namespace pdc::testing
