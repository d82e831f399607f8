"""The benchmark suite: Regard beside its peers, in one run. See README.md."""
