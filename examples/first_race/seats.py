"""A tiny booking desk with a race: both customers may be told that the last seat is theirs."""

import threading


class Desk:
    """Sells seats."""

    def __init__(self, seats):
        self.seats = seats

    def book(self):
        if self.seats > 0:
            self.seats = self.seats - 1
            return True
        return False


def last_seat():
    """Two customers, one seat."""
    desk = Desk(seats=1)
    sold = []
    customers = [threading.Thread(target=lambda: sold.append(desk.book()), name=n) for n in ("ann", "ben")]
    for customer in customers:
        customer.start()
    for customer in customers:
        customer.join()
    assert sold.count(True) == 1, "the last seat was sold twice"
