"""What the spaces of the tables look like: matched states in a plane, layers, the spectrum of W."""
