"""The language of experiment files: strict YAML, includes, values, and the schema, with places in every error."""
