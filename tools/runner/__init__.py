"""The parts of tools/test: finding jobs, running them, reading their results, telling about it."""
