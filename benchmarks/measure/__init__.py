"""What measures speed and memory; `benchmarks/` puts other packages beside ours.

`work` and `texts` make the input data, `ours` and `ours_text` define what is measured of this
package, `harness` runs each contender in its own process, `results` computes statistics and checks
bars, `table` and `pictures` show them.
"""
