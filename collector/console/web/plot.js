/* Plots over time: areas, lines and bands, with axes, cursor and brush; what did not arrive is drawn on them. Values
 * and what arrived come from one answer and are kept in one object, so that a plot cannot pair them with another's.
 *
 *   const p = plot(parent, {height: 160, label, onZoom: (from, to), onWindow: (from, to), onBack, onHover: (ms |
 *       null), onSelect: (key |
 *       null)})
 *   p.draw({series, hosts, metric, groups: [{key, label, name, values, low, high}], stacked, rates, level, polled})
 *       groups as of groupsOf (rows.js): arrays of series.n, null where nothing is. stacked: areas, the first at the
 *       bottom; else lines, with a band where there is low and high. rates: values are sums of a bucket, shown per
 *       second. level: {value, text}, a dashed line across. polled: starts and ends that are shorter than a sample
 *       are not seen
 *   p.hover(ms | null)    the cursor, also of another plot       p.select(key | null)     others fade
 *   p.window(from, to)    with what is there                     p.close()
 *   p.at(ms) → {ms, step, ppm, hosts, asked, values: [{label, value}], total, since} | null      since: ms, what it
 *       grew by goes back to there; else null
 *   pointer(node, {timeAt, range, onZoom, onWindow, onBack, onHover, onClick, brush})     as on every time axis
 *       onWindow: while the hand moves; onZoom: when it rests; gives a function that ends it
 *
 * All plots draw in the next frame, once, whatever was asked of them before it; none looks at the layout then.
 *
 * Drag: zoom in. Shift and drag: pan. Wheel: zoom at the pointer (where the page itself scrolls, with Ctrl). Double
 * click: back. */
import { onScheme, ofName, REST, theme } from './colour.js';
import { axis, valueTicks } from './format.js';
import { drawLoss, drawNothing, drawPolled, drawSince, holes, lossRuns, redone } from './hatch.js';
import { el } from './el.js';
import { pixel, raster } from './raster.js';
import { reachesOf } from './rows.js';
import { ticks } from './time.js';

const LEFT = 58; /* labels of values */
const FOOT = 20; /* labels of time */
const TICK_PX = 84;
const VALUE_PX = 30;
const OVER_PX = 3; /* above the largest value */
const WIDE_PX = 2; /* of the screen: buckets from so many on are stretched */
const FONT = '11px system-ui, sans-serif';
const SPAN_MIN_MS = 2; /* what one can zoom to */
const open = new Set();
let framed = 0;

const REST_MS = 250;

function frame() {
    framed = 0;
    for (const p of open) p.frame();
}

const soon = () => {
    framed ||= requestAnimationFrame(frame);
};

export function pointer(node, { timeAt, range, onZoom, onWindow, onBack, onHover, onClick, brush }) {
    let start = null;
    let resting = 0;
    let pending = null;
    const local = (event) => event.clientX - node.getBoundingClientRect().left;

    /* Shown at once, asked for when the hand rests. */
    function move(from, to) {
        if (!(to - from >= SPAN_MIN_MS)) return;
        pending = [from, to];
        onWindow?.(from, to);
        clearTimeout(resting);
        resting = setTimeout(() => {
            pending = null;
            onZoom(from, to);
        }, REST_MS);
    }

    function panned(x) {
        const by = ((x - start.x) * start.span) / start.px;
        return [start.range[0] - by, start.range[1] - by];
    }

    node.addEventListener('pointerdown', (event) => {
        if (event.button !== 0) return;
        const x = local(event);
        start = { x, pan: event.shiftKey, moved: false, range: range(), span: timeAt(x + 100) - timeAt(x), px: 100 };
        node.setPointerCapture(event.pointerId);
    });
    node.addEventListener('pointermove', (event) => {
        const x = local(event);
        if (start && Math.abs(x - start.x) > 4) start.moved = true;
        if (start?.moved && start.pan) move(...panned(x));
        else if (start?.moved) brush(Math.min(start.x, x), Math.max(start.x, x));
        else onHover?.(timeAt(x), event);
    });
    node.addEventListener('pointerup', (event) => {
        const s = start;
        start = null;
        brush(0, 0);
        if (!s) return;
        const x = local(event);
        if (!s.moved) onClick?.(event);
        else if (!s.pan) onZoom(timeAt(Math.min(s.x, x)), timeAt(Math.max(s.x, x)));
    });
    node.addEventListener('pointercancel', () => {
        start = null;
        brush(0, 0);
    });
    node.addEventListener('pointerleave', () => !start && onHover?.(null));
    node.addEventListener('dblclick', () => onBack?.());
    node.addEventListener(
        'wheel',
        (event) => {
            if (!event.ctrlKey && document.documentElement.scrollHeight > innerHeight + 1) return;
            event.preventDefault();
            const at = timeAt(local(event));
            const [from, to] = pending ?? range();
            const factor = event.deltaY > 0 ? 1.25 : 0.8;
            move(at - (at - from) * factor, at + (to - at) * factor);
        },
        { passive: false },
    );
    return () => clearTimeout(resting);
}

