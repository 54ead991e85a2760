"""Money moves between two accounts with SQLAlchemy, and a stale holder moves nothing.

The guard's check is the first statement of the transaction. It fences everything that the session writes
after it, in any table: no table needs a new column, and no statement has to be changed.

Run it: python examples/bank_transfer.py
"""

import tempfile

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import fencelock
from fencelock.guards import SqlGuard


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"

    owner: Mapped[str] = mapped_column(primary_key=True)
    cents: Mapped[int]


guard = SqlGuard()


def transfer(session: Session, lease: fencelock.Lease, giver: str, taker: str, cents: int) -> None:
    with session.begin():
        guard.check(session, lease)
        source, target = session.get_one(Account, giver), session.get_one(Account, taker)
        if source.cents < cents:
            raise ValueError(f"{giver} has only {source.cents}")
        source.cents -= cents
        target.cents += cents


def main(folder: str) -> None:
    engine = create_engine(f"sqlite:///{folder}/bank.db")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        guard.create(connection)
    with Session(engine) as session, session.begin():
        session.add_all([Account(owner="ada", cents=1000), Account(owner="bob", cents=0)])

    locks = f"sqlite:///{folder}/locks.db"
    with (
        fencelock.Client(locks) as here,
        fencelock.Client(locks) as there,
        Session(engine) as session,
    ):
        lease = here.lock("bank").acquire()
        transfer(session, lease, "ada", "bob", 300)
        there.break_lock("bank")  # as if this process had been paused for longer than its ttl
        with there.lock("bank") as newer, Session(engine) as elsewhere:
            transfer(elsewhere, newer, "ada", "bob", 500)
            try:
                transfer(session, lease, "ada", "bob", 100)
            except fencelock.StaleFence as error:
                print(f"refused: {error.given} is older than {error.newest}")
        for account in session.scalars(select(Account).order_by(Account.owner)):
            print(f"{account.owner}: {account.cents}")
    engine.dispose()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(name)
