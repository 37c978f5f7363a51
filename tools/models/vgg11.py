#!/usr/bin/python3
"""VGG-11 for images of 3x32x32: torchvision's features and a classifier of their 512 values."""
from collections import OrderedDict

from torch import nn
from torchvision.models import vgg11

from export import main


def network():
    classifier = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                               nn.Linear(512, 10))
    return nn.Sequential(OrderedDict(features=vgg11(num_classes=10).features, flatten=nn.Flatten(),
                                     classifier=classifier))


if __name__ == "__main__":
    main(network, (3, 32, 32), __doc__)
