#include "runtime/Progress.h"

#include "runtime/Error.h"
#include "runtime/ReplacedFile.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

namespace pdc::runtime {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = int64_t(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    text.insert(size_t(at), 1, ',');
  return text;
}

std::string clockText(Seconds seconds) {
  int64_t whole = std::llround(std::clamp(seconds, 0.0, 1e9));
  char text[32];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", (long long)whole / 3600,
                  (long long)whole / 60 % 60, (long long)whole % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", (long long)whole / 60, (long long)whole % 60);
  return text;
}

std::string fixed(double value, int digits) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string jsonNumber(double value) {
  char text[40] = "null";
  if (std::isfinite(value))
    std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// A run that goes on from a step tells anew what an earlier one told of those behind it.
static void keepUntil(const std::string &log, int64_t step) {
  std::ifstream before(log);
  std::string kept, line;
  bool leavesOut = false;
  while (std::getline(before, line)) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    const bool isLater = record.is_object() && record.contains("step") &&
                         record["step"].is_number_integer() &&
                         record["step"].get<int64_t>() > step;
    leavesOut = leavesOut || isLater;
    kept += isLater ? "" : line + "\n";
  }
  if (!leavesOut)
    return;
  ReplacedFile file(log);
  file.text() << kept;
  if (!file.takePlace())
    throw Error("--log ", log, ": its steps behind ", step,
                ", which this run tells anew, cannot be taken out; make room, or give another log");
}

/// A pipe without a reader would keep the run waiting for one.
static FILE *openLog(const std::string &log, bool goesOn) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(log, ignored))
    return std::fopen(log.c_str(), goesOn ? "ae" : "we");
  const int handle = open(log.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle < 0 && errno == ENXIO)
    throw Error("--log ", log,
                ": is a pipe that no program reads; start its reader first, or give a file");
  if (handle < 0)
    return nullptr;
  fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) & ~O_NONBLOCK);
  return fdopen(handle, "w");
}

Progress::Progress(const std::string &mode, const std::string &log, bool goesOn,
                   int64_t firstStep, int64_t totalSteps)
    : terminal(mode == "terminal" || (mode == "auto" && isatty(STDOUT_FILENO))),
      quiet(mode == "none"), logFile(log), firstStep(firstStep), totalSteps(totalSteps),
      last(now()) {
  seconds.reserve(size_t(std::clamp<int64_t>(totalSteps - firstStep, 0, 10'000'000)));
  if (logFile.empty())
    return;
  if (std::error_code ignored; goesOn && std::filesystem::is_regular_file(logFile, ignored))
    keepUntil(logFile, firstStep);
  file = openLog(logFile, goesOn);
  if (!file)
    throw Error("--log ", logFile, ": cannot be written: ", std::strerror(errno));
}

Progress::~Progress() {
  if (lineOpen)
    std::printf("\n");
  if (file)
    std::fclose(file);
}

void Progress::step(int64_t step, int64_t epoch, double meanLoss, int64_t samples,
                    double learningRate, double gradientNorm) {
  Seconds at = now(), took = at - last;
  last = at;
  spent += took;
  samplesSeen += samples;
  loss = meanLoss;
  seconds.push_back(float(took));
  if (file) {
    std::fprintf(file,
                 "{\"step\": %lld, \"epoch\": %lld, \"loss\": %s, \"seconds\": %.6f, "
                 "\"samples\": %lld, \"lr\": %.9g",
                 (long long)step, (long long)epoch, jsonNumber(meanLoss).c_str(), took,
                 (long long)samples, learningRate);
    if (gradientNorm > 0)
      std::fprintf(file, ", \"gradient_norm\": %.9g", gradientNorm);
    std::fprintf(file, "}\n");
    // A run that is killed leaves what came before its last second.
    if (at - flushed > 1) {
      flushed = at;
      std::fflush(file);
    }
    checkLog();
  }
  if (!quiet && (at - shown > (terminal ? 0.1 : 5) || step == totalSteps)) {
    shown = at;
    show(step);
  }
}

void Progress::show(int64_t step) {
  double perStep = spent / double(std::max<int64_t>(step - firstStep, 1));
  std::printf("%sstep %lld/%lld  loss %.4f  %s samples/s  %s left%s", terminal ? "\r\033[K" : "",
              (long long)step, (long long)totalSteps, loss,
              grouped(std::llround(double(samplesSeen) / std::max(spent, 1e-9))).c_str(),
              clockText(perStep * double(totalSteps - step)).c_str(), terminal ? "" : "\n");
  std::fflush(stdout);
  lineOpen = terminal;
}

void Progress::leftOut(int64_t step, bool halved, double lossScale) {
  line("step " + std::to_string(step) + ": a gradient overflowed, so its update is left out" +
       (halved ? " and the loss scale halved, to " + jsonNumber(lossScale) : ""));
  log("{\"step\": " + std::to_string(step) +
      ", \"left_out\": true, \"loss_scale\": " + jsonNumber(lossScale) + "}");
}

void Progress::line(const std::string &text) {
  if (quiet)
    return;
  std::printf("%s%s\n", lineOpen ? "\n" : "", text.c_str());
  std::fflush(stdout);
  lineOpen = false;
}

void Progress::log(const std::string &json) {
  if (!file)
    return;
  std::fprintf(file, "%s\n", json.c_str());
  std::fflush(file);
  checkLog();
}

void Progress::checkLog() {
  if (!std::ferror(file))
    return;
  failure = "--log " + logFile + ": cannot be written: " + std::strerror(errno);
  std::fclose(std::exchange(file, nullptr));
  line(failure + "; training goes on without it");
}

bool Progress::isLogged() {
  if (file) {
    std::fflush(file);
    checkLog();
  }
  return file != nullptr;
}

void Progress::finish() const {
  if (!failure.empty())
    throw Error(failure, "; all else is done");
}

double Progress::medianSeconds() const {
  if (seconds.empty())
    return 0;
  std::vector<float> sorted = seconds;
  auto middle = sorted.begin() + int64_t(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

} // namespace pdc::runtime
