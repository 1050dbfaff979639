// chart.js - the last hour as lines, in SVG by hand: at most 120 points and three lines need no library.

import { h, svg, fill, minute, span } from './dom.js';

const WIDTH = 300, HEIGHT = 64;

/* A round number not below the highest value. */
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value);
}

/* A line with gaps where a value is missing; a lone value is a dot. */
function path(values, top) {
  const step = WIDTH / Math.max(1, values.length - 1);
  let text = '', drawing = false;
  values.forEach((value, index) => {
    if (value === null || value === undefined) { drawing = false; return; }
    text += `${drawing ? 'L' : 'M'}${(index * step).toFixed(1)} ${(HEIGHT - (value / top) * HEIGHT).toFixed(1)}`;
    if (!drawing) text += 'h.01';
    drawing = true;
  });
  return text;
}

const known = (values) => values.filter((value) => value !== null && value !== undefined);

function summary(lines, format) {
  return lines.map((line) => {
    const values = known(line.values);
    if (!values.length) return `${line.name}: nothing recorded`;
    return `${line.name}: now ${format(values.at(-1))}, highest ${format(Math.max(...values))}`;
  }).join('; ');
}

/* lines: [{name, values}], oldest first; times: one for each value. */
export function chart(title, times, lines, format) {
  const top = ceiling(Math.max(0, ...lines.flatMap((line) => known(line.values))));
  const cursor = svg('line', { class: 'cursor', y1: 0, y2: HEIGHT, visibility: 'hidden' });
  const drawing = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': `${title}, the last ${span((times.length || 60) * 60)}. ${summary(lines, format)}` },
  svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
  lines.map((line, index) => svg('path', { class: `line line-${index}`, d: path(line.values, top) })), cursor);

  const legend = h('p.legend', { 'aria-hidden': 'true' });
  const tell = (at) => fill(legend, at === null ? '' : h('span.at', {}, minute(new Date(times[at]))),
    lines.map((line, index) => {
      const values = known(line.values), value = at === null ? values.at(-1) : line.values[at];
      return h('span', {}, h(`i.line-${index}`, {}), line.name, ' ', h('b', {}, value === undefined || value === null ? '–' : format(value)));
    }));
  tell(null);
  drawing.addEventListener('pointermove', (event) => {
    const box = drawing.getBoundingClientRect(), last = times.length - 1;
    if (last < 1) return;
    const at = Math.max(0, Math.min(last, Math.round(((event.clientX - box.left) / box.width) * last)));
    cursor.setAttribute('x1', (at / last) * WIDTH);
    cursor.setAttribute('x2', (at / last) * WIDTH);
    cursor.setAttribute('visibility', 'visible');
    tell(at);
  });
  drawing.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); tell(null); });
  return h('figure.chart', {}, h('figcaption', {}, title, h('small', { 'aria-hidden': 'true' }, `0 – ${format(top)}`)), drawing, legend);
}
