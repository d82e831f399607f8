"""Patches are a convolution whose stride is its size, row by row behind [CLS]."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.inputs.arrays import Dense
from regard.layers import Context, Mask
from regard.layers.fronts.patches import Patches, cut_patches
from regard.layers.positions import Learned


@torch.no_grad()
def test_patches_are_pytorchs_convolution_with_the_first_token_and_positions():
    front = Patches((6, 8), patch=2, channels=3, dim=10)
    scheme = Learned(10, 2, 13)
    images = Dense(torch.randn(4, 3, 6, 8))
    layout = front.layout(images)
    assert layout.lengths == (13,) * 4
    tokens = front.read(images, Context(layout, layout.positions, Mask(), scheme)).view(4, 13, 10)

    kernel = front.projection.weight.view(10, 3, 2, 2)
    convolved = F.conv2d(images.values, kernel, front.projection.bias, stride=2)
    expected = convolved.flatten(2).transpose(1, 2) + scheme.table[1:]
    torch.testing.assert_close(tokens[:, 1:], expected)
    torch.testing.assert_close(tokens[:, 0], (front.first + scheme.table[:1]).expand(4, -1))


def test_cut_is_a_plain_loop():
    images = torch.arange(2 * 3 * 4 * 6).view(2, 3, 4, 6)
    expected = [
        [
            image[:, down : down + 2, right : right + 2].flatten().tolist()
            for down in (0, 2)
            for right in (0, 2, 4)
        ]
        for image in images
    ]
    assert cut_patches(images, 2).tolist() == expected
