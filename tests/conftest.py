"""Settings common to all tests."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one test a core: threads of several would wait for each other

import jax
import torch
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)

settings.register_profile("slgh", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slgh")
