"""Programs for building and releasing the product; none of them is part of it."""
