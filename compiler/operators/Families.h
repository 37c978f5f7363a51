#pragma once

#include "compiler/operators/Operator.h"

/// The operator families: one function per file that defines operators. A new file is added here
/// and in Operator.cpp's list.
namespace pdc {

std::span<const Operator> elementwiseOperators();
std::span<const Operator> convolutionOperators();
std::span<const Operator> poolingOperators();
std::span<const Operator> normalisationOperators();
std::span<const Operator> localResponseOperators();
std::span<const Operator> rotationOperators();
std::span<const Operator> dropoutOperators();
std::span<const Operator> randomOperators();
std::span<const Operator> recurrentCellOperators();
std::span<const Operator> matrixOperators();
std::span<const Operator> viewOperators();
std::span<const Operator> movementOperators();
std::span<const Operator> padOperators();
std::span<const Operator> selectionOperators();
std::span<const Operator> constantOperators();
std::span<const Operator> reductionOperators();
std::span<const Operator> softmaxOperators();
std::span<const Operator> softmaxAttentionOperators();
std::span<const Operator> layerNormalizationOperators();
std::span<const Operator> groupNormalizationOperators();
std::span<const Operator> splitOperators();
std::span<const Operator> crossEntropyOperators();
std::span<const Operator> lossOperators();
std::span<const Operator> alongAxisOperators();
std::span<const Operator> topOperators();
std::span<const Operator> gradientOperators();
std::span<const Operator> composedOperators();

} // namespace pdc
