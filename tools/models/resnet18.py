#!/usr/bin/python3
"""ResNet-18 for images of 3x32x32: torchvision's blocks, a 3x3 stem and no first max pool."""
from torch import nn
from torchvision.models import resnet18

from export import main


def network():
    net = resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = nn.Sequential()
    return net


if __name__ == "__main__":
    main(network, (3, 32, 32), __doc__)
