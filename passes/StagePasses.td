#ifndef PASSES_STAGEPASSES_TD
#define PASSES_STAGEPASSES_TD

include "mlir/Pass/PassBase.td"

class PlanPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let options = [Option<"planFile", "plan", "std::string", "\"\"", "plan.json">];
}

// Level 2.

def AssignStages : PlanPass<"assign-stages"> {
  let summary = "gives each unit the stage that the plan chose";
  let description = [{
    Gives every unit of @train and @evaluate the attribute `stage`: that of the forward unit it is
    planned with (`origin`). What the plan does not name follows a node that it shares with a
    planned unit, else the latest of its operands, else its readers (packed weights). What only sums
    of gradients read goes where the earliest gradient is made that they add up; what puts gradients
    below one another is copied there.

    Refuses stages that are not convex, naming both units, and running statistics that two stages
    would share.
  }];
}

def SendTiedWeights : PlanPass<"send-tied-weights"> {
  let summary = "gives a tied weight one home where stages have no step in common";
  let description = [{
    Asynchronous training only. A weight that several stages use, by itself or through a view or a
    packed copy, lives in the earliest of them with all that prepares and updates it. That stage
    copies what the others read for each microbatch, a value like any other that crosses, so that a
    microbatch meets one version in all of its uses: the one that the home's rule says. Gradients of
    the other uses come back with the microbatch and are summed at home; those of one stage that have one sum
    (join-sums) come back as one value.
  }];
}

def DivideSums : PlanPass<"divide-sums"> {
  let summary = "gives each stage that adds to a gradient a sum of its own";
  let description = [{
    Where uses of a weight that have one sum (join-sums) lie in several stages, the first of these keeps it, each
    other one has a sum `NAME/gradient.K`, and the update reads what all of them sum to.
  }];
}

def HoldTiedWeights : PlanPass<"hold-tied-weights"> {
  let summary = "lets every stage that reads a weight hold and update it";
  let description = [{
    A weight that several stages use has its update, with all that the update stores, once in each of
    them: all make the same next version. So do preparations of weights. Stages of one rank share
    what one of them makes. A view of a weight, and whatever else no microbatch changes, is made in
    each stage that reads it: it never crosses.

    The gradient of each use is summed where the use is. What the update reads of other stages becomes
    a memory of role gathered in outline-programs, which the ranks exchange once per update.
  }];
}

def MergeUnits : Pass<"merge-units", "::mlir::ModuleOp"> {
  let summary = "computes once what several units of a stage compute alike";
  let description = [{
    Of the units of a stage and a phase that read the same values and have the same kernel and nodes,
    whatever their names, the first makes what the others made: exporters write the mask of each
    layer, the places of several gathers, or a factor's gradient twice. What another stage reads is
    left as it is, since the plan says what crosses; so is what is kept or summed by itself.
  }];
}

def InsertCuts : Pass<"insert-cuts", "::mlir::ModuleOp"> {
  let summary = "puts a pdc.cut wherever a value crosses stages";
  let description = [{
    Puts one `pdc.cut` per destination stage behind each unit whose result is read in other stages,
    and lets the readers there read the cut. A value that skips stages goes straight to its reader.
    Memories are not cut: they are read where they are needed.
  }];
}

// Level 3.

def OutlinePrograms : PlanPass<"outline-programs"> {
  let summary = "turns @train and @evaluate into one program per rank, shared by replicas";
  let description = [{
    Makes a `pdc.program` per rank with the memories that its stages touch and, per stage, the tasks
    prepare, forward, backward, update and evaluate; then @train and @evaluate are gone. Without a
    plan each stage gets the rank of its number.

    A cut becomes a memory of one name on both sides, outbox where the value is made and inbox where
    it is read. Where a rank has several stages, each has inboxes and inputs of its own, named
    `stage_K/NAME`; what one gives another is copied there once it is made. What the forward task makes and the backward task reads becomes a memory of role
    activation, unless it has an outbox already. Views are repeated in each task that reads them, so
    that they never cost a copy. A gradient that a stage reads and another one sums is gathered.
  }];
}

