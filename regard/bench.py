"""The benchmarks have moved: they are in the source tree, and not installed."""

raise ImportError("regard.bench has moved: benchmarks.measure, in a checkout; make bench runs it")
