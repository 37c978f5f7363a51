// pdc MODEL.onnx --gpus N: plans the training of a model over N devices and writes its sources.

#include "compiler/Error.h"
#include "tools/pdc/Compilation.h"

#include <iostream>
#include <new>

int main(int argc, char **argv) {
  try {
    pdc::Options options;
    if (std::optional<int> code = pdc::parseOptions(argc, argv, options))
      return *code;
    pdc::compile(options, std::cout, std::cerr);
    std::cout.flush();
    if (!std::cout)
      throw pdc::Error("cannot write to standard output");
    return 0;
  } catch (const std::bad_alloc &) {
    std::cerr << "error: out of memory\n";
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << '\n';
  }
  return 1;
}
