#include "testsuite/EveryCase.h"
#include "testsuite/runtime/ToyRun.h"

#include <functional>
#include <random>

using nlohmann::json;
using pdc::kEveryCase;

namespace {

constexpr const char *kState = "state.json", *kIndex = "model.safetensors.index.json",
                     *kPart = "model-00001-of-00002.safetensors";

std::string textOf(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Changes the header of a safetensors file, and leaves it without its padding.
void writeHeader(const fs::path &path, const std::function<void(json &)> &edit) {
  std::string text = textOf(path);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  json header = json::parse(text.substr(8, length));
  edit(header);
  std::string edited = header.dump(), data = text.substr(8 + length);
  length = edited.size();
  write(path, std::string(reinterpret_cast<char *>(&length), 8) + edited + data);
}

} // namespace

/// A checkpoint of two stages, of which a copy is damaged.
class Damaged : public ToyRun {
protected:
  void SetUp() override {
    ToyRun::SetUp();
    ASSERT_EQ(run(shape, 16, {"--steps", "2", "--save", folder / "saved"}), 0) << errors;
    whole = folder / "saved/step-000002";
  }

  int resume(const std::function<void(const fs::path &)> &damage) {
    fs::path copy = folder / "copy";
    fs::remove_all(copy);
    fs::copy(whole, copy);
    damage(copy);
    return run(shape, 16, {"--steps", "3", "--resume", copy});
  }
  void expectOneError(const std::string &says) {
    size_t first = errors.find("error: ");
    EXPECT_NE(first, std::string::npos) << errors;
    EXPECT_EQ(errors.find("error: ", first + 1), std::string::npos) << errors;
    EXPECT_NE(errors.find(says), std::string::npos) << errors << "does not say " << says;
  }
  void expectRefusal(const std::string &says, const std::function<void(const fs::path &)> &damage) {
    EXPECT_EQ(resume(damage), 1) << says;
    expectOneError(says);
  }
  void expectRefusal(const char *file, const std::string &says,
                     const std::function<void(json &)> &edit) {
    expectRefusal(says, [&](const fs::path &copy) {
      if (std::string_view(file) == kPart)
        return writeHeader(copy / file, edit);
      json fields = json::parse(textOf(copy / file));
      edit(fields);
      write(copy / file, fields.dump());
    });
  }

