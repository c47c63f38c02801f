"""Entry point of Alembic: migrates on the connection of ``schema.upgrade``, in its single transaction."""

from alembic import context

context.configure(**context.config.attributes["options"])
with context.begin_transaction():
    context.run_migrations()
