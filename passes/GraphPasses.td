#ifndef PASSES_GRAPHPASSES_TD
#define PASSES_GRAPHPASSES_TD

include "mlir/Pass/PassBase.td"

// Level 1, in pipeline order.

def InferShapes : Pass<"infer-shapes", "::mlir::ModuleOp"> {
  let summary = "gives each value a static shape and evaluates small constants, node by node";
  let description = [{
    Gives every result its type by its operator's shape rule and replaces each node whose value is
    known and small by a Constant node of the same name. Both happen node by node in one walk: a shape
    that is computed is known before the node that needs it is reached. An operator that is composed of
    others (compiler/operators/Composition.h) is replaced by their nodes, so that no later pass meets it.

    What depends on constants alone and is larger, as masks of long sequences are, stays computed, without the
    dimensions along which it repeats: an Expand repeats it, unless what reads it does that anyway.

    Rows of which data select some (`pdc.SelectedRows`, `pdc.SelectedPlaces`) are all computed. The walk follows
    them, and what stands for rows that are not selected counts for nothing where rows come together:
    in sums, means, largest values, products along them, updates of rows, losses and numbers that count
    them. A Concat along them joins their masks. Nodes that bring rows together otherwise are refused.

    Before: results may be unranked; memories have their types. After: every type is static, and what a
    rule asks for (shapes, axes, pads) is a Constant node.
  }];
}

def MergeConstants : Pass<"merge-constants", "::mlir::ModuleOp"> {
  let summary = "makes one node of those that compute the same of constants alone";
  let description = [{
    Exporters write in each layer what is the same for all, such as a mask of flags that are computed once. Nodes
    that are equal but for their names and depend on constants alone, being too large to be evaluated, become
    the first of them. No cut grows: what no microbatch changes is made in each stage that reads it, no gradient
    goes through it, and plans name no such node.

    Nodes that depend on weights or data stay apart, whatever they compute: far readers of one would be tied to
    one stage, or its larger result would cross in place of what it is made of.

    Before: static shapes, no backward node. After: the same values, to the bit.
  }];
}

def JoinSlices : Pass<"join-slices", "::mlir::ModuleOp"> {
  let summary = "makes one Split of slices that divide a tensor among them";
  let description = [{
    Slices of one tensor along one dimension, in steps of one, and Gathers of single constant indices become
    the parts of one `Split` where together they take each element once (or the same part twice). The
    gradient of a slice is as large as what it was cut from, that of a Split is one `Concat`; and a weight
    whose gates an exporter reorders by three slices has one use, and one sum of gradients, not three.

    What is made of weights alone is joined only where one node reads all parts: layers of several
    stages may each take their own of a common weight.

    Before: static shapes, no backward node. After: the same values, to the bit.
  }];
}

def HoistSplits : Pass<"hoist-splits", "::mlir::ModuleOp"> {
  let summary = "divides tensors before they are transposed";
  let description = [{
    A `Split` of what transpositions and views have made of a tensor becomes a Split of that tensor, whose
    parts are transposed each, where nobody else reads what lies between. Exporters write queries, keys and
    values so: one product, its rows in three, the three in front, then apart. In the order of the product
    they are read where they lie (recognise-composites).

    Before: static shapes, no backward node. After: the same values, to the bit.
  }];
}