def Recompute : PlanPass<"recompute"> {
  let summary = "runs the forward pass again instead of keeping its values";
  let description = [{
    In each stage that the plan recomputes (in every stage without a plan) the backward task begins
    with the units of the forward task that make what it reads, and the activations that were kept
    from one task to the other are gone: a microbatch in flight holds its inputs, inboxes and
    outboxes alone. What is sent is read in its outbox, not made again.

    Running statistics, losses and metrics see the first run only; random numbers are keyed, so that
    both runs draw the same; weights are read at the version of the first run, which version-weights
    keeps for whatever the backward task reads.
  }];
}

def SplitBackward : PlanPass<"split-backward"> {
  let summary = "divides backward tasks into input gradients and weight gradients";
  let description = [{
    Turns the backward task of each stage whose rows run its halves apart (of every stage without a
    plan) into a backward_input and a backward_weight task. What the gradients that are sent are
    made of is backward_input, the rest backward_weight; a gradient sum is added to where its value
    is made.

    What the second task reads of the first becomes a memory of role activation, unless it has an
    outbox already. Views are repeated. The first task reads every inbox of the backward pass, so
    that gradients are received before it even where only the second one uses them: no sender waits
    for work that another rank has put off.
  }];
}

def FuseProducts : Pass<"fuse-products", "::mlir::ModuleOp"> {
  let summary = "puts into the unit of a matrix product what cuBLASLt can compute with it";
  let description = [{
    On GPUs, within a task, and not with --exact. Makes one unit of a product and

    - the GELU by the hyperbolic tangent of what it makes (kernel GeluProduct), which yields the
      product, too, where others read it; not where a stage runs either again, since both runs have
      to make the same bits, and what they keep differs;
    - the derivative of that GELU, which multiplies what it makes (GeluGradientProduct);
    - the sum of the columns of one of its factors, the gradient of a bias beside that of a matrix,
      where both are summed over microbatches (SummedProduct, whose first result is the sum).

    Whether the library's one kernel runs or two is measured where the program runs. After the cut,
    since a product and what reads it may be planned apart. A module with `pdc.measures_units`,
    whose units are measured by themselves, is left as it is.

    Before: backward tasks are divided. After: the same, and what is computed is the same.
  }];
}

def FuseRows : Pass<"fuse-rows", "::mlir::ModuleOp"> {
  let summary = "lets kernels that pass over rows add what stands beside them";
  let description = [{
    On GPUs, within a task. Rows of a transformer are added and normalised in turn, those of a convolution's
    image rectified and added up; each pass over memory that only adds is saved. Makes one unit of

    - a sum of two tensors and the LayerNormalization or RMSNormalization that reads it, which yields the
      sum, too, where others read it;
    - a sum of up to four and the gradient of a normalisation's input that it arrives at, which yields the
      sum, too, where others read it;
    - that gradient and the sum of two that it is a term of, whatever has arrived;
    - the gradients of a normalisation's scale and bias, where both are summed over microbatches;
    - the gradient of a relu and that of the bias before it, which is its sum over microbatches.

    After the cut: between a sum and what normalises it a network is best divided. What is made is what two
    kernels make, to the bit, so that no bit depends on the cut. A module with `pdc.measures_units`, whose
    units are measured by themselves, is left as it is.

    Before: backward tasks are divided. After: the same, and what is computed is the same.
  }];
}

def FuseLoops : Pass<"fuse-loops", "::mlir::ModuleOp"> {
  let summary = "makes one loop of several that walk over the same tensor";
  let description = [{
    Within a task, loops over tensors of one shape and layout that read one of them together become one
    with up to four results, where either can run at the other's place: the gradients of both factors of a
    gate read what arrives once.

    After the cut, so that nothing is tied to one stage. None reads what another one makes, so that 16 bits
    are rounded as before, and no bit depends on the cut. A module with `pdc.measures_units`, whose units are
    measured by themselves, is left as it is.

    Before: backward tasks are divided. After: the same, and what is computed is the same.
  }];
}

// Level 4.

