"""Pictures of numbers: sheets, cells, colours and charts, without models."""
