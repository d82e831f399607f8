"""Images: files -> pixels, pixels -> what a model reads, and the digits that ship."""
