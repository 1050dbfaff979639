"""The dashboard's files: small, and of a form that a strict content policy allows.

Proves: Y7.
"""
import os
import re

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "page")
MOST = 150_000


def files():
    for name in sorted(os.listdir(PAGE)):
        with open(os.path.join(PAGE, name), encoding="utf-8") as file:
            yield name, file.read()


def test_size():
    """Y7: all of it together, as it is served"""
    assert sum(len(text.encode()) for _, text in files()) < MOST


def test_no_markup_from_text():
    """Y7: no way of a text into markup or code, no inline script or style, no address of anybody else"""
    for name, text in files():
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|setHTML", text), name
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", text), name
        foreign = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
        assert set(foreign) <= {"http://www.w3.org"}, (name, foreign)
