"""Looking into models of images: patches, pictures, pages, and what hiding changes."""
