#include "runtime/Dataset.h"
#include "testsuite/runtime/ToyRun.h"

#include <limits>
#include <numeric>

/// Trains on x (f32[8,4]) and y (i64[8]) that other types and forms hold, too.
class TypedData : public ToyRun {
protected:
  static constexpr int64_t kSamples = 8;

  template <class T> void writeRaw(const std::string &name, const std::vector<T> &values) {
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char *>(values.data()), int64_t(values.size() * sizeof(T)));
  }
  template <class T>
  void writeNpy(const std::string &name, const std::string &type, const std::string &shape,
                const std::vector<T> &values) {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    std::ofstream file(folder / name, std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << char(header.size()) << '\0' << header;
    file.write(reinterpret_cast<const char *>(values.data()), int64_t(values.size() * sizeof(T)));
  }
  template <class T> static std::vector<T> labels() {
    return {T(1), T(200), T(3), T(0), T(5), T(66), T(7), T(8)};
  }
  template <class T> static std::vector<T> numbers() {
    std::vector<T> values(kSamples * kWidth);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = T(int(i % 7) - 3) / 4;
    return values;
  }
  /// The losses of an epoch and a half.
  std::vector<double> train(const std::string &x, const std::string &y,
                            std::vector<std::string> options = {}) {
    xFile = x;
    yFile = y;
    fs::remove(folder / "log");
    options.insert(options.end(),
                   {"--steps", "3", "--lr", "0.0009765625", "--log", folder / "log"});
    code = run({.stages = 2, .microbatches = 2}, kSamples, options);
    return code == 0 ? losses(folder / "log") : std::vector<double>();
  }
  void expectRefusal(const std::string &x, const std::string &y, const std::string &says) {
    train(x, y);
    EXPECT_EQ(code, 1) << says;
    EXPECT_NE(errors.find(says), std::string::npos) << errors << "does not say " << says;
  }
  void SetUp() override {
    ToyRun::SetUp();
    writeNpy("n.npy", "<f4", "8, 4", numbers<float>());
    writeNpy("i8.npy", "<i8", "8,", labels<int64_t>());
    expected = train("n.npy", "i8.npy");
    ASSERT_EQ(expected.size(), 3u) << errors;
  }

  std::vector<double> expected;
  int code = 0;
};

TEST_F(TypedData, WholeNumbersOfEachWidth) {
  writeNpy("u1.npy", "|u1", "8,", labels<uint8_t>());
  writeNpy("u2.npy", "<u2", "8,", labels<uint16_t>());
  writeNpy("u4.npy", "<u4", "8,", labels<uint32_t>());
  writeNpy("u8.npy", "<u8", "8,", labels<uint64_t>());
  std::vector<uint16_t> swapped = labels<uint16_t>();
  for (uint16_t &label : swapped)
    label = uint16_t(label << 8 | label >> 8);
  writeNpy("big.npy", ">u2", "8,", swapped);
  for (const char *file : {"u1.npy", "u2.npy", "u4.npy", "u8.npy", "big.npy"})
    EXPECT_EQ(train("n.npy", file), expected) << file << errors;
  std::vector<uint64_t> large = labels<uint64_t>();
  large[5] = uint64_t(1) << 63;
  writeNpy("large.npy", "<u8", "8,", large);
  expectRefusal("n.npy", "large.npy",
                "large.npy: sample 5 (counted from 0) of input 'y' holds at element 0 "
                "9223372036854775808, a number that the input's type cannot hold");
}

TEST_F(TypedData, BareNumbersAreRowsOfTheInput) {
  std::vector<uint16_t> tokens = labels<uint16_t>();
  tokens.insert(tokens.begin(), {9, 9, 9});
  writeRaw("tokens.bin", tokens);
  writeRaw("n.bin", numbers<float>());
  EXPECT_EQ(train("n.bin,type=f32", "tokens.bin,type=u16,skip=3"), expected) << errors;
  ASSERT_EQ(std::system(("gzip -k " + (folder / "tokens.bin").string()).c_str()), 0);
  EXPECT_EQ(train("n.bin,type=f32", "tokens.bin.gz,type=u16,skip=3"), expected) << errors;
  // What is behind the last row that all inputs have is left out.
  std::vector<float> more = numbers<float>();
  more.insert(more.end(), kWidth + 1, 0.5f);
  writeRaw("more.bin", more);
  EXPECT_EQ(train("more.bin,type=f32", "tokens.bin,type=u16,skip=3"), expected) << errors;
  more.insert(more.end(), kWidth, 0.5f);
  writeRaw("more.bin", more);
  expectRefusal("more.bin,type=f32", "i8.npy", "'y' has 8 samples and 'x' has 10");
  // Numbers that begin as a gzipped file does are none.
  tokens[0] = 0x8b1f;
  writeRaw("tokens.bin", tokens);
  EXPECT_EQ(train("n.npy", "tokens.bin,type=u16,skip=3"), expected) << errors;
  expectRefusal("n.npy", "tokens.bin", "tokens.bin: ");
  expectRefusal("n.npy", "tokens.bin,type=u16,skip=12",
                "tokens.bin: holds 11 numbers, of which skip=12 leaves none");
  expectRefusal("n.npy", "tokens.bin,type=u32",
                "tokens.bin: has 22 bytes, expected numbers of 4 bytes each");
  expectRefusal("n.npy", "i8.npy,type=u16", "i8.npy: is NPY, which says the type of its numbers");
  const std::string header = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} )";
  std::ofstream(folder / "t.safetensors")
      << static_cast<char>(header.size()) << std::string(7, '\0') << header << '\7';
  expectRefusal("n.npy", "t.safetensors,type=u8", "t.safetensors: is safetensors, which says");
}

