"""How fast, how large: what `regard bench` and the suite in `benchmarks/` both stand on.

`work` makes the sentences, `ours` is what is measured of this package, `harness` gives each
contender its turn in a process of its own, `results` judges, `table` and `pictures` show it.
"""
