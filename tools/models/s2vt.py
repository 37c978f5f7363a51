#!/usr/bin/python3
"""S2VT, sequence to sequence from video to text: one LSTM reads the frames, a second one reads what the first says and the
words so far. Inputs f32[batch, frames, features] and i64[batch, words] of the caption one step behind, output its logits.
"""
import sys

import torch
from torch import nn

from export import add_sizes, draw_tokens, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, frames=80, features=4096, words=20, width=500, hidden=1000, vocabulary=12594, dropout=0.5)


class S2VT(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.frame = nn.Linear(options.features, options.width)
        self.words = nn.Embedding(options.vocabulary, options.width)
        self.video = nn.LSTM(options.width, options.hidden, batch_first=True)
        self.text = nn.LSTM(options.hidden + options.width, options.hidden, batch_first=True)
        self.head = nn.Linear(options.hidden, options.vocabulary)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, video, words):
        """While one sequence lasts the other one is zeros."""
        frames, spoken = self.dropout(self.frame(video)), self.dropout(self.words(words))
        seen, _ = self.video(torch.cat([frames, torch.zeros_like(spoken)], dim=1))
        said, _ = self.text(torch.cat([seen, torch.cat([torch.zeros_like(frames), spoken], dim=1)], dim=2))
        return self.head(self.dropout(said[:, video.shape[1]:]))


def build(options):
    return S2VT(options)


def examples(options, count):
    words, labels = draw_tokens(count, options.words, options.vocabulary)
    video = torch.randn(count, options.frames, options.features)
    return {"video": video, "words": words, "labels": labels}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
