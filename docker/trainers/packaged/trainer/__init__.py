"""A trainer that is a package, not an image."""
