"""LiteRT: converts traced programs, rewrites what LiteRT does differently, and runs them."""
