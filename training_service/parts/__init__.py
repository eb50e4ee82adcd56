"""The parts of the service, each put together; ``wiring.py`` makes one service of them."""
