"""LiteRT: traced programs converted, rewritten where LiteRT differs, compared with TensorFlow once, and run."""
