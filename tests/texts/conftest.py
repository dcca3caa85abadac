"""Fixtures of these tests."""

from tests.texts.third_language import klingon

__all__ = ["klingon"]
