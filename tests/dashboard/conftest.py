"""What tests of the dashboard share."""

from tests.dashboard.browsing import chromium

__all__ = ["chromium"]
