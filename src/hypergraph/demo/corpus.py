"""Data of the demo: the help pages of a tea shop and a day of messages, invented and fixed."""

ARTICLES = {
    "reset-password": "To reset your password, open Settings and choose Security. A link comes by mail.",
    "change-email": "To change your email address, open Settings and choose Profile.",
    "delete-account": "To delete your account, open Settings and choose Leave. Invoices are kept.",
    "track-parcel": "To track a parcel, open Orders and choose Track. Parcels arrive within four days.",
    "change-address": "To send an order to another address, open Orders and choose Deliver.",
    "read-invoice": "To download an invoice, open Orders and choose Invoice.",
    "two-payments": "Two payments for one order: the second is a reservation. It is gone within a week.",
    "gift-card": "To pay with a gift card, type its code. A card can be charged again at any time.",
    "get-refund": "To ask for a refund, open Orders and choose Refund. We answer within a day.",
    "broken-goods": "If a teapot or a cup arrives broken, send a photo. A new one leaves the same day.",
    "subscription": "To pause a subscription, open Subscription and choose Pause.",
    "brew-tea": "Green tea likes water of 80 degrees and two minutes, black tea 95 degrees and four.",
    "contact": "You reach a person on weekdays between nine and five, by phone or chat.",
}

_POST = """
Ann: How do I reset my password?
Bob: Where is my parcel?
Cem: Can I change my email address?
Dee: I want a refund of 12 EUR, the tin was open.
Eli: Hello, where do I find my invoice?
Fay: How hot should the water be for green tea?
Gus: The reset link for my password never came.
Hao: Two payments were taken for one order.
Ida: A refund of 25 EUR for order 1207, please.
Jon: My email address has changed.
Kim: This is outrageous, my cup arrived broken again!
I forgot my password and my name
Lea: Hello, can I pause my subscription over the summer?
Max: How do I track a parcel to Norway?
Noa: Please delete my account.
Ole: How long does black tea take?
Pia: My card was charged twice.
Qin: Can I pay with a gift card?
Rui: Wo bleibt mein Paket?
Sam: My teapot is broken, can you help?
Tea: Hello, how do I reset the password of my mother?
Uma: Please send my order to another address.
Vic: I would like to download an invoice.
Wim: Is the parcel tracked at weekends?
Xia: Hello, does green tea need two minutes?
Yan: A refund of 8 EUR, please, the tea was stale.
Zoe: When can I reach a person by phone?
Abe: Zorblax frobnicates?
Bea: Can I pause the subscription twice?
Cai: I never got the invoice for my order.
Dov: The cup I got is broken.
Eva: Hello, which address do you have for my order?
Fin: How do I track two parcels?
Gil: Outrageous, nobody answers the phone!
Hui: Is my gift card still good?
Ira: I cannot open Settings to change my email.
the parcel is late
Jan: How many degrees for black tea?
Kai: Delete my account and my email, please.
Liv: Hello, the password page is empty.
Mia: Can a subscription be a gift?
Nils: The photo of my broken teapot is too large.
Oda: Where does it say when my parcel arrives?
Pat: ?!
Quin: Do you chat on weekdays?
Rosa: A refund of 40 EUR, the teapot leaks.
Sven: Hello, the invoice shows the wrong address.
Tom: Is the reservation on my account gone within a week?
Udo: How do I charge a gift card again?
Vera: Outrageous, a broken cup for the second time!
"""

TICKETS = {f"T-{number:02}": line for number, line in enumerate(_POST.strip().splitlines(), 1)}

# The two messages without a sender, corrected.
CORRECTIONS = {
    "T-12": "Wes: I forgot my password.",
    "T-37": "Xen: The parcel is late.",
}
