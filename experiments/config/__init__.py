"""The language of experiment files: strict YAML, includes, values and schema, with file and line in every error."""
