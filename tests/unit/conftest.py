"""How hard property tests look: GPULOOM_HYPOTHESIS_PROFILE is ``unit`` (default), ``quick`` (make unit) or ``ci``."""

import os

from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: neither slow generation nor a slow example says anything about the code.
for name, examples in (("quick", 25), ("unit", 50), ("ci", 1000)):
    settings.register_profile(
        name, max_examples=examples, deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("GPULOOM_HYPOTHESIS_PROFILE", "unit"))
