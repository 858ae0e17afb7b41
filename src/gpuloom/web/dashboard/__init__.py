"""The dashboard: the views as pages for a browser, live, read-only.

A page is a value: regions of HTML by name (:mod:`.regions`). The first view sends all of them, afterwards a stream
sends those that changed (:mod:`.live`). What is drawn comes from :mod:`gpuloom.web.views`; nothing is computed here.
"""
