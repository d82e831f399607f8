"""Text from files: pairs, documents, labelled examples."""
