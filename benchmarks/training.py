"""slgh and its peers on the training of networks: with gradients, and with forward passes alone.

    python benchmarks/training.py run --data FOLDER              run everything without a record
    python benchmarks/training.py run --tasks sine,sign          some tasks, without MNIST
    python benchmarks/training.py memory --device cuda           peak memory and time of a step of ZOSLGH
    python benchmarks/training.py page                           write benchmarks/training.md from the records

Records are JSON lines in `benchmarks/training_records`. An interrupted run continues where it stopped. FOLDER has
mnist_train.npz and mnist_test.npz, with images and labels.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from training_study import memory, page, study, tasks


def _set_up(data: Path, device: str) -> None:
    tasks.DATA, tasks.DEVICE = data, device


def run_all(names: list[str], workers: int, seconds: float, data: Path, device: str, records: Path) -> None:
    """Run what has no record. Tuned settings are known after the first round."""
    deadline = time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_set_up, initargs=(data, device)) as pool:
        while jobs := list(study.pending(names, records)):
            futures = {pool.submit(study.run, job): job for job in jobs}
            for future in as_completed(futures):
                if future.cancelled():
                    continue
                job, record = futures[future], future.result()
                study.append(job, record, records)
                print(*job, record["score"], record["seconds"], flush=True)
                if time.monotonic() > deadline:
                    for each in futures:
                        each.cancel()
            if time.monotonic() > deadline:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "memory", "page"))
    parser.add_argument("--tasks", default=",".join(tasks.TASKS), help="comma-separated")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no more runs after this time")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--records", type=Path, default=study.FOLDER)
    given = parser.parse_args()
    if given.command == "run":
        names = given.tasks.split(",")
        run_all(names, given.workers, given.seconds, given.data, given.device, given.records)
    elif given.command == "memory":
        memory.measure(given.device, given.records)
    else:
        page.write()


if __name__ == "__main__":
    main()
