"""Rendering: templates, texts and locale, charts, compression."""
