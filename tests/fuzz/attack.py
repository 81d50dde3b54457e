"""Attack small random models, and check counts, ranges, successes and distortions by evaluating the model again."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.asktell import script_of
from fuzz.functions import Planned, on_host
from fuzz.invariants import expect, same
from fuzz.target import Case

SIDE, CLASSES = 4, 3

FIGURES = ("success", "label", "before", "after", "queries", "first_success", "queries_to_success", "distortion")


class Model:
    """Small classifier of images (N, 4, 4), linear or with one hidden layer. It counts its queries."""

    def __init__(self, case: Case) -> None:
        self.case = case
        source = np.random.default_rng(case["model"])
        self.first = source.normal(size=(SIDE * SIDE, 6))
        self.second = source.normal(size=(6, CLASSES))
        self.linear = source.normal(size=(SIDE * SIDE, CLASSES))
        self.asked = self.calls = 0
        self.raises_at: int | None = None
        self.wrong: list[str] = []

    def scores(self, images: NDArray[Any]) -> NDArray[Any]:
        """Return the logits or probabilities, without counting."""
        low, high = self.case["pixels"]
        flat = ((images.reshape(len(images), -1) - low) / (high - low) - 0.5).astype(float)
        logits = np.zeros((len(flat), CLASSES))
        weights = self.linear if self.case["kind"] == "linear" else None
        for i in range(CLASSES):
            if weights is not None:
                logits[:, i] = (flat * weights[:, i]).sum(axis=1) * 3
            else:
                for j in range(6):
                    hidden = np.maximum((flat * self.first[:, j]).sum(axis=1), 0.0)
                    logits[:, i] += hidden * self.second[j, i] * 3
        if self.case["outputs"] == "logits":
            return logits
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def __call__(self, images: Any) -> Any:
        self.calls += 1
        if self.raises_at is not None and self.calls == self.raises_at:
            raise Planned(f"call {self.calls}")
        given = on_host(images)
        low, high = self.case["pixels"]
        if given.min() < low or given.max() > high:
            self.wrong.append(f"The model got pixels from {given.min()} to {given.max()}.")
        if given.shape[1:] != (SIDE, SIDE):
            self.wrong.append(f"The model got images of shape {given.shape}.")
        if self.case["model_batch_size"] is not None and len(given) > self.case["model_batch_size"]:
            self.wrong.append(f"The model got {len(given)} images at once.")
        self.asked += len(given)
        found = self.scores(given).astype(given.dtype)
        if self.case["library"] == "torch":
            import torch

            return torch.as_tensor(found)
        return found


class Attack:
    """The target "attack"."""

    name = "attack"
    weight = 1.5
    timeout = 120.0

    def generate(self, rng: random.Random) -> Case:
        B = rng.choice([1, 2, 3, 5])
        return {
            "model": rng.randrange(1000),
            "kind": rng.choice(["linear", "hidden"]),
            "images": rng.randrange(1000),
            "B": B,
            "pixels": rng.choice([[0.0, 1.0], [-0.5, 0.5], [0.0, 255.0]]),
            "outputs": rng.choice(["logits", "probabilities"]),
            "dtype": rng.choice(["float64", "float64", "float32"]),
            "library": rng.choice(["numpy", "numpy", "torch"]),
            "method": rng.choice(["auto", "auto", "zoslgh_r", "zoadamm", "scale_free"]),
            "max_queries": rng.choice([30, 60, 200, 600]),
            "targeted": rng.random() < 0.3,
            "stop": rng.choice(["end", "first success"]),
            "kappa": rng.choice([0.0, 1e-10, 0.5]),
            "weight": rng.choice([0.5, 10.0]),
            "model_batch_size": rng.choice([None, None, 7]),
            "batch_size": rng.choice([None, None, 1, 2]),
            "seed": rng.choice([0, rng.randrange(1000), [rng.randrange(100) for _ in range(B)]]),
            "wrong_labels": rng.random() < 0.2,
            "check": rng.choice(["plain", "twice", "alone", "resume", "batch_size"]),
            "stop_at": rng.choice([3, 5, 10, 20]),
        }

    def make(self, case: Case) -> tuple[Any, Any, Any]:
        """Return the images, the labels and the targets."""
        source = np.random.default_rng(case["images"])
        low, high = case["pixels"]
        images = (low + (high - low) * source.uniform(0.05, 0.95, (case["B"], SIDE, SIDE))).astype(case["dtype"])
        labels = Model(case).scores(images).argmax(axis=1)
        if case["wrong_labels"]:
            labels[0] = (labels[0] + 1) % CLASSES
        targets = (labels + 1) % CLASSES if case["targeted"] else None
        if case["library"] == "torch":
            import torch

            images = torch.as_tensor(images)
        return images, labels, targets

    def run(self, case: Case, model: Model, rows: Any = slice(None), **more: Any) -> Any:
        from slgh.attack import attack

        images, labels, targets = self.make(case)
        params: dict[str, Any] = {}
        if case["method"] == "zoslgh_r":
            params = {"t1": 1.0, "gamma": 0.9, "step": 0.05, "samples": 3}
        elif case["method"] == "zoadamm":
            params = {"t1": 0.1, "step": 0.1, "samples": 3}
        seed = case["seed"]
        given = {
            "targets": None if targets is None else targets[rows],
            "pixels": tuple(case["pixels"]),
            "seed": [seed[i] for i in np.arange(case["B"])[rows]] if isinstance(seed, list) else seed,
            **{
                n: case[n]
                for n in (
                    "outputs",
                    "method",
                    "max_queries",
                    "stop",
                    "kappa",
                    "weight",
                    "model_batch_size",
                    "batch_size",
                )
            },
            **params,
            **more,
        }
        return attack(model, images[rows], labels[rows], **{n: v for n, v in given.items() if v is not None})

    def check(self, case: Case) -> dict[str, int]:
        try:
            model = Model(case)
            found = self.run(case, model)
        except ValueError as error:
            expect("max_queries" in str(error), f"The attack raised {error!r}.")
            return {"configurations": 1, "attacks refused": 1}
        self.check_found(case, model, found)
        self.check_way(case, found)
        return {"configurations": 1, "attacks": 1}

    def check_found(self, case: Case, model: Model, found: Any) -> None:
        images, labels, targets = self.make(case)
        for message in model.wrong:
            raise AssertionError(message)
        original, returned = on_host(images), on_host(found.images)
        low, high = case["pixels"]
        total = int(found.queries.sum())
        expect(total == model.asked, f"queries are {found.queries.tolist()}, the model evaluated {model.asked} images.")
        expect((found.queries <= case["max_queries"]).all(), f"queries {found.queries.tolist()} exceed max_queries.")
        expect(returned.shape == original.shape, f"images have shape {returned.shape}.")
        expect(returned.dtype == original.dtype, f"images have dtype {returned.dtype}, not {original.dtype}.")
        expect((returned >= low).all() and (returned <= high).all(), "Pixels are out of their range.")
        before, after = model.scores(original).argmax(axis=1), model.scores(returned).argmax(axis=1)
        expect(same(found.before, before), f"before is {found.before.tolist()}, not {before.tolist()}.")
        attacked = before == labels if targets is None else (before == labels) & (before != targets)
        for i in range(case["B"]):
            fooled = after[i] != labels[i] if targets is None else after[i] == targets[i]
            if found.success[i]:
                expect(fooled, f"Image {i} is called a success, the model sees class {after[i]}.")
                expect(found.after[i] == after[i], f"after of image {i} is {found.after[i]}, not {after[i]}.")
                change = (returned[i].astype(float) - original[i]) / (high - low)
                close = abs(float((change**2).sum()) - found.distortion[i]) <= 1e-4 * found.distortion[i] + 1e-6
                expect(close, f"distortion of image {i} is {found.distortion[i]}, not {(change**2).sum()}.")
                expect(found.first_success[i] >= 0, f"first_success of image {i} is {found.first_success[i]}.")
                expect(
                    0 < found.queries_to_success[i] <= found.queries[i],
                    f"queries_to_success of image {i} is {found.queries_to_success[i]} of {found.queries[i]}.",
                )
            else:
                expect(same(returned[i], original[i]), f"Image {i} was changed without a success.")
                expect(np.isnan(found.distortion[i]), f"distortion of image {i} is {found.distortion[i]}.")
            if not attacked[i]:
                expect(found.queries[i] == 2, f"Image {i} was not to be attacked, but has {found.queries[i]} queries.")
                expect("not attacked" in found.outcome[i].value, f"Image {i} is {found.outcome[i]!r}.")
        self.check_history(case, found, attacked)
        self.check_loss(case, model, found, original, labels, targets)

    def check_loss(self, case: Case, model: Model, found: Any, original: Any, labels: Any, targets: Any) -> None:
        """Recompute the total loss at the point that each run returned, from the formula.

        A walk returns the nearest image that fools the model. Without one, the total is that of its last iterate.
        """
        low, high = case["pixels"]
        walk = case["method"] == "auto"
        if found.run is None or not np.isfinite(found.last_total).any() or (walk and case["kappa"] > 1e-10):
            return
        rows = np.flatnonzero(np.isfinite(found.last_total))
        x = on_host(found.run.x).astype(float)
        if len(x) != len(rows):
            return
        a = ((original[rows] - (low + high) / 2) / (high - low)).reshape(len(rows), -1).astype(float)
        image = x if walk else np.clip(0.5 * np.tanh(np.arctanh(2 * a * 0.999999) + x) / 0.999999, -0.5, 0.5)
        scores = model.scores((image * (high - low) + (low + high) / 2).reshape(-1, SIDE, SIDE))
        p = scores
        if case["outputs"] == "logits":
            e = np.exp(scores - scores.max(axis=1, keepdims=True))
            p = e / e.sum(axis=1, keepdims=True)
        for r, i in enumerate(rows):
            if walk and not found.success[i]:
                continue
            y = labels[i] if targets is None else targets[i]
            lead = np.log(p[r, y] + 1e-10) - np.log(np.delete(p[r], y).max() + 1e-10)
            lead = lead if targets is None else -lead
            total = case["weight"] * max(lead, -case["kappa"]) + float(((image[r] - a[r]) ** 2).sum())
            tolerance = 1e-6 if case["dtype"] == "float64" else 2e-3
            expect(
                abs(total - found.last_total[i]) <= tolerance * (1 + abs(total)),
                f"last_total of image {i} is {found.last_total[i]}, the formula gives {total}.",
            )

    def check_history(self, case: Case, found: Any, attacked: Any) -> None:
        """first_success is the first recorded iteration with a success: of its iterate, or of any query of a walk."""
        if not found.history or found.run is None:
            return
        margin = found.history["margin"]
        for i in np.flatnonzero(attacked):
            won = np.isfinite(found.history["least"]) if "least" in found.history else margin <= 1e-10
            hits = np.flatnonzero(won[:, i])
            first = int(found.history["iteration"][hits[0]]) if hits.size else -1
            at = int(found.first_success[i])
            nit = int(on_host(found.run.nit)[np.flatnonzero(np.flatnonzero(attacked) == i)[0]])
            expect(at == first or (at == nit and first == -1), f"first_success of image {i} is {at}, not {first}.")
            if hits.size:
                queries, until = int(found.history["queries"][hits[0]]), int(found.queries_to_success[i])
                expect(queries == until, f"queries_to_success of image {i} is {until}, the history has {queries}.")
            sure = found.history["distortion"][margin[:, i] <= -1e-3, i]
            if found.success[i] and sure.size and case["stop"] == "end":
                least, got = float(sure.min()), float(found.distortion[i])
                expect(got <= least * (1 + 1e-5), f"distortion of image {i} is {got}, an iterate had {least}.")

    def check_way(self, case: Case, found: Any) -> None:
        way = case["check"]
        if way in ("batch_size", "alone") and case["library"] == "torch":
            return  # PyTorch's tanh rounds depending on the position in the array
        if way == "twice":
            self.expect_same(found, self.run(case, Model(case)), "The same seed twice")
        elif way == "batch_size":
            self.expect_same(found, self.run(case | {"batch_size": None}, Model(case)), "batch_size and all at once")
        elif way == "alone" and isinstance(case["seed"], list) and case["method"] != "auto":
            for i in range(case["B"]):
                one = self.run(case | {"batch_size": None}, Model(case), slice(i, i + 1))
                for name in FIGURES:
                    expect(same(getattr(one, name)[0], getattr(found, name)[i]), f"Image {i} alone: {name} differs.")
        elif way == "resume":
            self.check_resume(case, found)

    def check_resume(self, case: Case, found: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "attack.npz")
            model = Model(case)
            model.raises_at = case["stop_at"]
            try:
                self.run(case, model, checkpoint=path)
            except Planned:
                self.expect_same(found, self.run(case, Model(case), checkpoint=path), "Resumed")

    def expect_same(self, one: Any, two: Any, what: str) -> None:
        for name in FIGURES:
            expect(same(getattr(one, name), getattr(two, name)), f"{what}: {name} differs.")
        expect(same(on_host(one.images), on_host(two.images)), f"{what}: the images differ.")

    def simpler(self, case: Case) -> Iterator[Case]:
        plain: dict[str, Any] = {
            "kind": "linear",
            "pixels": [0.0, 1.0],
            "outputs": "logits",
            "library": "numpy",
            "dtype": "float64",
            "targeted": False,
            "stop": "end",
            "kappa": 1e-10,
            "model_batch_size": None,
            "batch_size": None,
            "wrong_labels": False,
            "check": "plain",
        }
        for name, value in plain.items():
            if case[name] != value:
                yield case | {name: value}
        if case["B"] > 1:
            yield case | {"B": 1, "seed": 0}
        if isinstance(case["seed"], list):
            yield case | {"seed": 0}

    def script(self, case: Case) -> str:
        return script_of(self.name, case)


TARGET = Attack()
