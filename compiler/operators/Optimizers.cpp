#include "compiler/operators/Elementwise.h"
#include "compiler/operators/Rules.h"

#include <cmath>

namespace pdc {

// Updates are PyTorch 1.13's. `scale` turns the summed gradient into the mean (and clips it), so the
// gradient of a step is g * scale + weight_decay * w; step counts from 1. What ONNX's optimizers do
// otherwise is an attribute: `first_step` is the number that the first update counts as (1),
// `scaled_epsilon` puts Adam's epsilon outside of the bias correction, `post_decay` shrinks the
// updated weight.

static ElementwiseRow sgdUpdate() {
  ElementwiseRow sgd{"SgdUpdate",
                     0,
                     {{"w"}, {"g"}, {"scale"}, {"lr"}},
                     {PDC_EXPRESSION($0 - $3 * ($1 * $2 + $weight_decay * $0))}};
  sgd.outputs = {{"w1"}};
  return sgd;
}

/// The first step takes the gradient itself as momentum, undamped.
static ElementwiseRow momentumUpdate() {
  ElementwiseRow momentum{
      "MomentumUpdate",
      0,
      {{"w"}, {"g"}, {"v"}, {"scale"}, {"lr"}, {"step"}},
      {PDC_EXPRESSION(
           $0 -
           $4 * ($nesterov
                     ? ($1 * $3 + $weight_decay * $0) +
                           $momentum * ($5 + $first_step > 2 ? $momentum * $2 + (1 - $dampening) *
                                                                      ($1 * $3 + $weight_decay * $0)
                                               : ($1 * $3 + $weight_decay * $0))
                     : ($5 + $first_step > 2 ? $momentum * $2 + (1 - $dampening) * ($1 * $3 + $weight_decay * $0)
                               : ($1 * $3 + $weight_decay * $0)))),
       PDC_EXPRESSION($5 + $first_step > 2 ? $momentum * $2 + (1 - $dampening) * ($1 * $3 + $weight_decay * $0)
                             : ($1 * $3 + $weight_decay * $0))}};
  momentum.outputs = {{"w1"}, {"v1"}};
  return momentum;
}

/// The gradient's squares are summed over all steps.
static ElementwiseRow adagradUpdate() {
  ElementwiseRow adagrad{
      "AdagradUpdate",
      0,
      {{"w"}, {"g"}, {"h"}, {"scale"}, {"lr"}, {"step"}},
      {PDC_EXPRESSION($0 -
                      $4 / (1 + ($5 + $first_step - 2) * $lr_decay) *
                          ($1 * $3 + $weight_decay * $0) /
                          (std::sqrt($2 + ($1 * $3 + $weight_decay * $0) *
                                              ($1 * $3 + $weight_decay * $0)) +
                           $epsilon)),
       PDC_EXPRESSION($2 +
                      ($1 * $3 + $weight_decay * $0) * ($1 * $3 + $weight_decay * $0))}};
  adagrad.outputs = {{"w1"}, {"h1"}};
  return adagrad;
}

/// Decoupled weight decay (AdamW) shrinks the weight, before the update (1) or after it (2); the
/// other kind is part of the gradient. Or (3) the weight's next version is LambUpdate's to make,
/// and the first result is what that subtracts a multiple of.
static ElementwiseRow adamUpdate() {
  ElementwiseRow adam{
      "AdamUpdate",
      0,
      {{"w"}, {"g"}, {"m"}, {"v"}, {"scale"}, {"lr"}, {"step"}},
      {PDC_EXPRESSION(
           (1 - ($decoupled == 2 ? $5 * $weight_decay : $post_decay)) *
           (($decoupled == 3   ? $weight_decay * $0
             : $decoupled == 1 ? $0 - $5 * $weight_decay * $0
                               : $0) -
            ($decoupled == 3 ? -1 : $5) / ($6 + $first_step > 1 ? 1 - std::pow($beta1, $6 + $first_step - 1) : 1) *
                ($beta1 * $2 +
                 (1 - $beta1) * ($decoupled ? $1 * $4 : $1 * $4 + $weight_decay * $0)) /
                ((std::sqrt($beta2 * $3 + (1 - $beta2) *
                                              ($decoupled ? $1 * $4 : $1 * $4 + $weight_decay * $0) *
                                              ($decoupled ? $1 * $4
                                                          : $1 * $4 + $weight_decay * $0)) +
                  $scaled_epsilon * $epsilon) /
                     std::sqrt($6 + $first_step > 1 ? 1 - std::pow($beta2, $6 + $first_step - 1)
                                                    : 1) +
                 (1 - $scaled_epsilon) * $epsilon))),
       PDC_EXPRESSION($beta1 * $2 +
                      (1 - $beta1) * ($decoupled ? $1 * $4 : $1 * $4 + $weight_decay * $0)),
       PDC_EXPRESSION($beta2 * $3 + (1 - $beta2) *
                                        ($decoupled ? $1 * $4 : $1 * $4 + $weight_decay * $0) *
                                        ($decoupled ? $1 * $4 : $1 * $4 + $weight_decay * $0))}};
  adam.outputs = {{"w1"}, {"m1"}, {"v1"}};
  return adam;
}

/// Algorithm 2 of You et al. (2020) without bounds: along the direction as far as the weight is
/// long, times the rate. The last operands are the squares' sums. A weight or a direction of zeros
/// has no such length: it moves by the rate alone.
static ElementwiseRow lambUpdate() {
  ElementwiseRow lamb{
      "LambUpdate",
      0,
      {{"w"}, {"direction"}, {"lr"}, {"weight_square"}, {"direction_square"}},
      {PDC_EXPRESSION($0 - $2 * ($3 > 0 && $4 > 0 ? std::sqrt($3) / std::sqrt($4) : 1) * $1)}};
  lamb.outputs = {{"w1"}};
  return lamb;
}

std::vector<ElementwiseRow> optimizerRows() {
  return {sgdUpdate(), momentumUpdate(), adagradUpdate(), adamUpdate(), lambUpdate()};
}

} // namespace pdc
