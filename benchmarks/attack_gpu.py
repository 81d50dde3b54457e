"""Time an iteration of the attack on a GPU, and compare it with the peak rate of the chip, kernel by kernel.

    python benchmarks/attack_gpu.py                         needs CUDA; prints Markdown
    python benchmarks/attack_gpu.py --first-call            times the first call on an ImageNet network, stage by stage
    python benchmarks/attack_gpu.py --rates                 queries per second of the walk, and of a homotopy

With B images and M directions, an iteration evaluates the network on B * (M + 1) images. The time of a shorter run is
subtracted, so that capturing the graph does not count.

`--first-call` must run in a fresh process: libraries are loaded and kernels compiled once. Each stage contains what the
stages before it have not done. `--photographs` is as in attack_peers.py.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attack_study.problems import efficientnet, read_photographs
from torch.profiler import ProfilerActivity, profile

from slgh.attack import attack
from slgh.paper.attack.settings import PAPER
from slgh.paper.networks.datasets import shipped_images
from slgh.paper.networks.networks import NETWORKS, Network, NetworkSpec, network

PEAK = 66.9e12
"""Peak float32 rate of an H200 without tensor cores, in operations per second, as stated by NVIDIA."""


def flops(spec: NetworkSpec) -> int:
    """Return the number of multiplications and additions for one image."""
    a, half = spec.dataset.side - 2, (spec.dataset.side - 4) // 2
    convolutions = [
        (a, spec.dataset.channels, spec.c1),
        (a - 2, spec.c1, spec.c1),
        (half - 2, spec.c1, spec.c2),
        (half - 4, spec.c2, spec.c2),
    ]
    dense = [(spec.c2 * spec.last_side**2, spec.h), (spec.h, spec.h), (spec.h, len(spec.dataset.classes))]
    return sum(2 * 9 * side**2 * i * o for side, i, o in convolutions) + sum(2 * i * o for i, o in dense)


def replayed(work: Any, times: int = 30) -> float:
    """Return the milliseconds of `work`, captured as a graph and replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = float("inf")
    for _ in range(5):
        start.record()
        for _ in range(times):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / times)
    return best


def iteration_ms(name: str, net: Network, B: int, M: int, n: int = 1500) -> float:
    """Return the milliseconds of an iteration of ZOSLGH_r."""
    images = shipped_images(name)
    pixels = torch.tensor(images.pixels()[:B], device="cuda")
    params = PAPER[name].parameters("zoslgh_r") | {"method": "zoslgh_r", "samples": M}

    def seconds(iterations: int) -> float:
        began = time.perf_counter()
        found = attack(
            net, pixels, images.labels[:B], pixels=(-0.5, 0.5), stop="end", max_iter=iterations, seed=0, **params
        )
        assert found.run is not None
        assert found.run.engine == "torch cuda graph"
        return time.perf_counter() - began

    seconds(50)
    short = min(seconds(500) for _ in range(2))
    return (min(seconds(500 + n) for _ in range(2)) - short) / n * 1e3


def plain(net: Network, x: torch.Tensor) -> torch.Tensor:
    """Evaluate the network with PyTorch's own layers."""
    x = net.pool(net.conv2(net.conv1(x).relu()).relu())
    x = net.pool(net.conv4(net.conv3(x).relu()).relu())
    return net.dense3(net.dense2(net.dense1(x.flatten(1)).relu()).relu())


def slowest_kernels(name: str, net: Network, B: int, M: int, shown: int = 12) -> list[tuple[str, float]]:
    """Return (kernel, microseconds per iteration) of the slowest kernels."""
    images = shipped_images(name)
    pixels = torch.tensor(images.pixels()[:B], device="cuda")
    params = PAPER[name].parameters("zoslgh_r") | {"method": "zoslgh_r", "samples": M}

    def go(iterations: int) -> Counter[str]:
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            attack(
                net, pixels, images.labels[:B], pixels=(-0.5, 0.5), stop="end", max_iter=iterations, seed=0, **params
            )
        times: Counter[str] = Counter()
        for event in seen.events():
            times[event.name] += event.device_time
        return times

    short, long = go(40), go(240)
    spent = {kernel: (long[kernel] - short[kernel]) / 200 for kernel in long}
    return sorted(spent.items(), key=lambda item: -item[1])[:shown]


