#include "testsuite/onnx/ModelText.h"

#include <fstream>

using namespace pdc;
using namespace pdc::testing;
using ::testing::TempDir;

/// x + w, where a file holds w.
static onnx::ModelProto sumWith(const char *file) {
  onnx::ModelProto proto = protoOf(std::string(header) + R"(
    net (float[2] x) => (float[2] y) { y = Add(x, w) })");
  onnx::TensorProto &w = addInitializer(proto, "w", {2}, {});
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  auto &location = *w.add_external_data();
  location.set_key("location");
  location.set_value(file);
  return proto;
}

TEST(ExternalData, isReadLazily) {
  std::filesystem::path folder = std::filesystem::path(TempDir()) / "external";
  std::filesystem::create_directories(folder);
  onnx::ModelProto proto = sumWith("w.bin");
  onnx::TensorProto &w = *proto.mutable_graph()->mutable_initializer(0);
  auto &location = *w.mutable_external_data(0);
  auto &offset = *w.add_external_data();
  offset.set_key("offset");
  offset.set_value("4");
  float values[] = {9, 5, 6};
  std::ofstream(folder / "w.bin", std::ios::binary)
      .write(reinterpret_cast<char *>(values), sizeof values);
  std::ofstream(folder / "model.onnx", std::ios::binary) << proto.SerializeAsString();
  Model model = readModel(folder / "model.onnx");
  EXPECT_TRUE(model.initializers.at("w").bytes.empty());
  EXPECT_EQ(readTensor(model.initializers.at("w")).data, (std::vector<double>{5, 6}));

  offset.set_value("5");
  EXPECT_THROW(parseModel(proto.SerializeAsString(), "m", {folder}), Error);
  offset.set_value("18446744073709551615");
  EXPECT_THROW(parseModel(proto.SerializeAsString(), "m", {folder}), Error);
  for (const char *outside : {"../w.bin", "/etc/passwd", "a/../../w.bin", ".", ""}) {
    offset.set_value("0");
    location.set_value(outside);
    EXPECT_THROW(parseModel(proto.SerializeAsString(), "m", {folder}), Error) << outside;
  }
  std::ofstream(folder / "empty.bin");
  for (auto [file, reason] :
       {std::pair("none.bin", "cannot be read: No such"), {"empty.bin", "has 0 bytes"}})
    try {
      location.set_value(file);
      FAIL() << parseModel(proto.SerializeAsString(), "m", {folder}).name;
    } catch (const Error &error) {
      EXPECT_TRUE(has(error.what(), reason)) << error.what();
    }
  std::filesystem::remove(folder / "link.bin");
  std::filesystem::create_symlink("/etc/passwd", folder / "link.bin");
  location.set_value("link.bin");
  EXPECT_THROW(parseModel(proto.SerializeAsString(), "m", {folder}), Error);
  EXPECT_TRUE(has(refusal(proto), "of a model that is not read from a file"));
}

/// As Hugging Face's cache keeps them: snapshots/REVISION/model.onnx is a link to ../../blobs/HASH.
TEST(ExternalData, linksOfACache) {
  namespace fs = std::filesystem;
  const fs::path cache = fs::path(TempDir()) / "cache", snapshot = cache / "snapshots/1";
  fs::remove_all(cache);
  for (const fs::path &folder : {cache / "blobs", cache / "others", snapshot})
    fs::create_directories(folder);
  const onnx::ModelProto proto = sumWith("model.onnx_data");
  const float values[] = {5, 6};
  for (const char *folder : {"blobs", "others"})
    std::ofstream(cache / folder / "b2").write(reinterpret_cast<const char *>(values), 8);
  std::ofstream(cache / "blobs/b1") << proto.SerializeAsString();
  fs::create_symlink("../../blobs/b1", snapshot / "model.onnx");
  auto link = [&](const char *target) {
    fs::remove(snapshot / "model.onnx_data");
    fs::create_symlink(target, snapshot / "model.onnx_data");
  };
  link("../../blobs/b2");
  fs::create_directory_symlink(snapshot, cache / "latest");
  for (const fs::path &folder : {snapshot, cache / "latest"}) {
    const Model model = readModel(folder / "model.onnx");
    EXPECT_EQ(readTensor(model.initializers.at("w")).data, (std::vector<double>{5, 6}));
  }
  auto refusedFor = [&](const fs::path &path) -> std::string {
    try {
      return readModel(path).name;
    } catch (const Error &error) {
      return error.what();
    }
  };
  link("../../others/b2");
  EXPECT_TRUE(
      has(refusedFor(snapshot / "model.onnx"), "external data 'model.onnx_data' is a link to " +
                                                   fs::canonical(cache / "others/b2").string() +
                                                   ", outside of the model's folder"));
  link("../../blobs/b2");
  fs::remove(snapshot / "model.onnx");
  fs::copy_file(cache / "blobs/b1", snapshot / "model.onnx");
  EXPECT_TRUE(has(refusedFor(snapshot / "model.onnx"), "of the one that the model is a link into"));
}
