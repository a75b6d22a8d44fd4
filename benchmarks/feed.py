"""The study reports as the feed that the local profile's Radar tells: `python -m benchmarks.feed` writes it.

A report begins with its title, a line `Measured YYYY-MM-DD …` and a paragraph that says what was found.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

REPORTS = Path(__file__).parent / "reports"
FEED = REPORTS / "feed.json"
_REPORT = re.compile(r"# (?P<title>.+)\n\nMeasured (?P<day>\d{4}-\d\d-\d\d)\b.*\n\n(?P<found>(?:.+\n)+)")


def feed() -> dict[str, Any]:
    """A JSON Feed 1.1 of the reports, the newest first. Raises ValueError for a report that does not begin as it should."""
    items = sorted(
        map(_item, REPORTS.glob("*.md")), key=lambda item: (item["date_published"], item["id"]), reverse=True
    )
    return {"version": "https://jsonfeed.org/version/1.1", "title": "recall-serve: what was measured", "items": items}


def _item(report: Path) -> dict[str, str]:
    found = _REPORT.match(report.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{report.name} begins with a title, a line 'Measured YYYY-MM-DD' and a paragraph")
    summary = " ".join(found["found"].split()).replace("`", "")
    published = f"{found['day']}T00:00:00Z"
    return {"id": report.stem, "title": found["title"], "date_published": published, "content_text": summary}


if __name__ == "__main__":
    FEED.write_text(json.dumps(feed(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
