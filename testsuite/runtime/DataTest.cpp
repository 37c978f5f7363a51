#include "runtime/Checkpoint.h"
#include "runtime/Dataset.h"
#include "runtime/Error.h"
#include "runtime/LearningRate.h"
#include "runtime/LossScale.h"
#include "runtime/SmallFloats.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>
#include <zlib.h>

using namespace pdc::runtime;
namespace fs = std::filesystem;

class Data : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("pdc-data-" + std::to_string(getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string write(const std::string &bytes, const std::string &name = "file") {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return folder / name;
  }
  std::string zipped(const std::string &bytes) {
    std::string path = folder / "file.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), unsigned(bytes.size()));
    gzclose(file);
    return path;
  }
  static std::string idx(char type, std::vector<uint32_t> shape, const std::string &data) {
    std::string bytes = {0, 0, type, char(shape.size())};
    for (uint32_t size : shape)
      for (int shift : {24, 16, 8, 0})
        bytes += char(size >> shift);
    return bytes + data;
  }
  static std::string npy(const std::string &header, const std::string &data) {
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
    bytes += char(header.size() & 255);
    bytes += char(header.size() >> 8);
    return bytes + header + data;
  }
  static std::string tensors(const std::string &header, const std::string &data) {
    uint64_t length = header.size();
    return std::string(reinterpret_cast<char *>(&length), 8) + header + data;
  }
  std::string refusal(const std::string &path) {
    try {
      openData(path, "x");
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }

  fs::path folder;
};

TEST_F(Data, MappedFilesAreReadAndInflatedOnesKept) {
  std::string text(1 << 20, 'a');
  std::vector<std::byte> buffer;
  FileBytes mapped(write(text)), inflated(zipped(text));
  const std::byte *part = mapped.read(mapped.bytes().data() + 10, 20, buffer);
  EXPECT_EQ(part, buffer.data());
  EXPECT_EQ(std::memcmp(part, text.data() + 10, 20), 0);
  EXPECT_EQ(mapped.heldBytes(), 0);
  EXPECT_EQ(inflated.read(inflated.bytes().data() + 10, 20, buffer), inflated.bytes().data() + 10);
  // Not a byte more than the data.
  EXPECT_EQ(inflated.heldBytes(), 1 << 20);
  // What is kept is in memory, and nothing else.
  FileBytes kept(write(text, "kept"));
  const std::byte *ten = kept.keep(kept.bytes().data() + 10, 30);
  EXPECT_EQ(kept.heldBytes(), 30);
  fs::resize_file(kept.path(), 100);
  EXPECT_EQ(std::memcmp(kept.read(ten, 20, buffer), text.data() + 10, 20), 0);
  // A file that shrinks while it is read is an error, not a signal.
  fs::resize_file(mapped.path(), 100);
  try {
    mapped.read(mapped.bytes().data() + 90, 20, buffer);
    ADD_FAILURE() << "accepted";
  } catch (const Error &error) {
    EXPECT_TRUE(
        std::string(error.what())
            .ends_with(": cannot be read any more: it has been cut off since it was opened"));
  }
}

TEST_F(Data, ReadsEachFormatAndItsGzippedForm) {
  std::string image = idx(8, {2, 1, 3}, "abcdef");
  for (const std::string &path : {write(image), zipped(image)}) {
    DataFile data = openData(path, "x");
    EXPECT_EQ(data.tensor.shape, (std::vector<int64_t>{2, 1, 3}));
    EXPECT_EQ(std::memcmp(data.tensor.data, "abcdef", 6), 0);
  }
  DataFile array = openData(
      write(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", "aabbcc")), "x");
  EXPECT_EQ(array.tensor.shape, (std::vector<int64_t>{3}));
  for (const char *type : {"U16", "U32", "U64"}) {
    const int bytes = std::atoi(type + 1) / 8;
    const std::string header = std::string(R"({"x":{"dtype":")") + type +
                               R"(","shape":[2],"data_offsets":[0,)" + std::to_string(2 * bytes) +
                               "]}}";
    const std::string data(size_t(2 * bytes), 'a');
    EXPECT_EQ(scalarName(openData(write(tensors(header, data)), "x").tensor.type),
              std::string_view(type));
  }
  DataFile named =
      openData(write(tensors(R"({"x":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]},)"
                             R"("y":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                             "abcde")),
               "x");
  EXPECT_EQ(named.tensor.shape, (std::vector<int64_t>{2, 2}));
}

TEST_F(Data, RefusalsNameFileAndField) {
  EXPECT_NE(refusal((folder / "none").string()).find("cannot be read"), std::string::npos);
  EXPECT_NE(refusal(write("")).find("neither IDX nor NPY"), std::string::npos);
  EXPECT_NE(refusal(write("random bytes, not a tensor")).find("neither IDX"), std::string::npos);
  EXPECT_NE(refusal(write(idx(8, {2, 3}, "abcde"))).find("IDX dimensions [2x3] do not fit 5"),
            std::string::npos);
  EXPECT_NE(refusal(write(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, ""))).find("do not fit"),
            std::string::npos);
  EXPECT_NE(refusal(write(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abc")))
                .find("NPY shape [2] does not fit"),
            std::string::npos);
  EXPECT_NE(refusal(write(npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "abc")))
                .find("NPY element type"),
            std::string::npos);
  EXPECT_NE(refusal(write(npy("{'fortran_order': False}", ""))).find("no 'descr'"),
            std::string::npos);
  EXPECT_NE(
      refusal(write(tensors(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})", "a")))
          .find("tensor 'x': data_offsets lie outside"),
      std::string::npos);
  EXPECT_NE(
      refusal(write(tensors(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,1]}})", "a")))
          .find("tensor 'x': shape [-2] does not fit"),
      std::string::npos);
  EXPECT_NE(refusal(write(tensors("{\"x\":", ""))).find("not a JSON object"), std::string::npos);
  std::string cut = zipped(idx(8, {2, 3}, "abcdef"));
  fs::resize_file(cut, fs::file_size(cut) - 6);
  EXPECT_NE(refusal(cut).find("gzip data is damaged or cut off"), std::string::npos);
}

TEST_F(Data, EveryPrefixOfAFileIsRefusedOrRead) {
  for (const std::string &whole :
       {idx(13, {2, 2}, std::string(16, 'a')),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", std::string(16, 'a')),
        tensors(R"({"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})",
                std::string(16, 'a'))})
    for (size_t length = 0; length < whole.size(); ++length)
      EXPECT_NE(refusal(write(whole.substr(0, length))), "") << length;
}

/// Bits as IEEE 754 has them, each next to where rounding turns.
TEST(SmallFloat, RoundsToTheNearestEven) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (auto [value, bits] : {std::pair(0.0f, 0x0000),
                             {-0.0f, 0x8000},
                             {1.0f, 0x3c00},
                             {-2.5f, 0xc100},
                             {65504.0f, 0x7bff},
                             {infinity, 0x7c00},
                             {-infinity, 0xfc00},
                             {0x1p-14f, 0x0400},
                             {0x1p-24f, 0x0001},
                             {0x3ffp-24f, 0x03ff}}) {
    EXPECT_EQ(Float16(value).bits, bits) << value;
    EXPECT_EQ(float(Float16(value)), value);
  }
  for (auto [value, bits] : {std::pair(65519.9f, 0x7bff),
                             {65520.0f, 0x7c00},
                             {1 + 0x1p-11f, 0x3c00},
                             {1 + 0x3p-11f, 0x3c02},
                             {2 - 0x1p-12f, 0x4000},
                             {0x1p-25f, 0x0000},
                             {0x1.8p-24f, 0x0002},
                             {1e-30f, 0x0000}})
    EXPECT_EQ(Float16(value).bits, bits) << value;
  for (auto [value, bits] : {std::pair(1.0f, 0x3f80),
                             {1 + 0x1p-8f, 0x3f80},
                             {1 + 0x3p-8f, 0x3f82},
                             {-infinity, 0xff80},
                             {3.4e38f, 0x7f80},
                             {0x1p-133f, 0x0001}})
    EXPECT_EQ(BFloat16(value).bits, bits) << value;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(float(Float16(nan))) && std::isnan(float(BFloat16(nan))));
}

TEST(Order, IsAPermutationThatDependsOnSeedAndEpoch) {
  for (int64_t samples : {1, 2, 3, 17, 64, 1000}) {
    std::set<int64_t> seen;
    for (int64_t position = 0; position < samples; ++position)
      seen.insert(shuffled(7, 3, samples, position));
    EXPECT_EQ(int64_t(seen.size()), samples);
    EXPECT_EQ(*seen.rbegin(), samples - 1);
  }
  int same = 0;
  for (int64_t position = 0; position < 1000; ++position)
    same += shuffled(7, 3, 1000, position) == shuffled(7, 4, 1000, position);
  EXPECT_LT(same, 20);
}

TEST(DataSpecText, KnowsItsFields) {
  DataSpec spec = parseDataSpec("input=a,b.npy,mean=0.25,std=2");
  EXPECT_EQ(spec.input, "input");
  EXPECT_EQ(spec.file, "a,b.npy");
  EXPECT_EQ(spec.mean, 0.25f);
  EXPECT_EQ(spec.deviation, 2.0f);
  EXPECT_THROW(parseDataSpec("file.npy"), Error);
  EXPECT_THROW(parseDataSpec("x=file,std=0"), Error);
  EXPECT_THROW(parseDataSpec("x=file,mean=a"), Error);
  EXPECT_FALSE(parseDataSpec("input=a").scales);
  EXPECT_TRUE(parseDataSpec("input=a,mean=0").scales);
  spec = parseDataSpec("tokens=train.bin,type=u16,skip=1");
  EXPECT_EQ(spec.file, "train.bin");
  EXPECT_EQ(spec.type, Scalar::u16);
  EXPECT_EQ(spec.skipped, 1);
  for (auto [text, says] :
       {std::pair("x=", "found 'x=', expected the name of a file behind 'x='"),
        {"x=file,std=1e-45", "'std=1e-45' a finite number above 0 that numbers can be divided by"},
        {"x=file,type=U16", "'type=U16' one of u8, u16"},
        {"x=file,type=u16,skip=-1", "'skip=-1' a whole number of at least 0"},
        {"x=file,skip=1", "expected with skip= the type"}})
    try {
      parseDataSpec(text);
      ADD_FAILURE() << text;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
}

/// PyTorch's GradScaler by its documentation: growth factor 2 after 2000 steps, backoff 1/2.
TEST(LossScales, HalveOnOverflowAndDoubleAfterGoodSteps) {
  LossScale scale;
  auto good = [&](int64_t steps) {
    for (int64_t i = 0; i < steps; ++i)
      scale.endStep(false, 24);
  };
  EXPECT_EQ(scale.value, 65536);
  good(1999);
  EXPECT_EQ(scale.value, 65536);
  good(1);
  EXPECT_EQ(scale.value, 131072);
  good(1500);
  scale.endStep(true, 24);
  EXPECT_EQ(scale.value, 65536);
  EXPECT_TRUE(scale.overflowed);
  good(1999);
  EXPECT_EQ(scale.value, 65536) << "good steps are counted from the last overflow";
  good(1);
  EXPECT_EQ(scale.value, 131072);
  EXPECT_EQ(scale.leftOut, 1);
  EXPECT_EQ(scale.factor(), 131072 / 32.0) << "of the mean over 24 labels, in powers of two";
}

/// 65536 is the scale of the mean loss, however many labels a minibatch turns out to have.
TEST(LossScales, KeepTheirValueWhereMoreWeightCameThanWasExpected) {
  LossScale scale;
  scale.expectWeight(8);
  EXPECT_EQ(scale.factor(), 65536 / 8.0);
  scale.endStep(true, 8192);
  EXPECT_EQ(scale.factor(), 65536 / 8192.0);
  EXPECT_EQ(scale.leftOut, 1);
  scale.endStep(true, 8192);
  EXPECT_EQ(scale.factor(), 32768 / 8192.0);
}

TEST(LearningRates, FollowTheirSchedules) {
  LearningRate constant(0.5, "constant,warmup=4", 10);
  EXPECT_DOUBLE_EQ(constant.at(1), 0.125);
  EXPECT_DOUBLE_EQ(constant.at(9), 0.5);
  LearningRate cosine(1, "cosine", 10);
  EXPECT_DOUBLE_EQ(cosine.at(1), 1);
  EXPECT_NEAR(cosine.at(6), 0.5, 1e-12);
  LearningRate linear(1, "linear", 10);
  EXPECT_NEAR(linear.at(10), 0.1, 1e-12);
  LearningRate steps(1, "step,size=2,gamma=0.5", 10);
  EXPECT_DOUBLE_EQ(steps.at(2), 1);
  EXPECT_DOUBLE_EQ(steps.at(5), 0.25);
  for (auto [schedule, says] :
       {std::pair("cosine,warmup=x", "found 'warmup=x', expected a whole number from 0 to 1e15"),
        {"cosine,warmup=-1", "found 'warmup=-1', expected a whole number from 0"},
        {"step,size=0", "found 'size=0', expected a whole number from 1"},
        {"step,gamma=nan", "found 'gamma=nan', expected a number from 0 to 1e15"},
        {"cosine,gamma=0.5", "found 'gamma=0.5', expected warmup=N"},
        {"exponential", "'exponential' is not known; expected constant|step"}})
    try {
      LearningRate(1, schedule, 10);
      ADD_FAILURE() << schedule;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
}
