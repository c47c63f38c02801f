"""LiteRT: converts traced programs, rewrites unsupported ops, and runs them."""
