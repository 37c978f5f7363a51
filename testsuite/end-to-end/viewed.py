#!/usr/bin/python3
"""A network whose layers read weights in another shape than they are stored in: PReLU's slopes and the bias of a transposed convolution."""
from torch import nn

from export import main


class Viewed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 4, 3), nn.PReLU(4), nn.ConvTranspose2d(4, 3, 3), nn.PReLU(), nn.Flatten(),
                         nn.Linear(3 * 8 * 8, 10))


if __name__ == "__main__":
    main(Viewed, (1, 8, 8), __doc__)