def RecogniseComposites : Pass<"recognise-composites", "::mlir::ModuleOp"> {
  let summary = "puts one node in the place of those that exporters write for an operator";
  let description = [{
    Replaces what spells out LayerNormalization, RMSNormalization, Gelu (with the error function, or as
    FastGelu with a hyperbolic tangent) and Swish (`x Sigmoid(x)`) by a node of that operator, which has
    the name of the last node: one kernel instead of several, one gradient instead of a sum, and fewer
    values that the backward pass reads. Factors may stand in any order; constants may differ from
    the operator's by the rounding of f32. What else is read of a pattern's inside stays. Rows may be
    centred twice, once as torch.var does it, and means may be kept without their last dimensions and viewed.

    Max and Min with a number that a file of PyTorch's newer exporter says to be a clamp (attribute `clamps`) are
    AtLeast and AtMost, or one Clip, whose gradient is none at the bound. Max of a logarithm, as in nn.BCELoss, is LogAtLeast, whose gradient is none where
    the logarithm is that of 0.

    An InstanceNormalization, without scale and bias, of the groups that a view brings together, as PyTorch's
    exporters write nn.GroupNorm, becomes a GroupNormalization with the numbers per channel that it is multiplied
    by and that are added, or with none. A Swish that alone reads a GroupNormalization goes into it (attribute
    `swish`): what lies between is neither written nor kept.

    A quotient by a power of a mean over the squares of neighbouring channels, as PyTorch writes
    nn.LocalResponseNorm of an odd size, becomes LRN.

    Rotary position embeddings, of both halves of a width or of neighbours in it, become RotateHalves, before
    a transposition of what they turn.

    Softmax attention of several heads becomes SoftmaxAttention, which keeps no scores for the backward
    pass. Scores may be scaled on either side, masked by a sum or a choice and dropped after the softmax;
    a mask of what comes before that depends on constants alone is an attribute, also where another mask goes with
    it, and one that hides nothing is left out: what masks of any size hide is known by runs of their rows
    (passes/ConstantRows.h), which compare places. A window of keys that ends with the query's own is both a mask and
    that attribute. Of a choice between what is added and a number that hides, what is added is the mask, without the
    samples that the choice is made for, where all is seen or what comes before; rows that see no key may be made zeros after the softmax; transpositions to and from [batch, rows, heads,
    width] or [rows, batch, heads, width], by whatever views, and keys and values that several heads share are
    left to the kernel. A number of each head that multiplies its scores, as Swin v2 trains, multiplies its queries.
    Heads much wider than there are keys, as where channels attend to channels, stay products. Where data tell what a finite number stands for, a row may see no key and has equal shares
    of all: the attention reads zeros for its query, and a mask that shows it all. Where another reads the scores or
    the shares, nothing is recognised; nor where a second mask goes with a finite number that may hide whole rows, unless
    constants tell that each query sees the key at its own place. Of two masks of what comes before, that which shows
    less is the attribute. Where batch and heads are one dimension, as nn.MultiheadAttention writes them, they are the heads of
    one sample. Queries, keys and values that are the parts of one `Split`, or keys and values alone, are read
    where they lie, and their gradients are written there: nothing is divided or put together. Where such parts
    are of each sample, heads that are of one sample become those of several again. Transpositions of rows and
    samples before the products that make its operands, or behind those that read its result, are left out:
    the products work on rows in any order.

    A product of what is transposed in its last two dimensions becomes FusedMatMul, which reads it as it is:
    neither a weight nor its gradient is transposed.

    Before: static shapes, no backward node. After: the same values, by fewer nodes.
  }];
}

def Differentiate : Pass<"differentiate", "::mlir::ModuleOp"> {
  let summary = "adds the backward pass to @train";
  let description = [{
    Walks the nodes of @train in reverse from the value that is accumulated into @pdc.loss and adds
    the gradient of each node that lies between a weight and the loss, and of no other: the first layer
    has no input gradient. A backward node is named `FORWARD/grad/...` and its `origin` is the
    forward node. Gradients that meet at a value are one `Sum`, its terms in the order of the consumers. It is
    planned with the value's producer, whose gradient may take it in; that of an addition or a normalisation of rows with the
    first consumer, so that one gradient crosses a cut. Consumers more than 32 nodes before others have a `Sum` of
    their own, planned with the first of them, which takes in that of the later ones: so one gradient goes back from
    stage to stage for what many layers read, and waits in memory.
    No gradient goes through a pdc.StopGradient, which is then removed.

    Each use of a weight has a sum of its own (`NAME/gradient`, `NAME/gradient.1`, ... in the order of
    uses), so that no bit depends on the stages that the uses come to lie in. The seed is 1 for
    synchronous training and 1/weight of the microbatch's loss under `pdc.asynchronous` (0 where all weights are 0).
    With `scales-loss` it is @pdc.loss_scale, which the runtime changes from step to step and divides out again.

    Before: static shapes, no backward node. After: one pdc.accumulate and one sum per use of a trained weight.
  }];
  let options = [Option<"scalesLoss", "scales-loss", "bool", "false", "for gradients that fp16 would lose">];
}

