"""Reads and writes safetensors files: an 8-byte header length, a JSON header, little-endian bytes."""

import json
import pathlib

import numpy

TYPES = {"F32": numpy.float32, "I64": numpy.int64, "F64": numpy.float64, "I32": numpy.int32, "U8": numpy.uint8}


def load(path):
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + length + begin:8 + length + end], TYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def load_folder(folder):
    """All tensors of a checkpoint folder, whichever rank wrote them."""
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(load(path))
    return tensors


def save(path, tensors):
    names = {numpy.dtype(value): key for key, value in TYPES.items()}
    header, body = {}, b""
    for name in sorted(tensors):
        tensor = numpy.ascontiguousarray(tensors[name])
        begin = len(body)
        body += tensor.tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(body)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + body)
