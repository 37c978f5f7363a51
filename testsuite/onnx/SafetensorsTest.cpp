#include "compiler/onnx/Safetensors.h"
#include "testsuite/DamagedText.h"
#include "testsuite/EveryCase.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace pdc;

static std::filesystem::path temporary(const std::string &name) {
  return std::filesystem::path(::testing::TempDir()) / name;
}

static Initializer stored(const std::string &name, std::vector<int64_t> shape, std::string bytes) {
  uint64_t length = bytes.size();
  return {name, {ElementType::f32, std::move(shape)}, {}, std::move(bytes), {}, 0, length};
}

TEST(Safetensors, writesWhatItReads) {
  Model model;
  model.initializers["b"] = stored("b", {2}, "abcdefgh");
  model.initializers["a \"quoted\""] = stored("a \"quoted\"", {}, "1234");
  model.initializers["filled"] = {"filled", {ElementType::f32, {9}}, 0.5, {}, {}, 0, 0};
  model.initializers["shape"] = {"shape", {ElementType::i64, {1}}, {}, "12345678", {}, 0, 8};
  std::filesystem::path path = temporary("weights.safetensors");
  writeWeights(model, path);
  auto tensors = readSafetensors(path);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(readBytes(path, tensors.at("a \"quoted\"")), "1234");
  EXPECT_EQ(readBytes(path, tensors.at("b")), "abcdefgh");
  EXPECT_EQ(tensors.at("b").type.toString(), "f32[2]");
}

/// Those of other widths as f32, held or in a file that is read in pieces.
TEST(Safetensors, writesF32) {
  const size_t count = 300'000;
  std::vector<double> doubles(count);
  std::vector<float> floats(count);
  for (size_t i = 0; i < count; ++i)
    floats[i] = static_cast<float>(doubles[i] = 1.0 / static_cast<double>(i + 1));
  const std::string bytes(reinterpret_cast<const char *>(doubles.data()), 8 * count),
      expected(reinterpret_cast<const char *>(floats.data()), 4 * count);
  std::filesystem::path beside = temporary("weights.data");
  std::ofstream(beside, std::ios::binary) << "12" << bytes;
  Initializer held = stored("held", {int64_t(count)}, bytes), away = held;
  held.type.element = away.type.element = ElementType::f64;
  away.name = "away", away.bytes.clear(), away.file = beside, away.offset = 2;
  Initializer last = held;
  last.name = "last";
  Model model;
  for (Initializer *initializer : {&held, &away, &last}) {
    makeComputed(*initializer);
    model.initializers[initializer->name] = *initializer;
  }
  std::filesystem::path path = temporary("weights.safetensors");
  writeWeights(model, path);
  for (const auto &[name, tensor] : readSafetensors(path)) {
    EXPECT_EQ(tensor.type.toString(), "f32[300000]");
    EXPECT_TRUE(readBytes(path, tensor) == expected) << name;
  }
}

static std::string refusal(const std::string &header, const std::string &data = "12345678") {
  std::filesystem::path path = temporary("damaged.safetensors");
  std::ofstream out(path, std::ios::binary);
  for (size_t i = 0; i < 8; ++i)
    out.put(static_cast<char>(header.size() >> (8 * i)));
  out << header << data;
  out.close();
  try {
    readSafetensors(path);
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(Safetensors, refusesDamagedFiles) {
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"), "");
  for (const char *header :
       {"", "{", "[]x", "[1]", "3", R"({"w":1})", R"({"w":{}})",
        R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})",
        R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
        R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
        R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
        R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
        R"({"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})",
        R"({"w":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})"})
    EXPECT_NE(refusal(header), "") << header;
  EXPECT_NE(refusal(std::string(100000, '[')), "");
  EXPECT_TRUE(refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})")
                  .ends_with(": has 4 bytes behind the last tensor of its header; it is damaged: "
                             "take another copy"));
  std::ofstream(temporary("short.safetensors")) << "abc";
  EXPECT_THROW(readSafetensors(temporary("short.safetensors")), Error);
  EXPECT_THROW(readSafetensors(temporary("absent.safetensors")), Error);
}

/// What is read lies in the file; any other exception fails the test.
TEST(Safetensors, drawnHeadersAreReadOrRefused) {
  const std::string header =
      R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  int refused = 0;
  for (int round = 0; round < 1000; round += kEveryCase) {
    std::mt19937 random = drawsOf(1, round);
    std::string text = damaged(header, random);
    std::string says = refusal(text);
    refused += !says.empty();
    EXPECT_EQ(says.find('\n'), std::string::npos) << text;
  }
  EXPECT_GT(refused, 400 / kEveryCase);
}
