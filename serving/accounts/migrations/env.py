"""Runs migrations on the connection that ``schema.upgrade`` gives, all of them in its transaction. Alembic runs this."""

from alembic import context

context.configure(**context.config.attributes["options"])
with context.begin_transaction():
    context.run_migrations()