  const Shape shape{.stages = 2};
  fs::path whole;
};

TEST_F(Damaged, CountersAreWholeNumbersWithinBounds) {
  for (auto [field, value] : {std::pair("step", "\"x\""),
                              {"step", "-1"},
                              {"step", "1e300"},
                              {"step", "1.5"},
                              {"step", "null"},
                              {"step", "[[]]"},
                              {"step", "1099511627777"},
                              {"step", "99999999999999999999"},
                              {"epoch", "9223372036854775807"},
                              {"epoch", "true"},
                              {"cursor", "1e300"},
                              {"cursor", "-9223372036854775808"},
                              {"microbatch_size", "{}"}})
    expectRefusal(kState, std::string("state.json: '") + field + "' is ",
                  [&](json &state) { state[field] = json::parse(value); });
  EXPECT_NE(errors.find("expected a whole number from 0 to 1099511627776; resume from another"),
            std::string::npos)
      << errors;
  expectRefusal(kState, "'seed' is -1, expected a whole number from 0 to 18446744073709551615",
                [](json &state) { state["seed"] = -1; });
  for (std::string field : {"step", "epoch", "cursor", "seed"})
    expectRefusal(kState, "state.json: has no '" + field + "'",
                  [&](json &state) { state.erase(field); });
}

TEST_F(Damaged, CountersFitTheRun) {
  expectRefusal(kState, "stands in epoch 1099511627776 of 8 microbatches each",
                [](json &state) { state["epoch"] = int64_t(1) << 40; });
  expectRefusal(kState, "stands at microbatch 8 of an epoch and the data has 8",
                [](json &state) { state["cursor"] = 8; });
  expectRefusal(kState, "was written with microbatches of 3 samples, expected 2",
                [](json &state) { state["microbatch_size"] = 3; });
  EXPECT_EQ(resume([](const fs::path &copy) {
              json state = json::parse(textOf(copy / kState));
              state["step"] = int64_t(1) << 40;
              write(copy / kState, state.dump());
            }),
            0)
      << errors;
}

TEST_F(Damaged, IndexNamesFilesOfItsFolder) {
  for (json file : {json("../copy/model-00002-of-00002.safetensors"), json("/etc/passwd"),
                    json(".."), json(std::string("a\0b", 3)), json(7), json(nullptr)})
    for (const char *tensor : {"w1", "of no rank"})
      expectRefusal(
          kIndex, std::string("index.json: the file of tensor '") + tensor + "' is " + file.dump(),
          [&](json &index) { index["weight_map"][tensor] = file; });
  expectRefusal(kIndex, "none.safetensors: cannot be read",
                [](json &index) { index["weight_map"]["w1"] = "none.safetensors"; });
  expectRefusal(kIndex, "names no file for tensor 'w1', which rank 1 needs",
                [](json &index) { index["weight_map"].erase("w1"); });
  expectRefusal(kIndex, "'weight_map' is an array",
                [](json &index) { index["weight_map"] = json::array(); });
  expectRefusal(kIndex, "'weight_map' is missing", [](json &index) { index.clear(); });
  expectRefusal("index.json: cannot be read",
                [](const fs::path &copy) { fs::remove(copy / kIndex); });
}

TEST_F(Damaged, TensorsAreThoseOfTheModel) {
  // Its header may end anywhere.
  EXPECT_EQ(resume([](const fs::path &copy) { writeHeader(copy / kPart, [](json &) {}); }), 0)
      << errors;
  auto expect = [&](const std::string &says, const char *field, const char *value) {
    expectRefusal(kPart, std::string(kPart) + says,
                  [&](json &header) { header["w0"][field] = json::parse(value); });
  };
  expectRefusal(kPart, "has no tensor 'w0', expected F32[4], which rank 0 needs",
                [](json &header) { header.erase("w0"); });
  expect(": tensor 'w0' is F32[2x2], expected F32[4]", "shape", "[2, 2]");
  expect(": tensor 'w0' is I32[4], expected F32[4]", "dtype", "\"I32\"");
  expect(": tensor 'w0': dtype F99 is not supported", "dtype", "\"F99\"");
  expect(": tensor 'w0': shape [5] does not fit 16 bytes", "shape", "[5]");
  expect(": tensor 'w0': shape [4611686018427387904x4] does not fit", "shape",
         "[4611686018427387904, 4]");
  expect(": tensor 'w0': data_offsets lie outside the file", "data_offsets", "[1000, 1016]");
  for (auto [field, value] : {std::pair("dtype", "3"),
                              {"shape", "\"4\""},
                              {"shape", "[1e300]"},
                              {"shape", "[4.0]"},
                              {"shape", "[18446744073709551615]"},
                              {"shape", "{\"a\": 4}"},
                              {"data_offsets", "[0]"},
                              {"data_offsets", "[0, 1e300]"},
                              {"data_offsets", "{}"}})
    expect(": tensor 'w0': needs dtype, and in shape and data_offsets whole numbers", field, value);
}

/// Tensors of 16-bit numbers are made of the number that fills them, saved and loaded as they are.
TEST_F(Damaged, SixteenBitNumbersKeepTheirBits) {
  auto bitsIn = [](const fs::path &path, const char *tensor, const char *type) {
    std::string text = textOf(path);
    uint64_t length = 0;
    std::memcpy(&length, text.data(), 8);
    json entry = json::parse(text.substr(8, length))[tensor];
    EXPECT_EQ(entry["dtype"], type);
    EXPECT_EQ(entry["shape"], json({4}));
    std::vector<uint16_t> bits(4);
    std::memcpy(bits.data(), text.data() + 8 + length + entry["data_offsets"][0].get<int64_t>(), 8);
    return bits;
  };
  auto first = [&](std::vector<uint16_t> bits, const char *tensor, uint16_t value) {
    std::string text = textOf(whole / kPart);
    const std::string before(reinterpret_cast<char *>(bits.data()), 8);
    size_t at = text.find(before);
    ASSERT_NE(at, std::string::npos) << tensor;
    std::memcpy(text.data() + at, &value, 2);
    write(whole / kPart, text);
  };
  // 0.1 as IEEE 754 and as the upper half of 0x3dcccccd have it.
  const std::vector<uint16_t> half(4, 0x2e66), brain(4, 0x3dcd);
  EXPECT_EQ(bitsIn(whole / kPart, "w0/float16", "F16"), half);
  EXPECT_EQ(bitsIn(whole / kPart, "w0/bfloat16", "BF16"), brain);
  first(half, "w0/float16", 0xbc01);
  first(brain, "w0/bfloat16", 0x4049);
  ASSERT_EQ(run(shape, 16, {"--steps", "3", "--resume", whole, "--save", folder / "again"}), 0)
      << errors;
  const fs::path again = folder / "again/step-000003" / kPart;
  EXPECT_EQ(bitsIn(again, "w0/float16", "F16"),
            (std::vector<uint16_t>{0xbc01, 0x2e66, 0x2e66, 0x2e66}));
  EXPECT_EQ(bitsIn(again, "w0/bfloat16", "BF16"),
            (std::vector<uint16_t>{0x4049, 0x3dcd, 0x3dcd, 0x3dcd}));
  // Infinite, which training cannot go on from.
  first({0x4049, 0x3dcd, 0x3dcd, 0x3dcd}, "w0/bfloat16", 0x7f80);
  EXPECT_EQ(run(shape, 16, {"--steps", "3", "--resume", whole, "--save", folder / "never"}), 1);
  expectOneError("'w0/bfloat16' on rank 0 holds numbers that are nan or infinite");
}

TEST_F(Damaged, CutFilesAreRefused) {
  for (const char *file : {kState, kIndex, kPart}) {
    const std::string text = textOf(whole / file);
    for (size_t length = 0; length + 1 < text.size(); length += 11 * kEveryCase)
      expectRefusal(file, [&](const fs::path &copy) { fs::resize_file(copy / file, length); });
  }
}

TEST_F(Damaged, DrawnBytesEndInOneErrorOrNone) {
  std::mt19937 random;
  auto draw = [&](size_t most) { return std::uniform_int_distribution<size_t>(0, most)(random); };
  for (const char *file : {kState, kIndex, kPart}) {
    const std::string text = textOf(whole / file);
    for (int i = 0; i < 30; i += kEveryCase) {
      random = pdc::drawsOf(1, i);
      std::string other = text;
      other[draw(text.size() - 1)] = char(draw(255));
      // What still is a checkpoint is taken.
      if (int code = resume([&](const fs::path &copy) { write(copy / file, other); })) {
        EXPECT_EQ(code, 1) << other;
        expectOneError("error: ");
      }
    }
    for (int i = 0; i < 8; i += kEveryCase) {
      random = pdc::drawsOf(2, i);
      std::string other(draw(200), ' ');
      for (char &byte : other)
        byte = char(draw(255));
      expectRefusal(file, [&](const fs::path &copy) { write(copy / file, other); });
    }
  }
}
