"""Run by mpirun: compare a run on MPI workers with one in this process."""

from __future__ import annotations

from mpi4py.futures import MPIPoolExecutor

from cases import assert_same
from cluster_cases import alone, run, waves

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        assert_same(run(executor), alone(executor))
        assert_same(run(executor, waves, vectorized=True), alone(executor, waves, vectorized=True))
        print("workers:", executor.num_workers)
