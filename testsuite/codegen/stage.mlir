// The source of the first stage of an MLP, from top to bottom.
// RUN: pdc-print-sources %s | FileCheck --match-full-lines --strict-whitespace %s

module {
  pdc.program @rank_0 ranks [0] attributes {arena = 4096 : i64, workspace = 0 : i64, regions = [
      {name = "fixed", offset = 0 : i64, stride = 1088 : i64, copies = 1 : i64},
      {name = "scratch", offset = 1088 : i64, stride = 256 : i64, copies = 1 : i64},
      {name = "slots.0", offset = 1344 : i64, stride = 640 : i64, copies = 2 : i64},
      {name = "evaluation", offset = 2624 : i64, stride = 384 : i64, copies = 2 : i64}]} {
    pdc.memory @image input microbatch : tensor<4x8xf32> {home = #pdc.home<"slots.0", 0, 128>, variable = "image"}
    pdc.memory @fc1.weight weight version : tensor<16x8xf32> {depth = 1 : i64, home = #pdc.home<"fixed", 0, 512>, initial = "file", variable = "fc1_weight"}
    pdc.memory @"fc1.weight/gradient" gradient update : tensor<16x8xf32> {home = #pdc.home<"fixed", 512, 512>, variable = "fc1_weight_gradient"}
    pdc.memory @pdc.learning_rate input update : tensor<f32> {home = #pdc.home<"fixed", 1024, 4>, variable = "pdc_learning_rate"}
    pdc.memory @pdc.gradient_scale input update : tensor<f32> {home = #pdc.home<"fixed", 1028, 4>, variable = "pdc_gradient_scale"}
    pdc.memory @relu1 outbox microbatch : tensor<4x16xf32> {home = #pdc.home<"slots.0", 128, 256>, transfers = [#pdc.transfer<tag = 0, from = 0, to = 1>], variable = "relu1"}
    pdc.memory @"fc2/grad/input" inbox microbatch : tensor<4x16xf32> {home = #pdc.home<"slots.0", 384, 256>, transfers = [#pdc.transfer<tag = 1, from = 1, to = 0>], variable = "fc2_grad_input"}
    pdc.memory @"evaluate/relu1" outbox microbatch : tensor<4x16xf32> {home = #pdc.home<"evaluation", 128, 256>, transfers = [#pdc.transfer<tag = 2, from = 0, to = 1>], variable = "evaluate_relu1"}
    pdc.stage 0 attributes {slots = array<i64: 0, 1>} {
      pdc.task prepare {
      }
      pdc.task forward {
        %x = pdc.read @image : tensor<4x8xf32>
        %w = pdc.weight_version @fc1.weight latest : tensor<16x8xf32>
        %h = pdc.unit "fc1" origin "fc1" forward microbatch (%a = %x : tensor<4x8xf32>, %b = %w : tensor<16x8xf32>) -> (tensor<4x16xf32>) attributes {
            kernel = #pdc.kernel<"MatrixProduct", {a = array<i64: 4, 8>, b = array<i64: 16, 8>, name = "fc1", output = array<i64: 4, 16>, relu = 1 : i64, transB = 1 : i64}, workspace = 0, accumulates = true>,
            homes = [#pdc.home<"slots.0", 128, 256>], variable = "fc1", result_variables = ["relu1"]} {
          %0 = pdc.node "Gemm" "fc1"(%a, %b) {transB = 1 : i64} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
          %1 = pdc.node "Relu" "relu1"(%0) {} : (tensor<4x16xf32>) -> tensor<4x16xf32>
          pdc.yield %1 : tensor<4x16xf32>
        }
        pdc.write %h to @relu1 : tensor<4x16xf32>
      }
      pdc.task backward {
        %dy = pdc.read @"fc2/grad/input" : tensor<4x16xf32>
        %y = pdc.read @relu1 : tensor<4x16xf32>
        %d = pdc.unit "relu1/grad" origin "fc1" backward microbatch (%a = %dy : tensor<4x16xf32>, %b = %y : tensor<4x16xf32>) -> (tensor<4x16xf32>) attributes {
            kernel = #pdc.kernel<"Elementwise", {count = 64 : i64}, workspace = 0, accumulates = false>,
            homes = [#pdc.home<"scratch", 0, 256>], variable = "relu1_grad", result_variables = ["relu1_grad"]} {
          %0 = pdc.node "ReluGrad" "relu1/grad"(%a, %b) {} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
          pdc.yield %0 : tensor<4x16xf32>
        }
        %x = pdc.read @image : tensor<4x8xf32>
        %dw = pdc.unit "fc1/grad/weight" origin "fc1" backward microbatch (%a = %d : tensor<4x16xf32>, %b = %x : tensor<4x8xf32>) -> (tensor<16x8xf32>) attributes {
            kernel = #pdc.kernel<"MatrixProduct", {a = array<i64: 4, 16>, b = array<i64: 4, 8>, name = "fc1/grad/weight", output = array<i64: 16, 8>, transA = 1 : i64}, workspace = 0, accumulates = true>,
            homes = [#pdc.home<"fixed", 512, 512>], variable = "fc1_grad_weight", result_variables = ["fc1_weight_gradient"]} {
          %0 = pdc.node "Gemm" "fc1/grad/weight"(%a, %b) {transA = 1 : i64} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
          pdc.yield %0 : tensor<16x8xf32>
        }
        pdc.accumulate %dw into @"fc1.weight/gradient" {fused} : tensor<16x8xf32>
      }
      pdc.task update {
        %w = pdc.weight_version @fc1.weight latest : tensor<16x8xf32>
        %g = pdc.read @"fc1.weight/gradient" : tensor<16x8xf32>
        %s = pdc.read @pdc.gradient_scale : tensor<f32>
        %l = pdc.read @pdc.learning_rate : tensor<f32>
        %n = pdc.unit "fc1.weight/update" origin "fc1" update update (%a = %w : tensor<16x8xf32>, %b = %g : tensor<16x8xf32>, %c = %s : tensor<f32>, %d = %l : tensor<f32>) -> (tensor<16x8xf32>) attributes {
            kernel = #pdc.kernel<"Elementwise", {count = 128 : i64}, workspace = 0, accumulates = false>,
            homes = [#pdc.home<"fixed", 0, 512>], variable = "fc1_weight_update", result_variables = ["new_fc1_weight"]} {
          %0 = pdc.node "SgdUpdate" "fc1.weight/update"(%a, %b, %c, %d) {weight_decay = 1.0e-04 : f64} : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<f32>, tensor<f32>) -> tensor<16x8xf32>
          pdc.yield %0 : tensor<16x8xf32>
        }
        pdc.commit %n to @fc1.weight : tensor<16x8xf32>
      }
      pdc.task evaluate {
        %x = pdc.read @image : tensor<4x8xf32>
        %w = pdc.weight_version @fc1.weight latest : tensor<16x8xf32>
        %h = pdc.unit "evaluate/fc1" origin "fc1" evaluate microbatch (%a = %x : tensor<4x8xf32>, %b = %w : tensor<16x8xf32>) -> (tensor<4x16xf32>) attributes {
            kernel = #pdc.kernel<"MatrixProduct", {a = array<i64: 4, 8>, b = array<i64: 16, 8>, name = "fc1", output = array<i64: 4, 16>, relu = 1 : i64, transB = 1 : i64}, workspace = 0, accumulates = true>,
            homes = [#pdc.home<"evaluation", 128, 256>], variable = "evaluate_fc1", result_variables = ["evaluate_relu1"]} {
          %0 = pdc.node "Gemm" "evaluate/fc1"(%a, %b) {transB = 1 : i64} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
          %1 = pdc.node "Relu" "evaluate/relu1"(%0) {} : (tensor<4x16xf32>) -> tensor<4x16xf32>
          pdc.yield %1 : tensor<4x16xf32>
        }
        pdc.write %h to @"evaluate/relu1" : tensor<4x16xf32>
      }
    }
    pdc.schedule "1f1b" attributes {asynchronous = false, microbatches = 2 : i64, period = 0 : i64} warm_up {
      pdc.run 0 forward 0
      pdc.send @relu1 stage 0 microbatch 0 to 1 tag 0
      pdc.run 0 forward 1
      pdc.send @relu1 stage 0 microbatch 1 to 1 tag 0
      pdc.recv @"fc2/grad/input" stage 0 microbatch 0 from 1 tag 1
      pdc.run 0 backward 0
      pdc.recv @"fc2/grad/input" stage 0 microbatch 1 from 1 tag 1
      pdc.run 0 backward 1
      pdc.all_reduce [@pdc.loss]
      pdc.run 0 update 1
    } repeat {
    } drain {
    }
    pdc.schedule "evaluation" attributes {asynchronous = false, evaluation, microbatches = 1 : i64, period = 1 : i64} warm_up {
    } repeat {
      pdc.run 0 evaluate 0
      pdc.send @"evaluate/relu1" stage 0 microbatch 0 to 1 tag 2
    } drain {
    }
  }
}

// CHECK:// Stage 0 of 1 of test.onnx: fc1, relu1. Generated by pdc; do not edit.
// CHECK-NEXT:// Rank 0 of 1, schedule 1f1b, 2 microbatches of 4 samples per update.
// CHECK-EMPTY:
// CHECK-NEXT:#include "runtime/Program.h"
// CHECK-NEXT:#include "runtime/kernels/Elementwise.h"
// CHECK-NEXT:#include "runtime/kernels/MatrixProduct.h"
// CHECK-EMPTY:
// CHECK-NEXT:#include <array>
// CHECK-NEXT:#include <cmath>
// CHECK-NEXT:#include <limits>
// CHECK-EMPTY:
// CHECK-NEXT:using namespace pdc::runtime;
// CHECK-EMPTY:
// CHECK-NEXT:namespace {
// CHECK-EMPTY:
// CHECK-NEXT:// The regions of the arena and the places in them: bytes from the start of a copy. Beside each its
// CHECK-NEXT:// type, shape, layout (a tag of oneDNN; none: row-major) and ONNX name. Places that are never in
// CHECK-NEXT:// use together may share bytes; new_X is X behind an update.
// CHECK-NEXT:enum RegionIndex : int { kFixed, kScratch, kSlots0, kEvaluation };
// CHECK-EMPTY:
// CHECK-NEXT:namespace fixed {
// CHECK-NEXT:constexpr int64_t fc1_weight = 0;            // f32[16,8] fc1.weight
// CHECK-NEXT:constexpr int64_t new_fc1_weight = 0;        // f32[16,8]
// CHECK-NEXT:constexpr int64_t fc1_weight_gradient = 512; // f32[16,8] fc1.weight/gradient
// CHECK-NEXT:constexpr int64_t pdc_learning_rate = 1024;  // f32[] pdc.learning_rate
// CHECK-NEXT:constexpr int64_t pdc_gradient_scale = 1028; // f32[] pdc.gradient_scale
// CHECK-NEXT:}
// CHECK-EMPTY:
// CHECK-NEXT:namespace scratch {
// CHECK-NEXT:constexpr int64_t relu1_grad = 0; // f32[4,16]
// CHECK-NEXT:}
// CHECK-EMPTY:
// CHECK-NEXT:namespace slots_0 {
// CHECK-NEXT:constexpr int64_t image = 0;            // f32[4,8] image
// CHECK-NEXT:constexpr int64_t relu1 = 128;          // f32[4,16] relu1
// CHECK-NEXT:constexpr int64_t fc2_grad_input = 384; // f32[4,16] fc2/grad/input
// CHECK-NEXT:}
// CHECK-EMPTY:
// CHECK-NEXT:namespace evaluation {
// CHECK-NEXT:constexpr int64_t evaluate_relu1 = 128; // f32[4,16] evaluate/relu1
// CHECK-NEXT:}
// CHECK-EMPTY:
// CHECK-NEXT:class Stage0 final : public Tasks {
// CHECK-NEXT:public:
// CHECK-NEXT:  explicit Stage0(const Device &device)
// CHECK-NEXT:      : fc1_(device, {.a = {4, 8}, .b = {16, 8}, .name = "fc1", .output = {4, 16}, .relu = 1,
// CHECK-NEXT:                      .transB = 1}),
// CHECK-NEXT:        fc1_grad_weight_(device, {.a = {4, 16}, .b = {4, 8}, .name = "fc1/grad/weight",
// CHECK-NEXT:                                  .output = {16, 8}, .transA = 1}) {}
// CHECK-EMPTY:
// CHECK-NEXT:  void forward(const Run &run) override {
// CHECK-NEXT:    auto *image = run.slot(slots_0::image);                  // f32[4,8]
// CHECK-NEXT:    auto *fc1_weight = run.fixed(fixed::fc1_weight);         // f32[16,8]
// CHECK-NEXT:    auto *relu1 = run.slot(slots_0::relu1);                  // f32[4,16], to stage 1
// CHECK-NEXT:    fc1_(run, image, fc1_weight, relu1, false);              // MatrixProduct: fc1, relu1
// CHECK-NEXT:  }
// CHECK-EMPTY:
// CHECK-NEXT:  void backward(const Run &run) override {
// CHECK-NEXT:    auto *fc2_grad_input = run.slot(slots_0::fc2_grad_input); // f32[4,16], from stage 1
// CHECK-NEXT:    auto *relu1 = run.slot(slots_0::relu1);                  // f32[4,16]
// CHECK-NEXT:    auto *relu1_grad = run.scratch(scratch::relu1_grad);     // f32[4,16]
// CHECK-NEXT:    elementwise(run, 64, // relu1/grad
// CHECK-NEXT:                [](float fc2_grad_input, float relu1) -> float {
// CHECK-NEXT:                  return relu1 > 0 ? fc2_grad_input : 0;
// CHECK-NEXT:                },
// CHECK-NEXT:                relu1_grad, fc2_grad_input, relu1);
// CHECK-EMPTY:
// CHECK-NEXT:    auto *image = run.slot(slots_0::image);                  // f32[4,8]
// CHECK-NEXT:    auto *fc1_weight_gradient = run.fixed(fixed::fc1_weight_gradient); // f32[16,8]
// CHECK-NEXT:    // MatrixProduct: fc1/grad/weight
// CHECK-NEXT:    fc1_grad_weight_(run, relu1_grad, image, fc1_weight_gradient, !run.first());
// CHECK-NEXT:  }
// CHECK-EMPTY:
// CHECK-NEXT:  void update(const Run &run) override {
// CHECK-NEXT:    auto *fc1_weight = run.fixed(fixed::fc1_weight);         // f32[16,8]
// CHECK-NEXT:    auto *fc1_weight_gradient = run.fixed(fixed::fc1_weight_gradient); // f32[16,8]
// CHECK-NEXT:    auto *pdc_gradient_scale = run.fixed(fixed::pdc_gradient_scale); // f32[]
// CHECK-NEXT:    auto *pdc_learning_rate = run.fixed(fixed::pdc_learning_rate); // f32[]
// CHECK-NEXT:    auto *new_fc1_weight = run.fixed(fixed::new_fc1_weight); // f32[16,8]
// CHECK-NEXT:    elementwise(run, 128, // fc1.weight/update
// CHECK-NEXT:                [pdc_gradient_scale = *pdc_gradient_scale, pdc_learning_rate = *pdc_learning_rate]
// CHECK-NEXT:                (float fc1_weight, float fc1_weight_gradient) -> float {
// CHECK-NEXT:                  return fc1_weight - pdc_learning_rate * (fc1_weight_gradient * pdc_gradient_scale
// CHECK-NEXT:                      + 1e-04f * fc1_weight);
// CHECK-NEXT:                },
// CHECK-NEXT:                new_fc1_weight, fc1_weight, fc1_weight_gradient);
// CHECK-NEXT:  }
// CHECK-EMPTY:
// CHECK-NEXT:  void evaluate(const Run &run) override {
// CHECK-NEXT:    auto *image = run.slot(slots_0::image);                  // f32[4,8]
// CHECK-NEXT:    auto *fc1_weight = run.fixed(fixed::fc1_weight);         // f32[16,8]
// CHECK-NEXT:    auto *evaluate_relu1 = run.slot(evaluation::evaluate_relu1); // f32[4,16], to stage 1
// CHECK-NEXT:    // MatrixProduct: evaluate/fc1, evaluate/relu1
// CHECK-NEXT:    fc1_(run, image, fc1_weight, evaluate_relu1, false);
// CHECK-NEXT:  }
// CHECK-EMPTY:
// CHECK-NEXT:private:
// CHECK-NEXT:  MatrixProduct fc1_; // fc1, relu1 and 1 more
// CHECK-NEXT:  MatrixProduct fc1_grad_weight_; // fc1/grad/weight
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:template <int... numbers> constexpr std::array<int, sizeof...(numbers)> ranks{numbers...};
// CHECK-EMPTY:
// CHECK-NEXT:constexpr Region kRegions[] = {
// CHECK-NEXT:    {.name = "fixed", .offset = 0, .stride = 1088, .copies = 1},
// CHECK-NEXT:    {.name = "scratch", .offset = 1088, .stride = 256, .copies = 1},
// CHECK-NEXT:    {.name = "slots.0", .offset = 1344, .stride = 640, .copies = 2},
// CHECK-NEXT:    {.name = "evaluation", .offset = 2624, .stride = 384, .copies = 2},
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:template <int64_t... sizes> constexpr std::array<int64_t, sizeof...(sizes)> shape{sizes...};
// CHECK-EMPTY:
// CHECK-NEXT:// What is loaded, saved, fed with data or reported.
// CHECK-NEXT:constexpr Memory kMemories[] = {
// CHECK-NEXT:    {.name = "image", .role = Role::input,
// CHECK-NEXT:     .element = ElementType::f32, .shape = shape<4, 8>,
// CHECK-NEXT:     .place = {kSlots0, slots_0::image}, .bytes = 128},
// CHECK-NEXT:    {.name = "fc1.weight", .role = Role::weight,
// CHECK-NEXT:     .element = ElementType::f32, .shape = shape<16, 8>,
// CHECK-NEXT:     .place = {kFixed, fixed::fc1_weight}, .bytes = 512, .initial = Initial::file},
// CHECK-NEXT:    {.name = "fc1.weight/gradient", .role = Role::gradient,
// CHECK-NEXT:     .element = ElementType::f32, .shape = shape<16, 8>,
// CHECK-NEXT:     .place = {kFixed, fixed::fc1_weight_gradient}, .bytes = 512},
// CHECK-NEXT:    {.name = "pdc.learning_rate", .role = Role::input,
// CHECK-NEXT:     .element = ElementType::f32, .shape = shape<>,
// CHECK-NEXT:     .place = {kFixed, fixed::pdc_learning_rate}, .bytes = 4},
// CHECK-NEXT:    {.name = "pdc.gradient_scale", .role = Role::input,
// CHECK-NEXT:     .element = ElementType::f32, .shape = shape<>,
// CHECK-NEXT:     .place = {kFixed, fixed::pdc_gradient_scale}, .bytes = 4},
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:// Tensors that cross ranks, once per microbatch: microbatch k goes to peers[k % size].
// CHECK-NEXT:enum TransferIndex : int {
// CHECK-NEXT:  relu1_to_1,
// CHECK-NEXT:  fc2_grad_input_from_1,
// CHECK-NEXT:  evaluate_relu1_to_1,
// CHECK-NEXT:};
// CHECK-NEXT:constexpr Transfer kTransfers[] = {
// CHECK-NEXT:    {.tensor = "relu1", // f32[4,16]
// CHECK-NEXT:     .element = ElementType::f32, .peers = ranks<1>, .tag = 0, .stage = 0,
// CHECK-NEXT:     .phase = Phase::forward, .place = {kSlots0, slots_0::relu1}, .bytes = 256},
// CHECK-NEXT:    {.tensor = "fc2/grad/input", // f32[4,16]
// CHECK-NEXT:     .element = ElementType::f32, .peers = ranks<1>, .tag = 1, .stage = 0,
// CHECK-NEXT:     .phase = Phase::backward, .place = {kSlots0, slots_0::fc2_grad_input}, .bytes = 256},
// CHECK-NEXT:    {.tensor = "evaluate/relu1", // f32[4,16]
// CHECK-NEXT:     .element = ElementType::f32, .peers = ranks<1>, .tag = 2, .stage = 0,
// CHECK-NEXT:     .phase = Phase::evaluate, .place = {kEvaluation, evaluation::evaluate_relu1}, .bytes = 256},
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:// Rows: F, B, I, W, U, E run a task for a microbatch. The transfers behind a task are one group.
// CHECK-NEXT:constexpr Step F(int64_t microbatch) {
// CHECK-NEXT:  return {StepKind::run, Phase::forward, 0, microbatch, -1};
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Step B(int64_t microbatch) {
// CHECK-NEXT:  return {StepKind::run, Phase::backward, 0, microbatch, -1};
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Step U(int64_t microbatch) {
// CHECK-NEXT:  return {StepKind::run, Phase::update, 0, microbatch, -1};
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Step E(int64_t microbatch) {
// CHECK-NEXT:  return {StepKind::run, Phase::evaluate, 0, microbatch, -1};
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Step send(TransferIndex transfer, int64_t microbatch) {
// CHECK-NEXT:  const Transfer &edge = kTransfers[transfer];
// CHECK-NEXT:  return {StepKind::send, edge.phase, edge.stage, microbatch, transfer};
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Step receive(TransferIndex transfer, int64_t microbatch) {
// CHECK-NEXT:  const Transfer &edge = kTransfers[transfer];
// CHECK-NEXT:  return {StepKind::receive, edge.phase, edge.stage, microbatch, transfer};
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Step allReduce{StepKind::allReduce, Phase::update, 0, 0, -1};
// CHECK-EMPTY:
// CHECK-NEXT:constexpr Step kTrainingStep[] = {
// CHECK-NEXT:    F(0), send(relu1_to_1, 0),
// CHECK-NEXT:    F(1), send(relu1_to_1, 1), receive(fc2_grad_input_from_1, 0),
// CHECK-NEXT:    B(0), receive(fc2_grad_input_from_1, 1),
// CHECK-NEXT:    B(1),
// CHECK-NEXT:    allReduce,
// CHECK-NEXT:    U(1),
// CHECK-NEXT:};
// CHECK-NEXT:constexpr Step kEvaluationRepeat[] = {
// CHECK-NEXT:    E(0), send(evaluate_relu1_to_1, 0),
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:constexpr int kSlotTable0[] = {0, 1};
// CHECK-NEXT:constexpr StageInfo kStages[] = {
// CHECK-NEXT:    {.id = 0, .ranks = ranks<0>,
// CHECK-NEXT:     .slotRegion = kSlots0, .evaluationRegion = kEvaluation,
// CHECK-NEXT:     .slotTable = kSlotTable0, .versionRegion = -1,
// CHECK-NEXT:     .forwardSeconds = 0.0, .backwardSeconds = 0.0,
// CHECK-NEXT:     .gradients = {}, .states = {}},
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:Tasks *createTasks(int, const Device &device) {
// CHECK-NEXT:  return new Stage0(device);
// CHECK-NEXT:}
// CHECK-EMPTY:
// CHECK-NEXT:constexpr Program onRank(int rank, const Rows &training, const Rows &evaluation) {
// CHECK-NEXT:  return {
// CHECK-NEXT:      .contractVersion = {{[0-9]+}},
// CHECK-NEXT:      .model = "test.onnx",
// CHECK-NEXT:      .planHash = "0123456789abcdef",
// CHECK-NEXT:      .rank = rank,
// CHECK-NEXT:      .ranks = 1,
// CHECK-NEXT:      .schedule = "1f1b",
// CHECK-NEXT:      .asynchronous = false,
// CHECK-NEXT:      .exact = false,
// CHECK-NEXT:      .threads = 1,
// CHECK-NEXT:      .microbatches = 2,
// CHECK-NEXT:      .microbatchSize = 4,
// CHECK-NEXT:      .arenaBytes = 4096,
// CHECK-NEXT:      .fixedRegion = kFixed,
// CHECK-NEXT:      .scratchRegion = kScratch,
// CHECK-NEXT:      .workspaceBytes = 0,
// CHECK-NEXT:      .regions = kRegions,
// CHECK-NEXT:      .memories = kMemories,
// CHECK-NEXT:      .transfers = kTransfers,
// CHECK-NEXT:      .training = training,
// CHECK-NEXT:      .evaluation = evaluation,
// CHECK-NEXT:      .stages = kStages,
// CHECK-NEXT:      .createTasks = createTasks,
// CHECK-NEXT:      .secondsPerMinibatch = 0.0,
// CHECK-NEXT:  };
// CHECK-NEXT:}
// CHECK-NEXT:constexpr Program kPrograms[] = {
// CHECK-NEXT:    onRank(0, {.step = kTrainingStep}, {.repeat = kEvaluationRepeat, .period = 1}),
// CHECK-NEXT:};
// CHECK-EMPTY:
// CHECK-NEXT:} // namespace
// CHECK-EMPTY:
// CHECK-NEXT:/// What rank 0 runs.
// CHECK-NEXT:Programs stage_0() { return {kPrograms, 1}; }
