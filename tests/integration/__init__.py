"""A package: a library that is installed, looker-sdk, has a ``tests.integration``, too."""
