"""Training artifacts as ONNX Runtime's generate_artifacts writes them, for a network of Gemm, Relu and Gemm."""

import struct

import numpy
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


class FlatBuffer:
    """A FlatBuffers file, written from its end to its beginning as its own builders do. Objects are named by
    their distance from the end."""

    def __init__(self):
        self.bytes = b""

    def _align(self, ahead, align):
        """Pads so that what follows `ahead` more bytes lies at a multiple of `align`, from the end."""
        self.bytes = b"\0" * (-(len(self.bytes) + ahead) % align) + self.bytes

    def vector(self, data, count, align):
        self._align(len(data), max(align, 4))
        self.bytes = struct.pack("<I", count) + data + self.bytes
        return len(self.bytes)

    def string(self, text):
        return self.vector(text.encode() + b"\0", len(text.encode()), 1)

    def tables(self, offsets):
        self._align(4 * len(offsets), 4)
        for offset in reversed(offsets):
            self.bytes = struct.pack("<I", len(self.bytes) + 4 - offset) + self.bytes
        self.bytes = struct.pack("<I", len(offsets)) + self.bytes
        return len(self.bytes)

    def table(self, fields):
        """`fields`: number -> (format of struct, value); format "o" is an object written before."""
        end = len(self.bytes)
        places = {}
        for number, (kind, value) in fields.items():
            size = 4 if kind == "o" else struct.calcsize(kind)
            self._align(size, size)
            if kind == "o":
                self.bytes = struct.pack("<I", len(self.bytes) + 4 - value) + self.bytes
            else:
                self.bytes = struct.pack("<" + kind, value) + self.bytes
            places[number] = len(self.bytes)
        count = max(fields, default=-1) + 1
        self._align(4, 4)
        self.bytes = b"\0\0\0\0" + self.bytes
        table = len(self.bytes)
        entries = [table - places[number] if number in places else 0 for number in range(count)]
        vtable = struct.pack(f"<HH{count}H", 4 + 2 * count, table - end, *entries)
        self.bytes = vtable + struct.pack("<i", len(vtable)) + self.bytes[4:]
        return table

    def finish(self, root, identifier):
        self._align(8, 16)
        return struct.pack("<I", len(self.bytes) + 8 - root) + identifier + self.bytes


def checkpoint(trained, frozen=(), groups=()):
    """The file's bytes; `trained` and `frozen` map names to arrays, `groups` holds (step, learning rate)
    or (step, learning rate, parameter -> arrays of its states)."""
    buffer = FlatBuffer()

    def tensor(name, array):
        raw = buffer.vector(array.tobytes(), array.nbytes, 16)
        dims = buffer.vector(struct.pack(f"<{array.ndim}q", *array.shape), array.ndim, 8)
        label = buffer.string(name)
        return buffer.table({0: ("o", label), 2: ("o", dims), 3: ("i", numpy_helper.from_array(array).data_type), 4: ("o", raw)})

    lists = [buffer.tables([tensor(name, array) for name, array in dict(part).items()]) for part in (trained, frozen)]
    module = buffer.table({0: ("o", lists[0]), 1: ("o", lists[1])})
    fields = {0: ("i", 2), 1: ("o", module)}
    if groups:
        tables = []
        for step, rate, *rest in groups:
            states = rest[0] if rest else {}
            named = [(name, [tensor(f"momentum{i}", array) for i, array in enumerate(arrays)]) for name, arrays in states.items()]
            of_parameters = [(buffer.string(name), buffer.tables(tensors)) for name, tensors in named]
            listed = buffer.tables([buffer.table({0: ("o", label), 1: ("o", tensors)}) for label, tensors in of_parameters])
            label = buffer.string("group0")
            tables.append(buffer.table({0: ("o", label), 1: ("q", step), 2: ("f", rate), 3: ("o", listed)}))
        fields[2] = ("o", buffer.tables(tables))
    return buffer.finish(buffer.table(fields), b"ODTC")


