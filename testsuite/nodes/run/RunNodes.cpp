// run-nodes FOLDER: runs the programs that pdc-node-sources wrote there, each in a process of its own,
// and writes what became of them to results.txt: NAME, passed or wrong, why.

#include "runtime/Executor.h"
#include "runtime/MemoryTensors.h"
#include "runtime/ShapeText.h"
#include "testsuite/nodes/run/Cases.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

using namespace pdc::runtime;
using Tensors = std::map<std::string, TensorView>;

static std::vector<Case> &allCases() {
  static std::vector<Case> cases;
  return cases;
}

bool addCases(std::span<const Case> cases) {
  allCases().insert(allCases().end(), cases.begin(), cases.end());
  return true;
}

namespace {

/// Calls visit(T()) with the type of a memory's elements.
template <class Visit> void withType(ElementType element, Visit visit) {
  switch (element) {
  case ElementType::f32:
    return visit(float());
  case ElementType::i64:
    return visit(int64_t());
  case ElementType::i32:
    return visit(int32_t());
  case ElementType::u8:
    return visit(uint8_t());
  }
}

int64_t count(std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

/// The tensor of a memory in the file of all tests, whose elements are doubles.
std::span<const double> given(const Tensors &tensors, const std::string &test,
                              const Memory &memory) {
  auto found = tensors.find(test + "/" + memory.name);
  if (found == tensors.end())
    throw Error("there is no tensor '", memory.name, "' for the program");
  if (!std::ranges::equal(found->second.shape, memory.shape))
    throw Error("'", memory.name, "' is ", shapeText(found->second.shape), " in the test");
  return {reinterpret_cast<const double *>(found->second.data), size_t(count(memory.shape))};
}

class TestInputs : public Inputs {
public:
  TestInputs(const Tensors &tensors, std::string test) : tensors(tensors), test(std::move(test)) {}
  void fill(const Memory &memory, std::byte *to, int64_t) override {
    std::span<const double> values = given(tensors, test, memory);
    withType(memory.element, [&](auto type) {
      std::vector<decltype(type)> elements(values.begin(), values.end());
      Layout(memory.layout, memory.shape)
          .pack(reinterpret_cast<const std::byte *>(elements.data()), to, sizeof type);
    });
  }

private:
  const Tensors &tensors;
  std::string test;
};

/// As ONNX's own runner of these tests compares.
bool isNear(double found, double expected) {
  return found == expected || (std::isnan(found) && std::isnan(expected)) ||
         std::abs(found - expected) <= 1e-7 + 1e-3 * std::abs(expected);
}

void compare(const Memory &memory, const std::byte *stored, std::span<const double> expected) {
  withType(memory.element, [&](auto type) {
    std::vector<decltype(type)> found(expected.size());
    Layout(memory.layout, memory.shape)
        .unpack(stored, reinterpret_cast<std::byte *>(found.data()), sizeof type);
    for (size_t i = 0; i < found.size(); ++i)
      if (!isNear(double(found[i]), expected[i]))
        throw Error(memory.name, ": element ", i, " is ", double(found[i]), ", expected ",
                    expected[i]);
  });
}

/// One step of the program, and its outputs.
void runCase(const Case &test, const std::string &folder, const Tensors &tensors) {
  const Program &program = *test.programs().first;
  check(program);
  Arena arena(program);
  LocalNetwork network(1);
  LocalControlPlane plane(1);
  auto endpoint = network.endpoint(0);
  TestInputs inputs(tensors, test.name);
  Executor executor(program, arena, *endpoint, plane.of(0), inputs, {});
  loadInitial(program, executor, folder + "/" + test.name + ".weights",
              folder + "/" + test.name + ".constants");
  executor.start();
  executor.trainSynchronous(1, 1, LearningRate(0.1, "constant", 1));
  int outputs = 0;
  for (const Memory &memory : program.memories)
    if (memory.role == Role::state && std::string_view(memory.name).starts_with("output ")) {
      compare(memory, executor.newest(memory), given(tensors, test.name, memory));
      ++outputs;
    }
  if (outputs == 0)
    throw Error("the program has no output");
}

/// In a process of its own: a program that crashes is a test that fails. What it says, or nothing.
std::string runApart(const Case &test, const std::string &folder, const Tensors &tensors) {
  int pipe[2];
  if (::pipe(pipe) != 0)
    throw Error("cannot make a pipe: ", std::strerror(errno));
  pid_t child = fork();
  if (child == 0) {
    std::string why;
    try {
      runCase(test, folder, tensors);
    } catch (const std::exception &error) {
      why = error.what();
    }
    bool told = write(pipe[1], why.data(), why.size()) == ssize_t(why.size());
    _exit(told ? 0 : 1);
  }
  close(pipe[1]);
  std::string why;
  char buffer[4096];
  for (ssize_t bytes; (bytes = read(pipe[0], buffer, sizeof buffer)) > 0;)
    why.append(buffer, size_t(bytes));
  close(pipe[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? why : "the program crashed";
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: run-nodes FOLDER\n";
    return 2;
  }
  std::string folder = argv[1];
  FileBytes file(folder + "/data.safetensors");
  Tensors tensors = readSafetensors(file);
  std::ofstream results(folder + "/results.txt");
  for (const Case &test : allCases()) {
    std::string why = runApart(test, folder, tensors);
    results << test.name << '\t' << (why.empty() ? "passed" : "wrong") << '\t' << why << '\n';
  }
  return results.flush() ? 0 : 1;
}
