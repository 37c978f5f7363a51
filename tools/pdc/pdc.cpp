// pdc MODEL.onnx --gpus N: plans the training of a model over N devices and writes its sources.

#include "tools/Command.h"
#include "tools/pdc/Compilation.h"

int main(int argc, char **argv) {
  return pdc::runCommand([&] {
    pdc::Options options;
    if (std::optional<int> code = pdc::parseOptions(argc, argv, options))
      return *code;
    pdc::compile(options, std::cout, std::cerr);
    return 0;
  });
}