def first_call(B: int, iterations: int, device: str, photographs: Path | None) -> list[tuple[str, float]]:
    """Return the seconds of the stages of a first attack on B shifted photographs of 224 x 224 pixels."""
    stages: list[tuple[str, float]] = []

    def stage(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        done = work()
        if device == "cuda":
            torch.cuda.synchronize()
        stages.append((name, time.perf_counter() - began))
        return done

    stage("CUDA context", lambda: torch.zeros(1, device=device))
    net = stage("load the network", lambda: efficientnet().to(device))
    squares = read_photographs(photographs)
    shifted = [np.roll(squares[i % len(squares)], (7 * i, 11 * i), axis=(1, 2)) for i in range(B)]
    images = torch.tensor(np.stack(shifted) / np.float32(255), device=device)
    labels = stage("network, B images", lambda: net(images).argmax(dim=1)).cpu().numpy()
    stage("network, B images, again", lambda: net(images))
    for again in ("", ", again"):
        for name, options in (("without graphs", {"compiled": False}), ("with graphs", {})):
            stage(
                f"attack, {iterations} iterations, {name}{again}",
                lambda options=options: attack(
                    net, images, labels, max_iter=iterations, seed=0, history=None, **options
                ),
            )
    return stages


def show_first_call(B: int, iterations: int, device: str, photographs: Path | None) -> None:
    """Print the stages, and the largest amount of memory in use."""
    print(f"| stage, B = {B} | s |\n|---|---|")
    for name, seconds in first_call(B, iterations, device, photographs):
        print(f"| {name} | {seconds:.1f} |")
    if device == "cuda":
        print(f"\nLargest amount of memory reserved: {torch.cuda.max_memory_reserved() / 2**30:.1f} GiB")


def show_rates(B: int, device: str, queries: int = 8000) -> None:
    """Print the queries per second of "auto", which walks along the boundary, and of a homotopy, after a first call."""
    print(f"| queries per second, B = {B}, {queries:,} queries per image | walk | homotopy |\n|---|---|---|")
    for name, spec in NETWORKS.items():
        images, net, rates = shipped_images(name), network(name).to(device), []
        pixels = torch.tensor(images.pixels()[:B], device=device)

        def seconds(
            method: str, queries: int, net: Network = net, pixels: Any = pixels, labels: Any = images.labels[:B]
        ) -> float:
            began = time.perf_counter()
            attack(net, pixels, labels, pixels=(-0.5, 0.5), max_queries=queries, seed=0, method=method)
            return time.perf_counter() - began

        for method in ("auto", "scale_free"):
            seconds(method, queries // 4)
            rates.append(len(pixels) * queries / seconds(method, queries))
        print(f"| {spec.dataset.title} | {rates[0]:,.0f} | {rates[1]:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first-call", action="store_true", help="time the stages of a first call")
    parser.add_argument("--iterations", type=int, default=10, help="iterations of a first call")
    parser.add_argument("--photographs", type=Path, help="file written by attack_peers.py photographs")
    parser.add_argument("--device", default="cuda", help="device of a first call")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--rates", action="store_true", help="measure queries per second")
    options = parser.parse_args()
    if options.rates:
        show_rates(options.images, options.device)
        return
    if options.first_call:
        show_first_call(options.images, options.iterations, options.device, options.photographs)
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    B, M = options.images, options.samples
    N = B * (M + 1)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, B = {B}, M = {M}: {N} images per iteration\n")
    print("| | " + " | ".join(NETWORKS[name].dataset.title for name in NETWORKS) + " |\n|---|" + "---|" * len(NETWORKS))
    rows: dict[str, list[str]] = {}

    def put(row: str, text: str) -> None:
        rows.setdefault(row, []).append(text)

    profiles = {}
    for name, spec in NETWORKS.items():
        net = network(name).cuda()
        x = torch.rand(N, *spec.dataset.shape, device="cuda") - 0.5
        iteration = iteration_ms(name, net, B, M)
        with torch.no_grad():
            slgh_ms, cudnn_ms = replayed(lambda net=net, x=x: net(x)), replayed(lambda net=net, x=x: plain(net, x))
            exact = plain(network(name).cuda().double(), x.double())

            def error(found: torch.Tensor, exact: torch.Tensor = exact) -> str:
                return f"{((found - exact).abs().max() / exact.abs().max()).item():.1e}"

            errors = [error(net(x)), error(plain(net, x))]
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
            coarse = plain(net, x)
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        work = flops(spec) * N
        put("one iteration of ZOSLGH_r, ms", f"**{iteration:.2f}**")
        put("network alone, kernels of slgh, ms", f"{slgh_ms:.2f}")
        put("network alone, cuDNN and cuBLAS in float32, ms", f"{cudnn_ms:.2f}")
        put("operations of the network, GFLOP", f"{work / 1e9:.1f}")
        put("time at the float32 peak of 66.9 TFLOP/s, ms", f"{work / PEAK * 1e3:.2f}")
        put("share of the peak, whole iteration", f"{work / PEAK * 1e3 / iteration:.0%}")
        put("share of the peak, kernels of slgh", f"{work / PEAK * 1e3 / slgh_ms:.0%}")
        put("share of the peak, cuDNN", f"{work / PEAK * 1e3 / cudnn_ms:.0%}")
        put("largest error of the logits, kernels of slgh", errors[0])
        put("largest error of the logits, cuDNN in float32", errors[1])
        put("largest error of the logits, cuDNN in TF32", error(coarse))
        profiles[name] = slowest_kernels(name, net, B, M)
    for row, cells in rows.items():
        print(f"| {row} | " + " | ".join(cells) + " |")
    for name, kernels in profiles.items():
        print(f"\n{NETWORKS[name].dataset.title}, microseconds per iteration by kernel:\n\n| kernel | µs |\n|---|---|")
        for kernel, spent in kernels:
            print(f"| `{kernel[:70]}` | {spent:.1f} |")


if __name__ == "__main__":
    main()
