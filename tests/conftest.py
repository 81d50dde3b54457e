"""Settings common to all tests."""

import jax
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)

settings.register_profile("slgh", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slgh")
