"""Isotropic against anisotropic embeddings: theory, measurements and the experiment."""
