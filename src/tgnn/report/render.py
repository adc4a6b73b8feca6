"""Render the report page: one HTML file with inlined style sheet, scripts and the data of the charts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from tgnn import __version__
from tgnn.report.charts import TEMPLATE
from tgnn.report.collect import ReportContents
from tgnn.report.number_format import count

_PARTS = files("tgnn.report") / "page"


def render(contents: ReportContents, live: bool = False) -> str:
    """Render the page as HTML.

    Args:
        contents: Contents of the page.
        live: Whether the page polls its server for updates.
    """
    style, theme, script = (_part(name) for name in ("style.css", "theme.js", "page.js"))
    plotly = _plotly()
    return _template().render(
        contents=contents,
        live=live,
        version=__version__,
        made=time.strftime("%Y-%m-%d %H:%M"),
        style=Markup(style),
        theme=Markup(theme),
        plotly=Markup(plotly),
        script=Markup(script),
        policy=policy(live),
        state=script_json({"live": live, "stamp": contents.stamp, "template": TEMPLATE}),
    )


def policy(live: bool) -> str:
    """Return the content security policy of the page."""
    scripts = " ".join(_fingerprint(script) for script in (_part("theme.js"), _plotly(), _part("page.js")))
    return "; ".join(
        (
            "default-src 'none'",
            # Plotly writes style attributes and adds a style element when it is loaded. Both need 'unsafe-inline'.
            "style-src 'unsafe-inline'",
            f"script-src {scripts}",
            "img-src data: blob:",  # plotly draws the PNG of a chart from a blob
            "connect-src 'self'" if live else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def script_json(value: Any) -> Markup:
    r"""Format JSON so that it can neither close its ``<script>`` element nor open a comment.

    Example:
        >>> script_json({"name": "</script>"})
        Markup('{"name":"\\u003c/script\\u003e"}')
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def with_code(text: str) -> Markup:
    """Mark the parts of a text in backticks as code.

    Example:
        >>> with_code("`a < b` holds")
        Markup('<code>a &lt; b</code> holds')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _template() -> jinja2.Template:
    loader = jinja2.FunctionLoader(_part)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["count"] = count
    environment.filters["script_json"] = script_json
    environment.filters["with_code"] = with_code
    return environment.get_template("page.html")


@cache
def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """Return the source of plotly.js. It must not contain the end tag of its ``<script>`` element."""
    return str(get_plotlyjs()).replace("</script", r"<\/script")


@cache
def _fingerprint(script: str) -> str:
    """Return the hash of a script for the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
