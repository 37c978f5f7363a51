#include "compiler/onnx/OrtCheckpoint.h"
#include "testsuite/onnx/OrtArtifactsText.h"

#include <cmath>
#include <cstring>
#include <random>
#include <sys/stat.h>

using namespace pdc;
using namespace pdc::testing;
namespace fs = std::filesystem;

class OrtCheckpoints : public OrtArtifacts {};

using NamedNumbers = std::vector<std::pair<std::string, std::vector<float>>>;

TEST_F(OrtCheckpoints, checkpoint) {
  OrtCheckpoint checkpoint = readOrtCheckpoint(folder / "checkpoint");
  ASSERT_EQ(checkpoint.parameters.size(), 3u);
  EXPECT_EQ(checkpoint.trained, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(readTensor(checkpoint.parameters[0]).data, (std::vector<double>{0.5, -1}));
  EXPECT_EQ(checkpoint.parameters[1].type.toString(), "f32[3,2]");
  EXPECT_EQ(readTensor(checkpoint.parameters[1]).data, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(readTensor(checkpoint.parameters[2]).data, std::vector<double>{7});
  EXPECT_EQ(checkpoint.learningRates, std::vector<double>{0.25});
  EXPECT_EQ(checkpoint.steps, std::vector<int64_t>{0});
}

/// With two optimizer groups of these learning rates: a list and its tables behind the others,
/// which share the layout of the one that was there.
static std::string withGroups(float first, float second) {
  std::string bytes = checkpointBytes;
  auto append = [&](auto value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  const uint32_t placeOfList = 24, layout = 46, list = static_cast<uint32_t>(bytes.size());
  const uint32_t distance = list - placeOfList;
  std::memcpy(bytes.data() + placeOfList, &distance, sizeof distance);
  for (uint32_t value : {2U, 8U, 12U})
    append(value);
  for (float rate : {first, second}) {
    append(static_cast<uint32_t>(bytes.size()) - layout);
    append(rate);
  }
  return bytes;
}

TEST_F(OrtCheckpoints, learningRates) {
  // FlatBuffers leaves zeros out.
  std::string bytes = checkpointBytes;
  bytes[bytes.find(std::string("\0\0\x80\x3e", 4)) - 6] = 0;
  write("checkpoint", bytes);
  EXPECT_TRUE(model().training->optimizer.starts_with("adamw,lr=0,"))
      << model().training->optimizer;
  write("checkpoint", withGroups(0.5, 0.5));
  EXPECT_TRUE(model().training->optimizer.starts_with("adamw,lr=0.5,"))
      << model().training->optimizer;
  write("checkpoint", withGroups(0.5, 0.25));
  EXPECT_NE(refused().find("its optimizer groups have learning rates 0.5 and 0.25, expected one"),
            std::string::npos);
  EXPECT_EQ(refused({.needsOptimizer = false}), "");
  write("checkpoint", withGroups(-1, -1));
  EXPECT_NE(
      refused().find(
          "checkpoint: its optimizer group has learning rate -1, expected at least 0 and finite; "
          "give --optimizer"),
      std::string::npos);
}

TEST_F(OrtCheckpoints, statesOfEarlierSteps) {
  std::string bytes = checkpointBytes;
  bytes[52] = 4; // the group's layout has its step where its learning rate and its name are
  write("checkpoint", bytes);
  ASSERT_GT(readOrtCheckpoint(folder / "checkpoint").steps.at(0), 0);
  EXPECT_NE(refused().find(
                ", but 'b' has 0 optimizer states, expected AdamW's 2; give --optimizer to begin "
                "its states anew"),
            std::string::npos);
  EXPECT_EQ(refused({.needsOptimizer = false}), "");
  write("optimizer_model.onnx",
        optimizer("SGDOptimizerV2")); // ONNX Runtime saves states that it never reads
  EXPECT_TRUE(model().training->optimizer.starts_with("sgd,lr="));
}

TEST_F(OrtCheckpoints, steps) {
  for (char highest : {'\x7f', '\xff'}) {
    std::string bytes = checkpointBytes;
    bytes[52] = 4;
    bytes[67] = highest; // of the step's bytes, which end in the group's name
    write("checkpoint", bytes);
    EXPECT_NE(refused().find((folder / "checkpoint").string() + ": step "), std::string::npos)
        << refused();
  }
}

/// A sequence as releases before 1.15 wrote it: how many tensors, and each behind its length.
static std::string sequence(const NamedNumbers &tensors) {
  std::string bytes(1, static_cast<char>(tensors.size()));
  for (const auto &[name, values] : tensors) {
    onnx::ModelProto holder;
    addInitializer(holder, name, {static_cast<int64_t>(values.size())}, values);
    const std::string tensor = holder.graph().initializer(0).SerializeAsString();
    bytes += static_cast<char>(tensor.size());
    bytes += tensor;
  }
  return bytes;
}

TEST_F(OrtCheckpoints, foldersOfEarlierReleases) {
  fs::create_directories(folder / "old");
  write("old/paramtrain_tensors.pbseq", sequence({{"b", {0.5, -1}}, {"w", {1, 2, 3}}}));
  write("old/paramfrozen_tensors.pbseq", sequence({{"fixed", {7}}}));
  write("old/optim_group0_momentum0_tensors.pbseq", sequence({{"b", {1, 2}}, {"w", {3, 4, 5}}}));
  write("old/optim_group0_momentum1_tensors.pbseq", sequence({{"b", {6, 7}}, {"w", {8, 9, 10}}}));
  write("old/optim_group0_properties.pbseq",
        sequence({{"builtin.initial_learning_rate", {0.25}}, {"builtin.step", {3}}}));
  OrtCheckpoint old = readOrtCheckpoint(folder / "old");
  ASSERT_EQ(old.parameters.size(), 3u);
  EXPECT_EQ(old.trained, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(old.parameters[0].name, "fixed");
  EXPECT_EQ(readTensor(old.parameters[2]).data, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(old.learningRates, std::vector<double>{0.25});
  EXPECT_EQ(old.steps, std::vector<int64_t>{3});
  EXPECT_EQ(readTensor(old.states.at("w").at(1)).data, (std::vector<double>{8, 9, 10}));
  write("old/paramtrain_tensors.pbseq", sequence({{"b", {0.5, -1}}}).substr(0, 9));
  EXPECT_NE(refused({.checkpoint = folder / "old"})
                .find("paramtrain_tensors.pbseq: not the 1 tensors that it says at its beginning"),
            std::string::npos);
  fs::create_directories(folder / "empty");
  EXPECT_NE(
      refused({.checkpoint = folder / "empty"}).find("no checkpoint of ONNX Runtime's training"),
      std::string::npos);
}

/// A whole folder at step 3, which tests damage.
class OldCheckpoints : public OrtCheckpoints {
protected:
  void SetUp() override {
    OrtCheckpoints::SetUp();
    fs::remove_all(folder / "old");
    fs::create_directories(folder / "old");
    put("paramtrain_tensors", {{"b", {0.5, -1}}, {"w", {1, 2}}});
    put("optim_group0_momentum0_tensors", {{"b", {1, 2}}, {"w", {3, 4}}});
    put("optim_group0_momentum1_tensors", {{"b", {5, 6}}, {"w", {7, 8}}});
    putStep(3);
    std::string text = trainingGraph;
    for (size_t at; (at = text.find("float[3, 2] w")) != std::string::npos;)
      text.replace(at, 11, "float[2]");
    text.replace(text.find("Gemm(x, w, b)"), 13, "Add(w, b)");
    text.replace(text.find("int64[2] labels"), 15, "int64 labels");
    write("training_model.onnx", named(text).SerializeAsString());
  }
  void put(const std::string &name, const NamedNumbers &tensors) const {
    write("old/" + name + ".pbseq", sequence(tensors));
  }
  void putStep(float step) const {
    put("optim_group0_properties",
        {{"builtin.initial_learning_rate", {0.25}}, {"builtin.step", {step}}});
  }
  void remove(const std::string &name) const { fs::remove(folder / "old" / (name + ".pbseq")); }
  void expectRefused(const std::string &text) const {
    const std::string found = refused({.checkpoint = folder / "old"});
    EXPECT_NE(found.find((folder / "old").string() + ": " + text), std::string::npos) << found;
  }
};

TEST_F(OldCheckpoints, steps) {
  Model whole = model({.checkpoint = folder / "old"});
  EXPECT_TRUE(whole.training->optimizer.ends_with(",first_step=4")) << whole.training->optimizer;
  EXPECT_EQ(readTensor(whole.training->states.at("w/exp_avg")).data, (std::vector<double>{3, 4}));
  EXPECT_EQ(readTensor(whole.training->states.at("b/exp_avg_sq")).data,
            (std::vector<double>{5, 6}));
  for (float step : {-3.0F, 0.5F, std::nanf(""), HUGE_VALF, 9.223372e18F}) {
    putStep(step);
    expectRefused("optim_group0_properties.pbseq: step ");
  }
  // Whatever the step is, states are not thrown away.
  putStep(0);
  EXPECT_EQ(model({.checkpoint = folder / "old"}).training->states.size(), 4u);
  put("optim_group1_properties", {{"builtin.step", {5}}});
  expectRefused("its optimizer groups are of steps 0 and 5, expected one for all weights; give "
                "--optimizer to begin its states anew");
  remove("optim_group1_properties");
  const std::string missing = "has optimizer states of group 'group0', but no 'builtin.step' in "
                              "optim_group0_properties.pbseq";
  put("optim_group0_properties", {{"builtin.initial_learning_rate", {0.25}}});
  expectRefused(missing);
  put("optim_group1_properties", {{"builtin.step", {3}}});
  expectRefused(missing);
  remove("optim_group0_properties");
  expectRefused(missing);
}

TEST_F(OldCheckpoints, states) {
  const NamedNumbers first = {{"b", {1, 2}}, {"w", {3, 4}}}, both = {{"b", {1, 2}}, {"b", {5, 6}}};
  put("optim_group0_momentum0_tensors", both);
  remove("optim_group0_momentum1_tensors");
  expectRefused("optim_group0_momentum0_tensors.pbseq: optimizer state of 'b' is there twice");
  put("optim_group0_momentum0_tensors", first);
  expectRefused("is of step 3, but 'b' has 1 optimizer states, expected AdamW's 2");
  put("optim_group0_momentum2_tensors", first);
  expectRefused("optim_group0_momentum2_tensors.pbseq: not a file of AdamW, expected "
                "optim_GROUP_momentum0_tensors.pbseq, ");
  remove("optim_group0_momentum2_tensors");
  put("optim_group1_momentum0_tensors", first);
  expectRefused("optim_group1_momentum0_tensors.pbseq: optimizer state of 'b' is there twice");
  remove("optim_group1_momentum0_tensors");
  put("optim_group0_momentum1_tensors", {{"b", {5, 6}}, {"other", {7, 8}}});
  expectRefused("optim_group0_momentum1_tensors.pbseq: optimizer state of 'other' is not in "
                "optim_group0_momentum0_tensors.pbseq");
}

TEST_F(OldCheckpoints, numbersOfStates) {
  for (float wrong : {-1.0F, std::nanf(""), HUGE_VALF}) {
    put("optim_group0_momentum1_tensors", {{"b", {5, wrong}}, {"w", {7, 8}}});
    expectRefused("is of step 3, but 'b' has ");
  }
  put("optim_group0_momentum1_tensors", {{"b", {0, 6}}, {"w", {7, 8}}});
  put("optim_group0_momentum0_tensors", {{"b", {-1, 2}}, {"w", {3, 4}}});
  EXPECT_EQ(refused({.checkpoint = folder / "old"}), "");
  put("optim_group0_momentum0_tensors", {{"b", {1, HUGE_VALF}}, {"w", {3, 4}}});
  expectRefused("is of step 3, but 'b' has ");
}

/// The file is named that is broken.
TEST_F(OldCheckpoints, brokenFiles) {
  const std::string tooLong("\x01\xff\xff\xff\xff\x07", 6), namesOnly = std::string("\x02\0\0", 3);
  for (const char *name : {"paramtrain_tensors.pbseq", "optim_group0_momentum0_tensors.pbseq",
                           "optim_group0_properties.pbseq"}) {
    const std::string path = "old/" + std::string(name), before = name + std::string(": ");
    write(path, "");
    expectRefused(before + "empty or cut, expected the number of its tensors");
    write(path, tooLong);
    expectRefused(before + "not the 1 tensors that it says at its beginning");
    write(path, namesOnly);
    if (path.find("properties") == std::string::npos)
      expectRefused(before);
    SetUp();
  }
}

/// A pipe would be waited for.
TEST_F(OrtCheckpoints, noFile) {
  fs::remove(folder / "pipe");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(refused({.checkpoint = folder / "pipe"})
                .find("there is no file or folder " + (folder / "pipe").string() +
                      "; give --checkpoint FILE"),
            std::string::npos);
}

/// A checkpoint of this many tensors f32[] whose names are all this long and begin 4 bytes apart.
static std::string overlapping(uint32_t count, uint32_t length) {
  std::string bytes;
  auto shorts = [&](std::initializer_list<uint16_t> values) {
    for (uint16_t value : values)
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  auto words = [&](std::initializer_list<uint32_t> values) {
    for (uint32_t value : values)
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  const uint32_t tables = 60 + 4 * count, raw = tables + 16 * count, names = raw + 8;
  words({16, 0x4354444f});             // 0: the root's place, "ODTC"
  shorts({8, 8, 0, 4});                // 8: fields of the root
  words({8, 12});                      // 16: the root, its module
  shorts({6, 8, 4, 0});                // 24: fields of the module
  words({8, 20});                      // 32: the module, its trained tensors
  shorts({14, 16, 4, 0, 0, 8, 12, 0}); // 40: fields of a tensor
  words({count});                      // 56: the list of tensors
  for (uint32_t i = 0; i < count; ++i)
    words({tables + 16 * i - (60 + 4 * i)});
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t table = tables + 16 * i;
    words({table - 40, names + 4 * i - (table + 4), 1, raw - (table + 12)});
  }
  words({4, 0x3f800000});
  for (uint32_t i = 0; i < count; ++i)
    words({length});
  return bytes.append(length + 4, '\0');
}

/// What is read of a file is no more than it holds: 8000 names of 260 kB in 0.4 MB would take
/// minutes.
TEST_F(OrtCheckpoints, overlappingNames) {
  write("checkpoint", overlapping(1, 9));
  EXPECT_EQ(readOrtCheckpoint(folder / "checkpoint").parameters.at(0).name, std::string(9, '\0'));
  write("checkpoint", overlapping(8000, 260000));
  EXPECT_EQ(refused(),
            "training_model.onnx: " + (folder / "checkpoint").string() +
                ": a list of 260000 bytes overlaps others, expected all lists together to be "
                "within the file's 452072 bytes; save the checkpoint again");
}

/// Whatever the bytes are: a checkpoint or one Error.
TEST_F(OrtCheckpoints, brokenCheckpoints) {
  std::mt19937 random(1);
  int refusedOnes = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = checkpointBytes;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      for (int flips = 0; flips < 3; ++flips)
        bytes[8 + random() % (bytes.size() - 8)] = static_cast<char>(random());
    write("broken", bytes);
    try {
      readOrtCheckpoint(folder / "broken");
    } catch (const Error &) {
      ++refusedOnes;
    }
  }
  EXPECT_GT(refusedOnes, 1000);
}
