"""The peers, each as its users run it. What is not installed is reported by name, not an error."""
