#include "compiler/onnx/Annotate.h"
#include "testsuite/onnx/ModelText.h"

#include <fstream>
#include <google/protobuf/unknown_field_set.h>

using namespace pdc;
using namespace pdc::testing;

/// Field 26 of ModelProto: name "two", two devices.
static const std::string twoDevices("\x0a\x03two\x10\x02", 7);

/// Field 10 of NodeProto: configuration "two", a sharding_spec, pipeline_stage.
static std::string stage(char number) {
  return std::string("\x0a\x03two\x12\x03\x0a\x01y\x18", 11) + number;
}

static void addField(google::protobuf::Message &message, int number, const std::string &bytes) {
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(number, bytes);
}

static onnx::ModelProto annotated() {
  onnx::ModelProto proto = protoOf(R"(<ir_version: 11, opset_import: ["" : 17, "local" : 1]>
    net (float[2, 3] x) => (float[2, 3] y) {
      a = Relu(x)
      b = local.twice(a)
      y = Tanh(b)
    }
    <domain: "local", opset_import: ["" : 17]>
    twice (p) => (q) { r = Relu(p)  q = Sigmoid(r) })");
  addField(proto, 26, twoDevices);
  for (int i = 0; i < 3; ++i)
    addField(*proto.mutable_graph()->mutable_node(i), 10, stage(i == 0 ? '\0' : '\1'));
  return proto;
}

TEST(PipelineStages, annotationsAreRead) {
  Model model = read(annotated());
  ASSERT_EQ(model.partitions.size(), 1u);
  EXPECT_EQ(model.partitions[0].configuration, "two");
  EXPECT_EQ(model.partitions[0].devices, 2);
  EXPECT_EQ(model.sharded, "the node that makes 'a' (Relu)");
  EXPECT_EQ(model.partitions[0].stages,
            (std::map<std::string, int>{
                {"Relu", 0}, {"Tanh", 1}, {"twice/Relu", 1}, {"twice/Sigmoid", 1}}));
}

TEST(PipelineStages, olderFilesHaveNone) {
  onnx::ModelProto proto = annotated();
  proto.set_ir_version(10);
  EXPECT_TRUE(read(proto).partitions.empty());
  EXPECT_EQ(read(proto).sharded, "");
  proto = annotated();
  for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
    node.GetReflection()->MutableUnknownFields(&node)->Clear();
  EXPECT_TRUE(read(proto).partitions.empty());
}

TEST(PipelineStages, refusals) {
  onnx::ModelProto proto = annotated();
  addField(*proto.mutable_graph()->mutable_node(0), 10, "\x0a\x01z");
  EXPECT_NE(refusal(proto).find("the model has no device configuration 'z'"), std::string::npos);
  proto = annotated();
  addField(proto, 26, twoDevices);
  EXPECT_NE(refusal(proto).find("device configuration 'two' is there twice"), std::string::npos);
  proto = annotated();
  addField(*proto.mutable_graph()->mutable_node(0), 10,
           std::string("\x0a\x03two\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 16));
  EXPECT_NE(refusal(proto).find("(Relu): pipeline_stage -1, expected 0 to"), std::string::npos);
  proto = annotated();
  addField(*proto.mutable_graph()->mutable_node(0), 10, "\xff\xff");
  EXPECT_NE(refusal(proto).find("no device configuration ''"), std::string::npos);
}

static std::filesystem::path freshFolder(const std::string &name) {
  std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

/// Exporters' names are paths: of what stands behind a node's name only the operators that it is composed
/// of are its parts. The model's own file may be the one that is written.
TEST(PipelineStages, pathsAreNoParts) {
  std::filesystem::path file = freshFolder("pdc-paths") / "model.onnx";
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2, 3] x) => (float[2, 3] y) { a = Sigmoid(x)  b = Relu(a)  y = Tanh(b) })");
  const char *names[] = {"/layer", "/layer/Relu", "/out"};
  for (int i = 0; i < 3; ++i)
    proto.mutable_graph()->mutable_node(i)->set_name(names[i]);
  std::ofstream(file, std::ios::binary) << proto.SerializeAsString();
  writeAnnotated(file, readModel(file),
                 {"pdc", 2, {{"/layer/Relu", 1}, {"/layer/Relu/Mul", 0}, {"/out/Mul.1", 1}, {"/out/part", 0}}}, file);
  Model again = readModel(file);
  ASSERT_EQ(again.partitions.size(), 1u);
  EXPECT_EQ(again.partitions[0].stages, (std::map<std::string, int>{{"/layer/Relu", 1}, {"/out", 1}}));
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".unfinished"));
}

