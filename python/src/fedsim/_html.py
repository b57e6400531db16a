"""Tables of HTML, as notebooks show them."""

from __future__ import annotations

from html import escape
from typing import Any, Mapping


def description(title: str, rows: Mapping[str, Any]) -> str:
    """Return a table of names and values under a title."""
    body = "".join(f'<tr><th scope="row" style="text-align:left">{escape(str(k))}</th><td style="text-align:left">{escape(str(x))}</td></tr>' for k, x in rows.items())
    return f"<table><caption>fedsim {escape(title)}</caption><tbody>{body}</tbody></table>"
