"""Alembic runs this: it migrates on the connection that ``schema.upgrade`` gives, in its one transaction."""

from alembic import context

context.configure(**context.config.attributes["options"])
with context.begin_transaction():
    context.run_migrations()
