#include "testsuite/runtime/Toy.h"

#include <algorithm>
#include <fstream>

namespace toy {

static float xOf(int64_t sample, int64_t i) { return float((sample * 7 + i * 3) % 5 - 2) / 8; }
static int64_t yOf(int64_t sample) { return sample % 3 - 1; }

static void writeNpy(const std::string &path, const char *type, const std::string &shape,
                     const void *data, size_t bytes) {
  std::string header =
      "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 63) / 64 * 64 - 10, ' ');
  std::ofstream file(path, std::ios::binary);
  uint16_t length = uint16_t(header.size());
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(reinterpret_cast<char *>(&length), 2);
  file << header;
  file.write(static_cast<const char *>(data), std::streamsize(bytes));
}

void writeData(const std::string &folder, int64_t samples) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t n = 0; n < samples; ++n) {
    y.push_back(yOf(n));
    for (int64_t i = 0; i < kWidth; ++i)
      x.push_back(xOf(n, i));
  }
  writeNpy(folder + "/x.npy", "<f4", std::to_string(samples) + ", 4", x.data(), x.size() * 4);
  writeNpy(folder + "/y.npy", "<i8", std::to_string(samples) + ",", y.data(), y.size() * 8);
}

/// One microbatch through all stages with the given weights; adds the gradients.
static void passes(const Shape &shape, const std::vector<std::vector<float>> &weights,
                   int64_t firstSample, std::vector<std::vector<float>> &gradients, bool starts,
                   float &loss) {
  std::vector<std::vector<float>> x(shape.stages + 1, std::vector<float>(kBatch * kWidth));
  for (int64_t i = 0; i < kBatch * kWidth; ++i)
    x[0][i] = xOf(firstSample + i / kWidth, i % kWidth);
  for (int s = 0; s < shape.stages; ++s)
    for (int64_t i = 0; i < kBatch * kWidth; ++i)
      x[s + 1][i] = weights[s][i % kWidth] * x[s][i];
  std::vector<float> dy(kBatch * kWidth);
  loss = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    float sum = 0;
    for (int64_t i = 0; i < kWidth; ++i)
      sum += x[shape.stages][n * kWidth + i];
    float difference = sum - float(yOf(firstSample + n));
    loss += difference * difference / 2;
    for (int64_t i = 0; i < kWidth; ++i)
      dy[n * kWidth + i] = shape.asynchronous ? difference / float(kBatch) : difference;
  }
  for (int s = shape.stages; s-- > 0;) {
    for (int64_t i = 0; i < kWidth; ++i) {
      float sum = 0;
      for (int64_t n = 0; n < kBatch; ++n)
        sum += dy[n * kWidth + i] * x[s][n * kWidth + i];
      gradients[s][i] = starts ? sum : gradients[s][i] + sum;
    }
    for (int64_t i = 0; i < kBatch * kWidth; ++i)
      dy[i] = weights[s][i % kWidth] * dy[i];
  }
}

std::vector<std::vector<float>> reference(const Shape &shape, int64_t samples, int64_t steps,
                                          double rate, std::vector<double> *losses) {
  std::vector<std::vector<float>> weights, gradients(shape.stages, std::vector<float>(kWidth));
  for (int s = 0; s < shape.stages; ++s)
    weights.emplace_back(kWidth, initialWeight(s));
  std::vector<std::vector<std::vector<float>>> history = {weights}; // [version][stage]
  int64_t perEpoch = samples / kBatch, cursor = 0,
          perStep = shape.asynchronous ? 1 : shape.microbatches;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t count = std::min(perStep, perEpoch - cursor);
    double loss = 0;
    // Stashing: microbatch t at stage s uses version max(0, t - p + 1 + s).
    std::vector<std::vector<float>> used = weights;
    if (shape.asynchronous)
      for (int s = 0; s < shape.stages; ++s)
        used[s] = history[size_t(std::max<int64_t>(0, step - shape.stages + 1 + s))][s];
    float total = 0;
    for (int64_t k = 0; k < count; ++k) {
      float one = 0;
      passes(shape, used, (cursor + k) * kBatch, gradients, k == 0, one);
      total = k == 0 ? one : total + one;
    }
    loss = double(total) / double(count * kBatch);
    float scale = shape.asynchronous ? 1 : float(1 / double(count * kBatch));
    for (int s = 0; s < shape.stages; ++s)
      for (int64_t i = 0; i < kWidth; ++i)
        weights[s][i] -= float(rate) * (scale * gradients[s][i]);
    history.push_back(weights);
    cursor = (cursor + count) % perEpoch;
    if (losses)
      losses->push_back(loss);
  }
  return weights;
}

} // namespace toy