def training_model(weights, trained):
    """The graph with its gradients: parameters are inputs, gradients go into accumulation buffers."""
    value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    loss, log_prob = "onnx::loss::7", "onnx::log_prob::8"
    nodes = [
        helper.make_node("Gemm", ["input", "fc1.weight", "fc1.bias"], ["h"], "/fc1/Gemm", transB=1),
        helper.make_node("Relu", ["h"], ["r"], "/relu/Relu"),
        helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["output"], "/fc2/Gemm", transB=1),
        helper.make_node("SoftmaxCrossEntropyLoss", ["output", "labels"], [loss, log_prob], "onnx::SoftmaxCrossEntropyLoss::9",
                         reduction="mean"),
        helper.make_node("SoftmaxCrossEntropyLossGrad", [loss + "_grad", log_prob, "labels"], ["output_grad"], "loss_Grad",
                         domain=MICROSOFT, reduction="mean"),
        helper.make_node("Gemm", ["output_grad", "r"], ["fc2.weight_grad"], "fc2_Grad/Gemm_0", transA=1),
        helper.make_node("ReduceSum", ["output_grad", "axes"], ["fc2.bias_grad"], "fc2_Grad/ReduceSum_1", keepdims=0),
        helper.make_node("Gemm", ["output_grad", "fc2.weight"], ["r_grad"], "fc2_Grad/Gemm_2"),
        helper.make_node("ReluGrad", ["r_grad", "r"], ["h_grad"], "relu_Grad/ReluGrad_0", domain=MICROSOFT),
        helper.make_node("Gemm", ["h_grad", "input"], ["fc1.weight_grad"], "fc1_Grad/Gemm_0", transA=1),
        helper.make_node("ReduceSum", ["h_grad", "axes"], ["fc1.bias_grad"], "fc1_Grad/ReduceSum_1", keepdims=0)]
    inputs = [value("input", TensorProto.FLOAT, ["batch", weights["fc1.weight"].shape[1]]), value("labels", TensorProto.INT64, ["batch"])]
    inputs += [value(name, TensorProto.FLOAT, array.shape) for name, array in weights.items()]
    outputs = [value(loss, TensorProto.FLOAT, [])]
    for i, name in enumerate(trained):
        buffer = f"{name}_grad.accumulation.buffer"
        nodes.append(helper.make_node("InPlaceAccumulatorV2", [buffer, f"{name}_grad", "lazy_reset_grad"], [f"{name}_grad.accumulation.out"],
                                      f"GradientAccumulator{i}", domain=MICROSOFT))
        inputs.append(value(buffer, TensorProto.FLOAT, weights[name].shape))
        outputs.append(value(f"{name}_grad.accumulation.out", TensorProto.BOOL, [1]))
    inputs.append(value("lazy_reset_grad", TensorProto.BOOL, [1]))
    constants = [numpy_helper.from_array(numpy.array(1, numpy.float32), loss + "_grad"), numpy_helper.from_array(numpy.array([0]), "axes")]
    graph = helper.make_graph(nodes, "training", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)


def optimizer_model(op="AdamWOptimizer", **attributes):
    """One node over sequences of tensors."""
    names = ["learning_rate", "step", "params", "gradients", "first_order_moments", "second_order_moments"]
    sequence = lambda name: helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)
    inputs = [helper.make_tensor_value_info("learning_rate", TensorProto.FLOAT, [1]), helper.make_tensor_value_info("step", TensorProto.INT64, [1])]
    node = helper.make_node(op, names, ["updated_flag"], "onnx::AdamWOptimizer::1", domain=MICROSOFT, **attributes)
    graph = helper.make_graph([node], "optimizer", inputs + [sequence(name) for name in names[2:]],
                              [helper.make_tensor_value_info("updated_flag", TensorProto.BOOL, [1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)
