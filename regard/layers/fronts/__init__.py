"""Input layers: tokens or pixels -> vectors."""