def ReadPooledGradients : Pass<"read-pooled-gradients", "::mlir::ModuleOp"> {
  let summary = "lets relus and biases before max pooling read the pooled gradient";
  let description = [{
    `ReluGrad(MaxPoolGrad(dY, Indices), Y)` becomes `MaxPoolGrad(ReluGrad(dY, P), Indices)` where P is what
    Y was pooled to: a gradient goes to maxima alone, and a maximum of a relu's result is positive
    where the result is. Fewer elements are masked, and the backward pass does not read Y, often a network's
    largest image. The mask is planned with the pooling. Left alone in front of a BatchNormalizationGrad,
    whose kernels mask what they read.

    `ConvBiasGrad(MaxPoolGrad(dY, Indices))` becomes `ConvBiasGrad(dY)`: each element goes to one pixel of its
    channel.

    Before: differentiated. After: the same values, to the bit; sums rounded in another order.
  }];
}

def ReadRepeated : Pass<"read-repeated", "::mlir::ModuleOp"> {
  let summary = "lets loops read what is repeated for them where it lies";
  let description = [{
    An elementwise node whose operand an Expand or the gradient of a sum or mean has repeated reads what that
    repeats, with ones where dimensions were summed, if another operand has the shape of the result: a loop
    repeats as it reads, and nothing is written for it. Left alone is a ReluGrad in front of a
    BatchNormalizationGrad, whose kernels mask what they read.

    Before: differentiated. After: the same values, to the bit.
  }];
}

def JoinProducts : Pass<"join-products", "::mlir::ModuleOp"> {
  let summary = "makes one product of those that are added up";
  let description = [{
    The gradient of a matrix that every step of a sequence multiplies by is a sum of products, one per
    step, each as large as the matrix. The same is one product of all steps' rows below one another:
    in place of a `Sum` of products A^T B, or of their own sums where the steps use the weight itself,
    stands one product of two `Concat`, the first of which is there already where a sequence was cut
    into steps. Steps that lie far apart have sums of their own, which the last one takes in. So it is done
    with sums of columns, the gradients of biases. Only where copying the rows moves less than the products
    would: not for layers of a transformer that share a weight, whose rows are many.
    It is planned where the sum was, or with the weight's first use.

    Before: differentiated. After: the same values, rounded in another order.
  }];
}

def JoinSums : Pass<"join-sums", "::mlir::ModuleOp"> {
  let summary = "sums the gradients of all uses of a weight in one memory";
  let description = [{
    The layers that share a weight add to one sum, which is held, sent to replicas and read by the update once.
    Not under `exact`: which uses add before which then follows from the stages that they lie in (divide-sums).

    Before: differentiated. After: each weight that has a gradient has one sum.
  }];
}

def NarrowValues : Pass<"narrow-values", "::mlir::ModuleOp"> {
  let summary = "stores what passes between kernels in 16 bits";
  let description = [{
    With precision bf16 or fp16, brings the factors of convolutions and matrix products to it by a Cast and
    lets everything that follows from them stay so: loops, views, movements and whatever other kernels of
    GPUs take 16 bits (compiler/devices/NarrowKernels.cpp). Sums and arithmetic inside of kernels are f32.
    Other operators stand behind a Cast back to f32.

    f32 stay weights (their Casts are prepared once per version; evaluation casts them for each
    microbatch), sums of gradients, losses, statistics, running statistics, and what is made of inputs and
    constants alone. So do powers, exponentials, logarithms and reciprocals, which PyTorch's autocast keeps in
    f32 too, with fp16 squares as well, loops with a finite constant that 16 bits would make infinite, those
    that add or pick numbers made of inputs alone, which may mask, and products with constants that 16 bits
    would round, such as the sines of a DFT. Where a product's only reader is a Cast to f32, its kernel writes
    the f32 sums themselves. What only products, and sums beside them, read through a view is cast before the view, and
    cross entropies read and round 16 bits themselves. With fp32 and tf32 nothing changes.

    Before: differentiated, no update. After: only loops read f32 and 16 bits at once.
  }];
  let options = [Option<"precision", "precision", "std::string", "\"fp32\"", "fp32, tf32, bf16 or fp16">];
}

