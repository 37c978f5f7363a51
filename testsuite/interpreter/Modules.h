#pragma once

#include <string>
#include <vector>

/// One model at each level: y = w1 * x at stage 0, z = w2 * y and loss = sum(z) at stage 1.
namespace pdc::test {

inline const std::string kPair = "tensor<2xf32>";

inline std::string mul(const std::string &result, const std::string &name, const std::string &a,
                       const std::string &b) {
  return "%" + result + " = pdc.node \"Mul\" \"" + name + "\"(%" + a + ", %" + b + ") {} : (" +
         kPair + ", " + kPair + ") -> " + kPair + "\n";
}

inline std::string read(const std::string &result, const std::string &memory) {
  return "%" + result + " = pdc.read @" + memory + " : " + kPair + "\n";
}

inline std::string weight(const std::string &result, const std::string &version) {
  return "%" + result + " = pdc.weight_version @" + result + " " + version + " : " + kPair + "\n";
}

inline std::string write(const std::string &value, const std::string &memory) {
  return "pdc.write %" + value + " to @" + memory + " : " + kPair + "\n";
}

inline std::string accumulate(const std::string &value, const std::string &memory) {
  return "pdc.accumulate %" + value + " into @\"" + memory + "\" : " + kPair + "\n";
}

inline std::string loss() {
  return R"(
    %loss = pdc.node "ReduceSum" "loss"(%z) {keepdims = 0 : i64} : (tensor<2xf32>) -> tensor<f32>
    pdc.accumulate %loss into @"pdc.loss" : tensor<f32>
    %count = pdc.node "LossWeight" "count"(%z) {} : (tensor<2xf32>) -> tensor<f32>
    pdc.accumulate %count into @"pdc.loss_weight" : tensor<f32>
)";
}

inline std::string update(const std::string &number) {
  std::string w = "w" + number, g = "g" + number, next = "next" + number;
  return "%" + g + " = pdc.read @\"" + w + "/gradient\" : tensor<2xf32>\n" + "%" + next +
         " = pdc.node \"SgdUpdate\" \"" + w + "/update\"(%" + w + ", %" + g +
         ", %scale, %lr) {weight_decay = 0.0 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, "
         "tensor<f32>) -> tensor<2xf32>\n" +
         "pdc.commit %" + next + " to @" + w + " : tensor<2xf32>\n";
}

inline std::string updateInputs() {
  return R"(
    %scale = pdc.read @"pdc.gradient_scale" : tensor<f32>
    %lr = pdc.read @"pdc.learning_rate" : tensor<f32>
)";
}

inline std::string weightMemory(const std::string &name, int depth) {
  return "pdc.memory @" + name + " weight version : tensor<2xf32> {initial = \"file\"" +
         (depth ? ", depth = " + std::to_string(depth) + " : i64" : "") + "}\n" + "pdc.memory @\"" +
         name + "/gradient\" gradient update : tensor<2xf32>\n";
}

inline std::string updateMemories() {
  return R"(
    pdc.memory @"pdc.gradient_scale" input update : tensor<f32>
    pdc.memory @"pdc.learning_rate" input update : tensor<f32>
)";
}

inline std::string metricMemories() {
  return R"(
    pdc.memory @"pdc.loss" metric update : tensor<f32>
    pdc.memory @"pdc.loss_weight" metric update : tensor<f32>
)";
}

inline std::string graphModule() {
  return "pdc.memory @x input microbatch : tensor<2xf32>\n" + weightMemory("w1", 0) +
         weightMemory("w2", 0) + updateMemories() + metricMemories() + "func.func @train() {\n" +
         read("x", "x") + weight("w1", "latest") + weight("w2", "latest") +
         mul("y", "a", "x", "w1") + mul("z", "b", "y", "w2") + loss() +
         accumulate("y", "w2/gradient") + mul("dw1", "dw1", "x", "w2") +
         accumulate("dw1", "w1/gradient") + updateInputs() + update("1") + update("2") +
         "return\n}\n";
}

/// Rows of the two ranks: "F 0", "B 0", "U 0" run tasks, "> y 0" sends, "< y 0" receives, "S" sums.
struct Rows {
  bool asynchronous = false;
  std::vector<std::string> rank0, rank1;
  std::vector<std::string> repeat0, repeat1, drain0, drain1;
};

/// 1f1b of two microbatches.
inline Rows synchronousRows() {
  return {false,
          {"F 0", "> y 0", "F 1", "> y 1", "< dy 0", "B 0", "< dy 1", "B 1", "S", "U 1"},
          {"< y 0", "F 0", "B 0", "< y 1", "> dy 0", "F 1", "B 1", "> dy 1", "S", "U 1"},
          {},
          {},
          {},
          {}};
}

/// PipeDream's: stage 0 runs one forward pass ahead.
inline Rows asynchronousRows() {
  return {true,
          {"F 0", "> y 0"},
          {"< y 0"},
          {"F 1", "> y 1", "< dy 0", "B 0", "U 0"},
          {"F 0", "B 0", "U 0", "> dy 0", "< y 1"},
          {"< dy 0", "B 0", "U 0"},
          {"F 0", "B 0", "U 0", "> dy 0"}};
}

