"""What holds for all tests."""

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")