def AppendOptimizer : Pass<"append-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds the update of each weight to @train";
  let description = [{
    Reads the gradient sums of each weight, adds those of several uses in order, computes the new
    weight and the new optimizer state in one node and commits and writes them. LAMB's node makes the
    direction in which the weight goes; sums of squares say how far. The learning rate is an
    input at run time, and so is `pdc.learning_rate.times_F`, for weights that `lr-scale` gives F times that; its
    default becomes the module's attribute `pdc.learning_rate`. Optimizer state
    starts at zero (Adagrad's at its initial_accumulator), or as the weights file has it where the module's
    attribute `pdc.stored_states` names it, and is named as in checkpoints: `NAME/momentum`, `NAME/sum`,
    `NAME/exp_avg`, `NAME/exp_avg_sq`.

    Before: differentiated. After: each weight that has a gradient has one commit.
  }];
  let options = [Option<"optimizer", "optimizer", "std::string", "\"sgd\"",
                        "kind and settings as in `momentum,momentum=0.9,weight_decay=1e-4`">,
                 ListOption<"noDecay", "no-decay", "std::string", "patterns of weights without decay">,
                 ListOption<"lrScale", "lr-scale", "std::string",
                            "PATTERN=F: weights that learn at F times the rate, by the last pattern that matches">];
}

def LabelPhases : Pass<"label-phases", "::mlir::ModuleOp"> {
  let summary = "gives each node its phase and its rate";
  let description = [{
    Gives each node the rate of its fastest operand and its phase: forward, backward_input, and
    backward_weight where only gradient sums read it; update at rate update, and where only updates
    read it; prepare where only weights and constants are read. What the other phases read of a prepared value goes through a derived memory,
    views excepted. In @evaluate every phase is evaluate. A gradient that is the same for every microbatch, such as a penalty's, is
    added to its sum as a node of each microbatch.

    After: phase and rate on every node; no node mixes values per microbatch and per update.
  }];
}

def PlaceConstants : Pass<"place-constants", "::mlir::ModuleOp"> {
  let summary = "puts constants that kernels read into memories";
  let description = [{
    Gives each constant that a kernel reads (a mask, positions) a memory of role constant whose
    `initial` is the value, one for all equal constants. What rules need at compile time (shapes, axes) and
    single numbers in elementwise nodes stay constants of the graph: form-units copies them into units.

    After: a Constant node is read only where its value is part of the reader's kernel.
  }];
}

class DevicePass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let options = [Option<"exact", "exact", "bool", "false", "only kernels that keep their bits">,
                 Option<"threads", "threads", "int", "1", "CPU threads per rank">,
                 Option<"vectorWidth", "vector-width", "int", "16", "floats per vector register">,
                 Option<"device", "device", "std::string", "\"cpu\"", "cpu or cuda">,
                 Option<"precision", "precision", "std::string", "\"fp32\"", "fp32, on GPUs also tf32, bf16, fp16">];
}

