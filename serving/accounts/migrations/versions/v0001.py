"""The first schema. An empty database gets the tables of this version at once; later changes have their own modules."""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is older."""
