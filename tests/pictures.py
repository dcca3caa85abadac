"""Small pictures for tests."""

import base64
import io

from PIL import Image


def jpeg(width: int = 72, height: int = 48, color: str = "teal") -> bytes:
    """A JPEG of one color."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, "JPEG")
    return file.getvalue()


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
