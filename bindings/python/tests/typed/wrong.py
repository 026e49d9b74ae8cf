"""Each of these lines must be refused by the type checkers."""

import msgstore

msgstore.open("a.msl", mode="bogus")
msgstore.open().request("x", "bogus")
msgstore.open().query("x", views=["bogus"])