/* What a bucket holds, for readouts. */
export function bucketAt(data, ms) {
    const { series, groups, rates } = data;
    const step = Number(series.step_ns) / 1e6;
    const i = Math.floor((ms - series.t0_ms) / step);
    if (i < 0 || i >= series.n) return null;
    const k = rates ? 1000 / step : 1;
    const there = groups.filter((g) => g.values[i] !== null && g.values[i] !== undefined);
    const back = reaching(data, i);
    const values = there.map((g) => ({ label: g.label, value: g.values[i] * k, rest: g.key === null }));
    return {
        ms: series.t0_ms + i * step,
        step,
        ppm: series.present[i],
        hosts: series.hosts_in?.[i],
        asked: series.hosts_asked,
        values,
        total: values.length ? values.reduce((sum, v) => sum + v.value, 0) : null,
        since: back ? series.t0_ms + (i - back) * step : null,
    };
}

const there = (v) => v !== null && v !== undefined;
const lineOf = (g) => (g.key === null ? REST : ofName(g.name ?? g.key));

/* Growth of longer than its bucket, since a host was not measured before it: no scale is made for that. */
const reaching = ({ series, metric, rates }, i) => reachesOf(series, metric, rates)?.[i] ?? 0;

/* The running sums of what is stacked, bottom first, each with its gaps; and the most of each bucket. */
function stack({ series, groups, stacked }) {
    const most = new Float64Array(series.n);
    for (const g of groups) {
        g.top = g.values;
        if (!stacked) {
            for (let i = 0; i < series.n; i++) most[i] = Math.max(most[i], g.high?.[i] ?? g.values[i] ?? 0);
            continue;
        }
        g.base = Float64Array.from(most);
        g.top = g.values.map((v, i) => (there(v) ? (most[i] += v) : null));
    }
    return most;
}

