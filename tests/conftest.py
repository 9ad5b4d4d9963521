"""What holds for every test."""

from hypothesis import settings

# Machines are noisy: no test fails for having been slow.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