def BuildSchedule : Pass<"build-schedule", "::mlir::ModuleOp"> {
  let summary = "gives each program its rows";
  let options = [Option<"planFile", "plan", "std::string", "\"\"", "plan.json">,
                 Option<"schedule", "schedule", "std::string", "\"1f1b\"", "schedule without a plan">,
                 Option<"microbatches", "microbatches", "int64_t", "1",
                        "microbatches per update without a plan">];
  let description = [{
    Adds to each program a `pdc.schedule` for training with the runs and sums of its rank, and one
    for evaluation; gives each stage the slot of each microbatch (`slots`) and the number of weight
    versions that live at once (`versions`). The rows are the plan's; transfers come later.
  }];
}

def VersionWeights : Pass<"version-weights", "::mlir::ModuleOp"> {
  let summary = "reads weights at the version that the schedule promises";
  let description = [{
    Asynchronous schedules: lets backward tasks read the version of their microbatch (forward tasks
    too where the schedule has a rule for the version, as vertical sync has) and gives the
    memories concerned a `depth`: those that the backward task reads and every update rewrites, in
    the update or in the prepare task. What only the forward task reads (a bias) needs one version.
    Synchronous schedules: one version of everything.
  }];
}

def PlaceTransfers : Pass<"place-transfers", "::mlir::ModuleOp"> {
  let summary = "adds sends and receives to the rows";
  let description = [{
    Adds `pdc.send` and `pdc.recv` to the schedules, for each inbox, outbox and microbatch, where the
    schedule library places them; it proves the result free of deadlock.
  }];
}

def GatherUpdates : Pass<"gather-updates", "::mlir::ModuleOp"> {
  let summary = "puts the updates of a task behind all else that it does";
  let description = [{
    Moves the units of update tasks that make next values of memories and nothing else to the end of
    the task, in their order, with what writes those values, unless the task reads the memory again
    or something else writes later what the unit reads.
    Devices that update all weights of a task in one kernel run it there: what the units read must
    lie until then, as the homes that come later see to.
  }];
}

def AssignHomes : Pass<"assign-homes", "::mlir::ModuleOp"> {
  let summary = "decides the buffer of each value: views, parts, in-place results, sums, regions";
  let description = [{
    Decides which values share a buffer and in which region of the arena it lies: `in_place` of a
    unit keeps the pairs that do share, `fused` marks sums that the producing kernel adds to in
    place, and `homes` and `home` name the region with an offset of -1.

    A Split or Concat whose parts are whole pieces of one value's bytes moves nothing: its kernel goes, and
    `parts` says where each lies, unless one has to be elsewhere or what is kept for the backward pass
    would grow by more than an eighth.

    A result may overwrite an operand that nobody reads afterwards, in no task; never an input and
    never an outbox, which may still be on its way. An update overwrites what it updates, unless
    older versions are kept.
  }];
}

def PlanMemory : Pass<"plan-memory", "::mlir::ModuleOp"> {
  let summary = "lays out the arena of each program, reusing buffers by liveness";
  let description = [{
    Gives each buffer its offset and each program its regions: `fixed`, `versions`, `slots.K` per
    stage, `scratch` (library workspaces first) and `evaluation`. Slots reuse bytes over the
    microbatch's life in the stage, scratch within a task. Inputs stand first in a slot and at the
    same offsets in the copies of `evaluation`.
  }];
}

def VerifySchedule : Pass<"verify-schedule", "::mlir::ModuleOp"> {
  let summary = "proves the rows free of deadlock and of wrong versions, and the arena of overlaps";
  let description = [{
    Hands the rows as they stand in the IR to the proofs of the schedule library, then replays them
    on an arena whose bytes remember what was written: each read must find what was meant.
  }];
}

def NameValues : Pass<"name-values", "::mlir::ModuleOp"> {
  let summary = "gives each value and kernel a legal and unique C++ name";
  let description = [{
    Sets `variable` of memories and units and `result_variables` of units. Names are ONNX's with
    every character outside [A-Za-z0-9_] replaced, so that a name is never code; keywords and
    collisions get a suffix. What is stored in a memory has the memory's name.
  }];
}

def VerifyLevel : Pass<"verify-level", "::mlir::ModuleOp"> {
  let summary = "checks what is true at the border of a level";
  let options = [Option<"level", "level", "std::string", "\"graph\"", "graph, cut, staged or scheduled">];
}

#endif
