"""Text datasets from files: pairs, documents, labelled examples."""