/// What a killed run left may be a link to elsewhere; what cannot be replaced gets nothing beside
/// it.
TEST(PipelineStages, unfinishedFiles) {
  std::filesystem::path folder = freshFolder("pdc-unfinished"), from = folder / "model.onnx",
                        to = folder / "to.onnx";
  std::filesystem::path beside = to.string() + ".unfinished", elsewhere = folder / "elsewhere";
  std::ofstream(from, std::ios::binary)
      << protoOf(std::string(header) + "net (float[2] x) => (float[2] y) { y = Tanh(x) }")
             .SerializeAsString();
  std::ofstream(elsewhere) << "mine";
  std::filesystem::create_symlink(elsewhere, beside);
  Model model = readModel(from);
  writeAnnotated(from, model, {"pdc", 1, {}}, to);
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(to)));
  EXPECT_EQ(std::filesystem::file_size(elsewhere), 4u);
  std::filesystem::remove(to);
  std::filesystem::create_directory(to);
  EXPECT_THROW(writeAnnotated(from, model, {"pdc", 1, {}}, to), Error);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(beside)));
}

static void moveOutside(onnx::TensorProto &tensor) {
  tensor.clear_float_data();
  tensor.clear_raw_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto &location = *tensor.add_external_data();
  location.set_key("location");
  location.set_value("w.bin");
}

/// External data of a Constant node ties the annotated file to the folder too.
TEST(PipelineStages, externalDataStaysBeside) {
  std::filesystem::path folder = freshFolder("pdc-beside"), other = freshFolder("pdc-elsewhere");
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { w = Constant<value = float[2] {1, 2}>()  y = Add(x, w) })");
  moveOutside(*proto.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_t());
  std::ofstream(folder / "w.bin", std::ios::binary) << std::string(8, 0);
  std::ofstream(folder / "model.onnx", std::ios::binary) << proto.SerializeAsString();
  Model model = readModel(folder / "model.onnx");
  EXPECT_THROW(writeAnnotated(folder / "model.onnx", model, {"pdc", 1, {}}, other / "to.onnx"), Error);
  EXPECT_FALSE(std::filesystem::exists(other / "to.onnx"));
  writeAnnotated(folder / "model.onnx", model, {"pdc", 1, {}}, folder / "to.onnx");
  EXPECT_TRUE(std::filesystem::exists(folder / "to.onnx"));
}

TEST(PipelineStages, writtenAndReadAgain) {
  std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "pdc-stages";
  std::filesystem::create_directories(folder);
  std::filesystem::path from = folder / "from.onnx", to = folder / "to.onnx";
  onnx::ModelProto proto = annotated();
  proto.set_ir_version(8);
  std::ofstream(from, std::ios::binary) << proto.SerializeAsString();
  Model model = readModel(from);
  ModelPartition partition{"pdc", 3, {{"Relu", 0}, {"twice/Relu", 1}, {"twice/Sigmoid", 1}, {"Tanh/Mul.1", 2}}};
  writeAnnotated(from, model, partition, to);
  writeAnnotated(to, model, partition, from); // once more: nothing is there twice
  std::ifstream file(from, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  // NodeProto field 10 {1: "pdc", 3: 1} and field 9 {1: "pdc.stage", 2: "1"}, ModelProto field 26.
  EXPECT_NE(bytes.find(std::string("\x52\x07\x0a\x03pdc\x18\x01", 9)), std::string::npos);
  EXPECT_NE(bytes.find(std::string("\x4a\x0e\x0a\x09pdc.stage\x12\x01\x31", 16)), std::string::npos);
  EXPECT_NE(bytes.find(std::string("\xd2\x01\x07\x0a\x03pdc\x10\x03", 10)), std::string::npos);
  Model again = readModel(from);
  ASSERT_EQ(again.partitions.size(), 2u);
  EXPECT_EQ(again.partitions[0].configuration, "two");
  EXPECT_EQ(again.partitions[1].devices, 3);
  EXPECT_EQ(again.partitions[1].stages,
            (std::map<std::string, int>{
                {"Relu", 0}, {"Tanh", 2}, {"twice/Relu", 1}, {"twice/Sigmoid", 1}}));
}