def FormUnits : DevicePass<"form-units"> {
  let summary = "groups nodes into units, each of which becomes one kernel";
  let description = [{
    Puts each node into exactly one pdc.unit: a hero with the elementwise prologue and epilogue that the
    device's kernel computes, elementwise nodes that need one loop, or a view alone. What a loop of one
    tensor makes for another one and for the backward pass's loops, as in a gate, those make again of what it
    reads: then nobody keeps it. On GPUs a convolution of fp16 is one
    with the BatchNormInternal that reads it, whose sums it can make: its result, which the backward pass reads,
    is one of the unit's; and an image that is added to a normalised one is added as that is written. Only
    nodes of one phase and rate
    are fused; behind the forward pass only those whose origins lie in one forward unit, so that a
    unit never spans what the plan may put on two stages. Constants are copied into the units that
    read them; reads, writes, sums and commits stay outside. Units of @evaluate have the unit of the
    same nodes in @train as origin and so follow it to its stage.

    Before: phases and rates. After: no node outside of units.
  }];
}

def FuseParts : DevicePass<"fuse-parts"> {
  let summary = "lets loops read and write parts of tensors where they lie";
  let description = [{
    A Split whose parts only loops read, as the halves of a gated unit, goes into these: each reads the whole, in
    the backward pass too, where no more is kept for it so. A Concat of what loops make for nobody else, as the
    gradients of the halves are, and these loops become one. Where the parts lie behind one another nothing is
    copied anyway (assign-homes).

    Before: units. After: the same values, to the bit.
  }];
}

def FuseNormalisations : Pass<"fuse-normalisations", "::mlir::ModuleOp"> {
  let summary = "lets gradients of normalisations read fewer images";
  let description = [{
    For GPUs, whose kernels of BatchNormalizationGrad read memory twice: for two sums per channel, then for
    the input's gradient. A relu of nothing but the normalised image then needs no result of its own: what
    it lets through is where BatchNormApply, of the image that is read anyway, is positive. Where the
    gradient behind a relu has other readers or is a `Sum` of several, as in residual networks, it is made
    in the same unit, which sums while it writes it.

    Before: units. After: the same values, to the bit.
  }];
}

def ChooseKernels : DevicePass<"choose-kernels"> {
  let summary = "chooses kernel and layouts of each unit and inserts reorders";
  let description = [{
    Asks the device for the kernel of each unit in order, given the layouts in which its operands
    arrive, and puts a Reorder unit where the kernel wants another one. A weight is stored in the layout that its
    first reader wants, together with its gradients and optimizer state; readers in other layouts
    get a derived copy, made in phase prepare. Kernels that multiply say in their field `compute` what in,
    where that is not fp32. `in_place` lists (operand, result) pairs that may share memory.

    Before: units without kernel. After: every unit but views has a kernel, its operands are the
    kernel's pointers in order, and types carry layouts.
  }];
}

def PadRows : Pass<"pad-rows", "::mlir::ModuleOp"> {
  let summary = "lets rows of products begin where tensor cores read fast";
  let description = [{
    Where a product of TF32 or 16 bits makes or reads a tensor whose rows do not begin at multiples of 16
    bytes, such as the scores of 50,257 words, gives the tensor the layout of padded rows (`abC8c`) and
    tells its kernels in their fields `pitch...` how far its rows lie apart. Only where all that makes and
    reads it, under any shape that a view gives it, has such a field (products, cross entropy and its
    gradient, sums over rows), and the padding is at most an eighth of it. Nobody reads the padding.

    Before: kernels are chosen. After: the same, and what is computed is the same.
  }];
}

def EstimateCost : Pass<"estimate-cost", "::mlir::ModuleOp"> {
  let summary = "gives each unit its flops, bytes and seconds";
  let description = [{
    Adds up the costs of a unit's nodes by their operators' rules, values between them excepted, and
    takes seconds from the profile where there is one, else from the device's roofline, at the peak of
    what the kernel computes in. Seconds of a profile of another microbatch size are scaled in proportion,
    but for the update's.

    After: flops, bytes and seconds on every unit.
  }];
  let options = [Option<"device", "device", "std::string", "\"cpu\"", "row of the device table">,
                 Option<"threads", "threads", "int", "1", "CPU threads per rank">,
                 Option<"profile", "profile", "std::string", "\"\"", "profile.json with measured seconds">,
                 Option<"microbatch", "microbatch", "int64_t", "0",
                        "samples of a microbatch; 0: as many as were measured">];
}

#endif
