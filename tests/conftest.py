"""Settings common to all tests."""

from hypothesis import HealthCheck, settings

settings.register_profile("slgh", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slgh")
