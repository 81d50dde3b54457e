"""What differs between array libraries: noise, and choices that depend on values."""
