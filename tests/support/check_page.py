#!/usr/bin/env python3
"""Checks a page made by `tarn plan --html` or `tarn report`: check_page.py FILE.html

Elements nest, nothing is fetched from elsewhere, and no script but the page's own is in it.
"""

import html.parser
import re
import sys

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checker(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scripts = [], 0

    def handle_starttag(self, tag, attributes):
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "form"}, tag
        self.scripts += tag == "script"
        for name, value in attributes:
            assert name not in {"src", "href", "srcset", "action"} and not name.startswith("on"), (tag, name, value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


text = open(sys.argv[1], encoding="utf-8").read()
checker = Checker()
checker.feed(text)
assert not checker.open, checker.open
assert checker.scripts == 1
assert not re.search(r"url\(|@import|fetch\(|XMLHttp|https?://(?!www\.w3\.org/2000/svg)", text)
assert "nan" not in re.sub(r"[a-z_]*nan[a-z_]+|[a-z_]+nan[a-z_]*", "", text.lower()), "a number that is none"
