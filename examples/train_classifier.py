"""Trains a small image classifier, with the whole training step compiled, and compares the time with eager.

python examples/train_classifier.py [--steps N]
"""

from __future__ import annotations

import argparse
import time

import dynamlir
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Classifier(nn.Module):
    """Two convolutions and a linear layer, for images of 16 × 16 pixels."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(32, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(images))
        return logits


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns images with a horizontal (class 0) or a vertical bar (class 1), with noise."""
    labels = torch.randint(2, (size,), generator=generator)
    images = 0.3 * torch.randn(size, 1, 16, 16, generator=generator)
    places = torch.randint(16, (size,), generator=generator)
    for image, label, place in zip(images, labels.tolist(), places.tolist()):
        image[0].select(label, place).add_(1)
    return images, labels


def train(compiled: bool, steps: int) -> tuple[float, float]:
    """Returns the accuracy on new images, and the milliseconds of a training step, without the first three."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Classifier(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    # Forward, backward and the optimizer become compiled graphs.
    run = dynamlir.compile(step) if compiled else step
    for _ in range(3):
        run(*batch(64, generator))  # compiles: the optimizer's state exists from the second step on
    spent = 0.0
    for _ in range(steps):
        images, labels = batch(64, generator)
        started = time.perf_counter()
        run(images, labels)
        spent += time.perf_counter() - started
    model.eval()
    with torch.no_grad():
        images, labels = batch(512, generator)
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    return accuracy, 1000 * spent / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    for name, compiled in (("eager", False), ("dynamlir", True)):
        accuracy, milliseconds = train(compiled, steps)
        print(f"{name}: accuracy {accuracy:.3f}, {milliseconds:.2f} ms per step")


if __name__ == "__main__":
    main()
