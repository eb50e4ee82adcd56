"""A package, as a library that is installed (looker-sdk) has a ``tests.integration`` of its own."""
