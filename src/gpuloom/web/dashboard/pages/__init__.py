"""What each page shows: from a question to a :class:`~gpuloom.web.dashboard.regions.Page`, one function a page."""
