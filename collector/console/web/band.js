/* A low canvas over the range, with an axis on top; drag zooms in, shift and drag pans, a double click goes back.
 *
 *   const b = band(parent, app, {height: 74, label: 'text', paint: (g, at, shown)})
 *       at: {x: (ms) → px, width, top, bottom, t: theme()}; what is drawn between top and bottom
 *   b.show({from, until, relative, …})   ms since 1970, or with `relative` from 0; and whatever paint wants
 *   b.close() */
import { onScheme, theme } from './colour.js';
import { el } from './el.js';
import { size } from './heat.js';
import { pointer } from './plot.js';
import { short, ticks } from './time.js';

const AXIS = 18;
const TICK = 90;

export function band(parent, app, { height, label, paint }) {
    const canvas = el('canvas', { role: 'img', 'aria-label': label });
    const node = el('div.band', null, canvas);
    parent.append(node);
    let shown = null;
    let brushed = [0, 0];
    const width = () => Math.max(50, node.clientWidth);
    const say = (m) => (shown.relative ? short(m.ms) : m.text);
    const x = (ms) => ((ms - shown.from) / (shown.until - shown.from)) * width();

    function draw() {
        if (!shown) return;
        const t = theme();
        const g = size(canvas, width(), height);
        g.font = '11px system-ui, sans-serif';
        g.textBaseline = 'middle';
        const marks = ticks(shown.from, shown.until, Math.max(2, Math.floor(width() / TICK)));
        g.fillStyle = t.grid;
        for (const m of marks) g.fillRect(Math.round(x(m.ms)), 0, 1, height);
        paint(g, { x, width: width(), top: AXIS, bottom: height, t }, shown);
        g.fillStyle = t.ink;
        for (const m of marks) {
            if (x(m.ms) + g.measureText(say(m)).width + 4 < width()) g.fillText(say(m), x(m.ms) + 3, AXIS / 2);
        }
        if (brushed[1] > brushed[0]) {
            g.globalAlpha = 0.25;
            g.fillStyle = t.select;
            g.fillRect(brushed[0], 0, brushed[1] - brushed[0], height);
        }
    }

    const still = pointer(canvas, {
        timeAt: (px) => shown.from + (px / width()) * (shown.until - shown.from),
        range: () => [shown.from, shown.until],
        onZoom: (from, to) => app.zoom(from, to),
        onBack: () => app.zoom('back'),
        brush: (a, b) => {
            brushed = [a, b];
            draw();
        },
    });
    const sizes = new ResizeObserver(draw);
    sizes.observe(node);
    const stopScheme = onScheme(draw);
    return {
        show(next) {
            shown = next;
            draw();
        },
        close() {
            still();
            shown = null;
            stopScheme();
            sizes.disconnect();
        },
    };
}
