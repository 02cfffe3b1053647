"""How far apart two colours are, for eyes of four kinds.

Dichromatic vision is simulated by the matrices of severity 1.0 of Machado, Oliveira and Fernandes,
"A Physiologically-based Model for Simulation of Color Vision Deficiency" (IEEE TVCG 15(6), 2009),
which act on linear sRGB. The distance is Euclidean in OKLab (Ottosson, "A perceptual color space
for image processing", 2020), times 100: about 2 can just be told apart side by side.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

VISIONS: Final = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_TO_CONES: Final = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB: Final = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
_LUMINANCE: Final = np.array([0.2126, 0.7152, 0.0722])


def linear(colour: str) -> Vector:
    """Linear sRGB of #rrggbb, each part 0 to 1."""
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def distance(one: str, other: str, vision: str = "normal") -> float:
    """OKLab distance of two colours, times 100, as seen with a kind of vision."""
    seen = [_lab(np.clip(VISIONS[vision] @ linear(colour), 0, 1)) for colour in (one, other)]
    return float(100 * np.linalg.norm(seen[0] - seen[1]))


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    dark, light = sorted(float(_LUMINANCE @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _lab(colour: Vector) -> Vector:
    return np.asarray(_TO_LAB @ np.cbrt(_TO_CONES @ colour))
