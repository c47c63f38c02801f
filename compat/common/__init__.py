"""What the interfaces of other libraries share."""
