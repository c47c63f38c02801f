"""The first schema. Never changed; later changes have their own modules."""

import datetime as dt

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    _installation_and_audit()
    _users()
    _agents()
    _tokens()


def _time(name: str, nullable: bool = False) -> "sa.Column[dt.datetime]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _text(name: str, nullable: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), nullable=nullable)


def _json(name: str, nullable: bool = False) -> "sa.Column[object]":
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=nullable)


def _installation_and_audit() -> None:
    op.create_table(
        "installation",
        _text("id"),
        _time("created_at"),
        _text("folder"),
        _text("host"),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        _time("time"),
        *map(_text, ("who", "address", "what", "target", "outcome", "request_id")),
        _json("detail"),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_time", "audit", ["time"])


def _users() -> None:
    op.create_table(
        "users",
        *map(_text, ("id", "name", "role", "password_hash")),
        _json("quotas"),
        _time("created_at"),
        _time("disabled_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )


def _agents() -> None:
    op.create_table(
        "agents",
        _text("id"),
        _text("owner", nullable=True),
        *map(_text, ("name", "model", "description")),
        _json("config"),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("learning", sa.Boolean(), nullable=False),
        *map(_text, ("status", "status_detail")),
        _text("home", nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        _time("lease_until", nullable=True),
        _time("created_at"),
        _time("last_active", nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], name="fk_agents_owner", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.UniqueConstraint("owner", "name", name="uq_agents_owner"),
    )
    op.create_index("ix_agents_status", "agents", ["status"])


def _tokens() -> None:
    op.create_table(
        "tokens",
        _text("id"),
        _text("user_id"),
        *map(_text, ("kind", "name", "sha256", "last_four")),
        _json("scopes"),
        _json("agents", nullable=True),
        *map(_time, ("created_at", "expires_at")),
        _time("idle_until", nullable=True),
        sa.Column("last_used", sa.Date(), nullable=True),
        _time("revoked_at", nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("sha256", name="uq_tokens_sha256"),
    )
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"])
    op.create_table(
        "idempotency",
        *map(_text, ("user_id", "key", "digest")),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _time("created_at"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_idempotency_user_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])
