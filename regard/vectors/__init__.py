"""Words as vectors: read, asked, drawn, scored, trained. `regard.vectors(PLACE)` opens them.

`table.py` answers questions, `files.py` and `store.py` read and write, `projection.py` draws a map,
`scores.py` compares with what people say, `training.py` learns vectors from plain text.
"""
