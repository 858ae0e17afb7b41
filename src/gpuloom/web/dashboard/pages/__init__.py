"""What each page shows, one function a page: from a question to a ``DashboardPage``."""