export function plot(parent, { height = 160, label = '', onZoom, onWindow, onBack, onHover, onSelect }) {
    const [picture, glass] = [el('canvas'), el('canvas')];
    const box = el('div.plot', { role: 'img', 'aria-label': label }, picture, glass);
    box.style.height = height + 'px';
    parent.append(box);
    const area = { x: LEFT, y: 0, w: 0, h: height - FOOT };
    let ratio = 1;
    let width = 0;
    let pixels = null;
    let strip = null; /* stacked areas, a column of pixels for each bucket */
    let data = null;
    let most = null; /* of each bucket */
    let marks = null; /* what did not arrive */
    let chosen = null;
    let cursor = null;
    let brushed = [0, 0];
    let shown = [0, 1]; /* ms in sight */
    let high = 1; /* at the upper edge, as the axis shows it */
    let stale = false; /* the picture; the glass is drawn with each frame that is asked for */
    let wanted = false;

    let step = 1; /* ms of a bucket */
    let scale = 1; /* from a value of a bucket to what is shown */
    const X = (ms) => area.x + ((ms - shown[0]) / (shown[1] - shown[0])) * area.w;
    const Y = (v) => area.y + area.h - (v / high) * (area.h - OVER_PX);
    const timeAt = (x) => shown[0] + ((x - area.x) / area.w) * (shown[1] - shown[0]);
    const bucketOf = (ms) => (ms - data.series.t0_ms) / step;
    const faded = (g) => chosen !== null && g.key !== chosen;

    function sized(w) {
        const now = globalThis.devicePixelRatio || 1;
        if (w === width && now === ratio) return;
        [width, ratio] = [w, now];
        area.w = Math.max(1, width - LEFT);
        pixels = raster(area.w, area.h, ratio);
        for (const canvas of [picture, glass]) {
            canvas.width = Math.round(width * ratio);
            canvas.height = Math.round(height * ratio);
            canvas.style.width = width + 'px';
            canvas.style.height = height + 'px';
        }
        redraw();
    }

    function redraw() {
        stale = wanted = true;
        soon();
    }

    function over() {
        wanted = true;
        soon();
    }

    const context = (canvas) => {
        const g = canvas.getContext('2d');
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.clearRect(0, 0, width, height);
        g.font = FONT;
        return g;
    };

    /* -- values, as pixels: columns of a bucket, from x[i] to x[i + 1] -- */

    function columns() {
        const [first, last] = [Math.max(0, Math.floor(bucketOf(shown[0]))), bucketOf(shown[1])];
        const end = Math.min(data.series.n, Math.ceil(last));
        const at = (i) => Math.round((X(data.series.t0_ms + i * step) - area.x) * ratio);
        return { first, end, x: Int32Array.from({ length: Math.max(0, end - first) + 1 }, (_, i) => at(first + i)) };
    }

    let [zero, unit] = [0, 0]; /* rows of the picture: zero - v * unit */
    const row = (v) => Math.round(zero - v * unit);

    function areas_(to, c, edges) {
        const n = c.end - c.first;
        const below = new Int32Array(n).fill(to.h);
        const edge = pixel(theme().ground);
        for (const g of data.groups) {
            const fill = pixel(lineOf(g).fill, faded(g) ? 0.22 : 1);
            for (let i = 0; i < n; i++) {
                const top = g.top[c.first + i];
                if (!there(top)) continue;
                /* What is there is seen, however little. */
                const y = Math.min(row(top), top > 0 ? to.h - 1 : to.h);
                if (y < below[i]) to.box(c.x[i], c.x[i + 1], y, below[i], fill);
                below[i] = Math.min(below[i], y);
                if (edges) to.box(c.x[i], c.x[i + 1], y, y + 1, edge);
            }
        }
    }

    /* Buckets that are wide on the screen are painted one pixel wide, and only when their height has changed; the
     * canvas makes them wide, which costs it next to nothing. */
    function stretched(g, edges) {
        const { n } = data.series;
        const of = [data, high, pixels.h, chosen, edges, theme()];
        if (!strip || strip.of.some((v, i) => v !== of[i])) {
            const canvas = strip?.canvas ?? el('canvas');
            const r = raster(n, pixels.h, 1);
            [canvas.width, canvas.height] = [r.w, r.h];
            areas_(r, { first: 0, end: n, x: Int32Array.from({ length: n + 1 }, (_, i) => i) }, edges);
            r.put(canvas.getContext('2d'), 0, 0);
            strip = { canvas, of };
        }
        const [from, to] = shown.map(bucketOf);
        g.imageSmoothingEnabled = false;
        g.drawImage(strip.canvas, from, 0, to - from, pixels.h, area.x, area.y, area.w, area.h);
    }

    function band(c, g) {
        const fill = pixel(lineOf(g).fill, 0.25);
        for (let i = 0; i < c.x.length - 1; i++) {
            const [low, up] = [g.low[c.first + i], g.high[c.first + i]];
            if (there(low) && there(up)) pixels.box(c.x[i], c.x[i + 1], row(up), row(low), fill);
        }
    }

    /* Steps; nothing is joined across a bucket without a value. */
    function line(c, g) {
        if (g.low && g.high) band(c, g);
        const ink = pixel(lineOf(g).line, faded(g) ? 0.25 : 1);
        const thick = Math.max(1, Math.round((g.key === chosen ? 2.2 : 1.4) * ratio));
        let before = null;
        for (let i = 0; i < c.x.length - 1; i++) {
            const v = g.values[c.first + i];
            if (!there(v)) {
                before = null;
                continue;
            }
            const y = Math.min(row(v), pixels.h - thick);
            pixels.box(c.x[i], Math.max(c.x[i + 1], c.x[i] + 1), y, y + thick, ink);
            if (before !== null)
                pixels.box(c.x[i], c.x[i] + thick, Math.min(y, before), Math.max(y, before) + thick, ink);
            before = y;
        }
    }

    /* -- around them -- */

    function labels(g, values, times) {
        const t = theme();
        g.fillStyle = t.dim;
        g.textBaseline = 'middle';
        g.textAlign = 'right';
        for (const v of values) {
            g.fillText(axis(data.metric, v, data.rates), LEFT - 6, Math.max(6, Math.min(area.h - 5, Y(v))));
        }
        g.textAlign = 'center';
        for (const m of times) {
            const half = g.measureText(m.text).width / 2;
            g.fillText(m.text, Math.max(half, Math.min(width - half, X(m.ms))), height - FOOT / 2 + 1);
        }
        g.fillStyle = t.grid;
        g.fillRect(area.x, area.y + area.h, area.w, 1);
        g.fillRect(area.x - 1, area.y, 1, area.h + 1);
    }

    function drawLevel(g, y, text) {
        g.strokeStyle = theme().dim;
        g.lineWidth = 1;
        g.setLineDash([4, 4]);
        g.beginPath();
        g.moveTo(area.x, y);
        g.lineTo(area.x + area.w, y);
        g.stroke();
        g.setLineDash([]);
        const at = y - area.y < 16 ? y + 9 : y - 9;
        const wide = g.measureText(text).width;
        g.fillStyle = theme().ground;
        g.fillRect(area.x + area.w - wide - 8, at - 7, wide + 6, 14);
        g.fillStyle = theme().dim;
        g.textAlign = 'right';
        g.fillText(text, area.x + area.w - 5, at);
    }

    function missing(g) {
        const { hole, runs, since } = marks;
        for (const one of since) {
            const [x, end] = [Math.max(area.x, X(one.from)), Math.min(area.x + area.w, X(one.to))];
            if (end > x) drawSince(g, x, area.y, Math.max(2, end - x), area.h);
        }
        for (const run of runs) {
            const [x, end] = [Math.max(area.x, X(run.from)), Math.min(area.x + area.w, X(run.to))];
            if (end > x) drawLoss(g, x, area.y, end - x, area.h, run.ppm, run.atMost);
        }
        for (const none of [...hole.within, ...hole.around]) {
            const [x, end] = [Math.max(area.x, X(none.from)), Math.min(area.x + area.w, X(none.until))];
            drawNothing(g, x, area.y, end - x, area.h, none.text);
        }
    }

    function paint() {
        const c = columns();
        let top = 0;
        for (let i = c.first; i < c.end; i++) if (!reaching(data, i)) top = Math.max(top, most[i]);
        high = top * scale || 1;
        zero = area.h * ratio;
        unit = ((scale / high) * (area.h - OVER_PX)) * ratio;
        const binary = /byte|working|pool/.test(data.metric);
        const values = valueTicks(0, high, Math.max(2, Math.floor(area.h / VALUE_PX)), binary).filter((v) => v <= high);
        const times = ticks(...shown, Math.max(2, Math.floor(area.w / TICK_PX)));
        const g = context(picture);
        const width_px = (c.x[c.end - c.first] - c.x[0]) / Math.max(1, c.end - c.first);
        g.fillStyle = theme().grid;
        for (const v of values) g.fillRect(area.x, area.y + row(v / scale) / ratio, area.w, 1 / ratio);
        for (const m of times) {
            const x = Math.round(X(m.ms) * ratio) / ratio;
            if (x >= area.x && x < area.x + area.w) g.fillRect(x, area.y, 1 / ratio, area.h);
        }
        if (data.stacked && width_px >= WIDE_PX) {
            stretched(g, width_px > 3 * ratio);
        } else {
            pixels.clear();
            if (data.stacked) areas_(pixels, c, false);
            else for (const one of data.groups) line(c, one);
            pixels.over(g, area.x, area.y);
        }
        labels(g, values, times);
        g.save();
        g.beginPath();
        g.rect(area.x, area.y, area.w, area.h);
        g.clip();
        if (data.polled) drawPolled(g, area.x, area.y + area.h - 1, area.w);
        if (data.level) drawLevel(g, Y(data.level.value), data.level.text);
        missing(g);
        g.restore();
    }

    /* Cursor and brush. */
    function paintOver() {
        const g = context(glass);
        const t = theme();
        if (brushed[1] > brushed[0]) {
            g.fillStyle = t.select;
            g.globalAlpha = 0.25;
            g.fillRect(brushed[0], area.y, brushed[1] - brushed[0], area.h);
            g.globalAlpha = 1;
        }
        if (cursor !== null && cursor >= shown[0] && cursor <= shown[1]) {
            g.fillStyle = t.dim;
            g.fillRect(Math.round(X(cursor)), area.y, 1, area.h);
        }
    }

    function groupAt(ms, y) {
        const i = Math.floor(bucketOf(ms));
        const v = (((area.y + area.h - y) / (area.h - OVER_PX)) * high) / scale;
        if (data.stacked) return data.groups.find((g) => there(g.top[i]) && v <= g.top[i] && v >= g.base[i]);
        let best = null;
        for (const g of data.groups) {
            if (!there(g.values[i])) continue;
            const far = Math.abs(Y(g.values[i] * scale) - y);
            if (far < 8 && (!best || far < best.far)) best = { g, far };
        }
        return best?.g;
    }

    const self = {
        node: box,
        draw(next) {
            data = next;
            const { series, hosts = [] } = data;
            step = Number(series.step_ns) / 1e6;
            scale = data.rates ? 1000 / step : 1;
            shown = [series.t0_ms, series.t0_ms + series.n * step];
            most = stack(data);
            const hole = holes(series, hosts);
            hole.around = [
                hole.before && { from: -Infinity, ...hole.before },
                hole.after && { until: Infinity, ...hole.after },
            ].filter(Boolean);
            const [begin, end] = [hole.before?.until ?? -Infinity, hole.after?.from ?? Infinity];
            const runs = lossRuns(series, hosts)
                .map((run) => ({ ...run, from: Math.max(run.from, begin), to: Math.min(run.to, end) }))
                .filter((run) => run.to > run.from);
            const since = [];
            for (let i = 0; i < series.n; i++) {
                const from = series.t0_ms + i * step;
                if (reaching(data, i)) since.push({ from, to: from + step });
            }
            marks = { hole, runs, since };
            redraw();
        },
        redraw,
        frame() {
            if (!wanted || !data || !width) return;
            if (stale) paint();
            paintOver();
            stale = wanted = false;
        },
        hover(ms) {
            if (cursor === ms) return;
            cursor = ms;
            over();
        },
        select(value) {
            if (chosen === value) return;
            chosen = value;
            redraw();
        },
        window(from, to) {
            shown = [from, to];
            redraw();
        },
        at: (ms) => (data && ms !== null ? bucketAt(data, ms) : null),
        close() {
            open.delete(self);
            sizes.disconnect();
            still();
            data = null;
        },
    };
    const still = pointer(glass, {
        timeAt,
        range: () => shown,
        onZoom: (from, to) => onZoom?.(from, to),
        onWindow: (from, to) => {
            self.window(from, to);
            onWindow?.(from, to);
        },
        onBack: () => onBack?.(),
        onHover: (ms) => {
            self.hover(ms);
            onHover?.(ms);
        },
        onClick: (event) => {
            const r = glass.getBoundingClientRect();
            const key = data && groupAt(timeAt(event.clientX - r.left), event.clientY - r.top)?.key;
            onSelect?.(key ?? null);
        },
        brush: (a, b) => {
            brushed = [a, b];
            over();
        },
    });
    open.add(self);
    sized(box.clientWidth);
    const sizes = new ResizeObserver((entries) => sized(Math.floor(entries[entries.length - 1].contentRect.width)));
    sizes.observe(box);
    return self;
}

onScheme(() => {
    redone();
    for (const p of open) p.redraw();
});
