"""Charts as SVG: horizontal bars, and lines over two logarithmic axes. No dependency; they read well on light and dark."""
import html
import math

FONT = 'font-family="system-ui, sans-serif" font-size="12"'
OURS, FLOOR = "#d6336c", "#868e96"
COLOURS = ["#1c7ed6", "#2f9e44", "#f08c00", "#7048e8", "#0c8599", "#a9661a", "#74b816", "#22b8cf", "#364fc7", "#fab005",
           "#087f5b", "#9c7bd6"]


def number(value):
    if value >= 10000:
        return "%dk" % round(value / 1000)
    if value >= 100:
        return "%d" % round(value)
    return "%.1f" % value if value >= 1 else "%.2g" % value


def colour(name, place):
    return OURS if name.startswith("outbox") else FLOOR if name in ("floor", "alone", "plain") else COLOURS[place % 12]


def _page(width, height, title, body):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">\n'
            '<title>%s</title>\n<rect width="100%%" height="100%%" fill="#ffffff" rx="6"/>\n'
            '<text x="12" y="20" %s font-weight="bold" fill="#212529">%s</text>\n%s</svg>\n' % (
                width, height, width, height, html.escape(title), FONT, html.escape(title), "".join(body)))


def _text(x, y, text, anchor="start", fill="#495057"):
    return '<text x="%.1f" y="%.1f" %s text-anchor="%s" fill="%s">%s</text>\n' % (x, y, FONT, anchor, fill,
                                                                               html.escape(str(text)))


def bars(title, rows, unit=""):
    """rows: (name, label, parts, low, high); parts: values that are stacked; low and high: the spread of their sum."""
    left, width, line = 290, 760, 24
    longest = max([row[4] or sum(row[2]) for row in rows] + [1e-9])
    scale, body = (width - left - 90) / longest, []
    for place, (name, label, parts, low, high) in enumerate(rows):
        y, x = 34 + place * line, float(left)
        body.append(_text(left - 8, y + 13, label, "end", "#212529"))
        for step, part in enumerate(parts):
            size = max(0.0, part) * scale
            body.append('<rect x="%.1f" y="%d" width="%.1f" height="16" fill="%s" opacity="%.2f"/>\n' % (
                x, y, size, colour(name, 0), 1 - 0.3 * step))
            x += size
        if high and high > low:
            body.append('<path d="M%.1f %dV%dM%.1f %dH%.1fM%.1f %dV%d" stroke="#212529" fill="none"/>\n' % (
                left + low * scale, y + 4, y + 12, left + low * scale, y + 8, left + high * scale,
                left + high * scale, y + 4, y + 12))
        body.append(_text(max(x, left + (high or 0) * scale) + 6, y + 13, number(sum(parts)) + unit))
    return _page(width, 44 + len(rows) * line, title, body)


def _ticks(low, high):
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for step in (1, 2, 5):
            if low <= step * 10 ** power <= high:
                yield step * 10 ** power


def lines(title, curves, across, up):
    """curves: (name, label, [(x, y)]); both axes logarithmic; across and up: what they are."""
    points = [point for _, _, curve in curves for point in curve]
    if not points:
        return _page(720, 60, title, [])
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points) * 1.05
    low_y, high_y = max(0.05, min(y for _, y in points) * 0.8), max(y for _, y in points) * 1.25
    width, height, left, right, top, bottom = 860, 400, 56, 290, 50, 44

    def place(x, y):
        wide = math.log(high_x / low_x) or 1
        return (left + (width - left - right) * math.log(x / low_x) / wide,
                height - bottom - (height - top - bottom) * math.log(max(y, low_y) / low_y) / math.log(high_y / low_y))

    body = []
    for x in _ticks(low_x, high_x):
        body.append('<path d="M%.1f %dV%d" stroke="#e9ecef"/>\n' % (place(x, low_y)[0], top, height - bottom))
        body.append(_text(place(x, low_y)[0], height - bottom + 16, number(x), "middle"))
    for y in _ticks(low_y, high_y):
        body.append('<path d="M%d %.1fH%d" stroke="#e9ecef"/>\n' % (left, place(low_x, y)[1], width - right))
        body.append(_text(left - 6, place(low_x, y)[1] + 4, number(y), "end"))
    body += [_text((left + width - right) / 2, height - 8, across, "middle"), _text(left - 6, top - 8, up, "end")]
    for turn, (name, label, curve) in enumerate(curves):
        shade, dash = colour(name, turn), ' stroke-dasharray="6 4"' if name.endswith("-keys") else ""
        path = " ".join("%s%.1f %.1f" % (("L" if i else "M",) + place(x, y)) for i, (x, y) in enumerate(curve))
        body.append('<path d="%s" stroke="%s" stroke-width="%s" fill="none"%s/>\n' % (
            path, shade, 3 if name.startswith("outbox") else 1.5, dash))
        body += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>\n' % (place(x, y) + (shade,)) for x, y in curve]
        body.append('<path d="M%d %dh22" stroke="%s" stroke-width="3"%s/>\n' % (width - right + 12, top + 18 * turn + 8, shade,
                                                                             dash))
        body.append(_text(width - right + 40, top + 18 * turn + 12, label))
    return _page(width, max(height, top + 18 * len(curves) + 20), title, body)
