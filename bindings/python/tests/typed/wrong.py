"""Each of these lines must be refused by the type checkers."""

import msgstore

msgstore.open("a.msl", mode="bogus")
msgstore.open().request("x", "bogus")
msgstore.open().query("x", views=["bogus"])
msgstore.open().messages("x", limt=3)
msgstore.open().compact("x", "bogus", 3)
first = msgstore.open().append_async(msgstore.user("y"), "x", lenent=True)
second = msgstore.open().answer_async({}, "bogus", "x")
