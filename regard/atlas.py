"""The lectures have moved: they are a package of their own."""

raise ImportError("regard.atlas has moved: import regard_lectures, or regard.explain.drawing")