TEST_F(TypedData, OnlyNumbersThatF32HasAreTaken) {
  auto refused = [&](const std::string &type, auto values, const std::string &says,
                     const std::string &fields = "") {
    writeNpy("wrong.npy", type, "8, 4", values);
    expectRefusal("wrong.npy" + fields, "i8.npy",
                  "wrong.npy: sample 2 (counted from 0) of input 'x' holds at element 3 " + says);
  };
  std::vector<double> wide = numbers<double>();
  EXPECT_EQ((writeNpy("f8.npy", "<f8", "8, 4", wide), train("f8.npy", "i8.npy")), expected);
  wide[11] = 1e300;
  refused("<f8", wide, "1e+300, which is none of f32; correct the file");
  refused("<f8", wide, "1e+300, which is none of f32 once mean= and std= scale it", ",std=2");
  wide[11] = std::numeric_limits<double>::quiet_NaN();
  refused("<f8", wide, "nan, expected a number");
  std::vector<float> narrow = numbers<float>();
  narrow[11] = 1e30f;
  refused("<f4", narrow, "1e+30, which is none of f32 once", ",std=1e-10");
  // So do bytes, each of which becomes one number.
  writeNpy("bytes.npy", "|u1", "8, 4", std::vector<uint8_t>(32, 255));
  expectRefusal("bytes.npy,mean=-4,std=1.3e-38", "i8.npy",
                "bytes.npy: mean=-4 and std=1.3e-38 scale 109 to inf, expected a finite number");
  EXPECT_EQ(train("bytes.npy,mean=1", "i8.npy").size(), 3u) << errors;
  // An infinity is what a mask may hold: what is made of it is the network's affair.
  for (double infinity : {INFINITY, -INFINITY}) {
    wide[11] = narrow[11] = float(infinity);
    writeNpy("infinite.npy", "<f8", "8, 4", wide);
    train("infinite.npy", "i8.npy");
    EXPECT_EQ(errors.find("infinite.npy"), std::string::npos) << errors;
    EXPECT_NE(errors.find("the loss is"), std::string::npos) << errors;
  }
}

TEST_F(TypedData, WholeNumbersAreNotScaled) {
  for (const char *field : {",mean=0", ",std=2", ",mean=1,std=2"})
    expectRefusal("n.npy", std::string("i8.npy") + field,
                  "i8.npy: input 'y' takes integers, which mean= and std= do not scale; leave them "
                  "out");
  EXPECT_EQ(train("n.npy,mean=0,std=1", "i8.npy"), expected) << errors;
}

/// One rank whose only input is x, f32[32,512] of a microbatch.
struct LargeSamples {
  static constexpr int64_t kSize = 32, kElements = 512, kSamples = 100;

  LargeSamples() {
    program.microbatchSize = kSize;
    program.memories = memories;
    program.stages = {&stage, 1};
  }

  const int64_t shape[2] = {kSize, kElements};
  const Memory memories[1] = {
      {"x", Role::input, ElementType::f32, shape, "", {0, 0}, kSize *kElements * 4}};
  const StageInfo stage{0, {}, 0, 0, {}, -1, 0, 0, {}, {}};
  Program program{};
};

/// Reads that this process has made.
int64_t readsMade() {
  std::ifstream file("/proc/self/io");
  for (std::string name; file >> name;)
    if (int64_t count = 0; name == "syscr:" && file >> count)
      return count;
  return -1;
}

TEST_F(TypedData, NeighboursAreReadTogether) {
  if (readsMade() < 0)
    GTEST_SKIP() << "this system does not count reads";
  LargeSamples large;
  std::vector<float> values(LargeSamples::kSamples * LargeSamples::kElements);
  std::iota(values.begin(), values.end(), 0.0f);
  writeRaw("large.bin", values);
  LocalControlPlane plane(1);
  for (bool evaluation : {false, true})
    for (bool shuffles : {false, true}) {
      Dataset data(large.program,
                   {parseDataSpec("x=" + (folder / "large.bin").string() + ",type=f32")},
                   evaluation, plane.of(0));
      data.shuffle = shuffles;
      std::vector<float> found(LargeSamples::kSize * LargeSamples::kElements);
      for (int64_t microbatch = 0; microbatch < data.microbatches(); ++microbatch) {
        const int64_t before = readsMade();
        data.fill(large.memories[0], reinterpret_cast<std::byte *>(found.data()), microbatch);
        if (evaluation || !shuffles) {
          EXPECT_LE(readsMade() - before, 2 + LargeSamples::kSize / 16);
        }
        for (int64_t i = 0; i < LargeSamples::kSize; ++i) {
          const int64_t position = microbatch * LargeSamples::kSize + i;
          const int64_t sample =
              evaluation || !shuffles ? position : shuffled(0, 0, LargeSamples::kSamples, position);
          ASSERT_EQ(std::vector<float>(found.begin() + i * LargeSamples::kElements,
                                       found.begin() + (i + 1) * LargeSamples::kElements),
                    std::vector<float>(values.begin() + sample * LargeSamples::kElements,
                                       values.begin() + (sample + 1) * LargeSamples::kElements))
              << microbatch << " " << i;
        }
      }
    }
}
