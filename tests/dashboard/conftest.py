"""Fixtures of the dashboard's tests."""

from tests.dashboard.browsing import chromium
from tests.texts.third_language import klingon

__all__ = ["chromium", "klingon"]
