"""Code shared by the interfaces of other libraries."""