inline std::string rowText(const std::string &row, int stage) {
  std::string microbatch = row.substr(row.rfind(' ') + 1), id = std::to_string(stage);
  if (row == "S")
    return "pdc.all_reduce [@\"pdc.loss\", @\"pdc.loss_weight\"]\n";
  if (row[0] == 'F' || row[0] == 'B' || row[0] == 'U') {
    std::string phase = row[0] == 'F' ? "forward" : row[0] == 'B' ? "backward" : "update";
    return "pdc.run " + id + " " + phase + " " + microbatch + "\n";
  }
  std::string tensor = row.substr(2, row.rfind(' ') - 2);
  std::string peer = std::to_string(1 - stage), tag = tensor == "y" ? "0" : "1";
  bool sends = row[0] == '>';
  return std::string(sends ? "pdc.send @" : "pdc.recv @") + tensor + " stage " + id +
         " microbatch " + microbatch + (sends ? " to " : " from ") + peer + " tag " + tag + "\n";
}

inline std::string schedule(const Rows &rows, int stage) {
  auto region = [&](const std::vector<std::string> &list) {
    std::string text = "{\n";
    for (const std::string &row : list)
      text += rowText(row, stage);
    return text + "}";
  };
  std::string text = "pdc.schedule \"drawn\" attributes {asynchronous = ";
  text += rows.asynchronous ? "true, microbatches = 1 : i64, period = 1 : i64}"
                            : "false, microbatches = 2 : i64, period = 0 : i64}";
  text += " warm_up " + region(stage ? rows.rank1 : rows.rank0);
  text += " repeat " + region(stage ? rows.repeat1 : rows.repeat0);
  text += " drain " + region(stage ? rows.drain1 : rows.drain0) + "\n";
  return text;
}

inline std::string task(const std::string &phase, const std::string &body) {
  return "pdc.task " + phase + " {\n" + body + "}\n";
}

/// Programs with tasks; `schedules` are appended to each.
inline std::string programs(const std::string &schedule0, const std::string &schedule1, int depth,
                            const std::string &slots, const std::string &backwardVersion) {
  std::string stage = slots.empty() ? "" : " attributes {slots = array<i64: " + slots + ">}";
  return "pdc.program @rank_0 ranks [0] {\n"
         "pdc.memory @x input microbatch : tensor<2xf32>\n" +
         weightMemory("w1", depth) + updateMemories() +
         "pdc.memory @x0 activation microbatch : tensor<2xf32>\n"
         "pdc.memory @y outbox microbatch : tensor<2xf32> {transfers = "
         "[#pdc.transfer<tag = 0, from = 0, to = 1>]}\n"
         "pdc.memory @dy inbox microbatch : tensor<2xf32> {transfers = "
         "[#pdc.transfer<tag = 1, from = 1, to = 0>]}\n"
         "pdc.memory @w1.used activation microbatch : tensor<2xf32>\n"
         "pdc.stage 0" +
         stage + " {\n" +
         task("forward", read("x", "x") + weight("w1", "latest") + mul("y", "a", "x", "w1") +
                             write("x", "x0") + write("w1", "w1.used") + write("y", "y")) +
         task("backward", read("x", "x0") + read("dy", "dy") + weight("w1", backwardVersion) +
                              read("used", "w1.used") + mul("dw1", "dw1", "x", "dy") +
                              accumulate("dw1", "w1/gradient")) +
         task("update", weight("w1", "latest") + updateInputs() + update("1")) + "}\n" + schedule0 +
         "}\npdc.program @rank_1 ranks [1] {\n" + weightMemory("w2", depth) + updateMemories() +
         metricMemories() +
         "pdc.memory @y inbox microbatch : tensor<2xf32> {transfers = "
         "[#pdc.transfer<tag = 0, from = 0, to = 1>]}\n"
         "pdc.memory @dy outbox microbatch : tensor<2xf32> {transfers = "
         "[#pdc.transfer<tag = 1, from = 1, to = 0>]}\n"
         "pdc.stage 1" +
         stage + " {\n" +
         task("forward",
              read("y", "y") + weight("w2", "latest") + mul("z", "b", "y", "w2") + loss()) +
         task("backward", read("y", "y") + weight("w2", backwardVersion) +
                              accumulate("y", "w2/gradient") + write("w2", "dy")) +
         task("update", weight("w2", "latest") + updateInputs() + update("2")) + "}\n" + schedule1 +
         "}\n";
}

inline std::string stagedModule() { return programs("", "", 0, "", "latest"); }

inline std::string scheduledModule(const Rows &rows, int depth = 1,
                                   const std::string &slots = "0, 1") {
  return programs(schedule(rows, 0), schedule(rows, 1), depth, slots,
                  rows.asynchronous ? "of_microbatch" : "latest");
}

} // namespace pdc::test
