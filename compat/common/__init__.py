"""Code that other libraries' interfaces share."""
