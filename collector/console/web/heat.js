/* Heat: one row of cells for each thing, a cell for each bucket; the darker the more, by the square root, so that
 * little is seen too. What did not arrive is hatched, what is not known stays empty: never the colour of 0.
 *
 *   strip(values, {present, max, width, height, label}) → a canvas for a table's cell; present: ppm of each, or null.
 *       It is drawn a moment later, so that a table is there at once, and used again for the same arrays
 *   heat(parent, {label, onZoom, onBack, onHover: (ms | null), onSelect: (key | null)})
 *       .draw({series, hosts, groups, rates})    groups as of groupsOf; one scale for all rows
 *       .hover(ms)  .select(key)  .at(ms) → as of plot  .close()          a whole plot of rows, names on the left
 *   size(canvas, width, height) → its context, in CSS pixels */
import { onScheme, theme } from './colour.js';
import { el } from './el.js';
import { drawLoss, drawNothing, holes, lossRuns } from './hatch.js';
import { bucketAt, pointer } from './plot.js';
import { ticks } from './time.js';

const ROW = 16;
const LEFT = 150;
const AXIS = 20;
const FULL = 1000000;

const shade = (v, max) => theme().heat[Math.max(0, Math.min(8, max > 0 ? Math.round(Math.sqrt(v / max) * 8) : 0))];

export function size(canvas, width, height) {
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    const ctx = canvas.getContext('2d');
    ctx.scale(ratio, ratio);
    return ctx;
}

/* Neighbours of one shade are one rectangle: a row of 240 cells is a few dozen. */
function cells(ctx, values, max, x, y, w, h) {
    for (let i = 0; i < values.length;) {
        if (values[i] === null || values[i] === undefined) {
            i++;
            continue;
        }
        const colour = shade(values[i], max);
        let j = i + 1;
        while (j < values.length && values[j] !== null && values[j] !== undefined && shade(values[j], max) === colour)
            j++;
        ctx.fillStyle = colour;
        ctx.fillRect(x + i * w, y, (j - i) * w, h);
        i = j;
    }
}

const BUDGET_MS = 6; /* of a frame */
let kept = new WeakMap(); /* by values; a canvas holds on to the whole table it was in, so it is held weakly */
let due = [];

function drawDue() {
    const until = performance.now() + BUDGET_MS;
    while (due.length && performance.now() < until) {
        const one = due.shift();
        if (one.canvas.isConnected) drawStrip(one);
        else kept.delete(one.values);
    }
    if (due.length) requestAnimationFrame(drawDue);
}

export function strip(values, { present, max, width = 240, height = 14, label }) {
    const old = kept.get(values);
    const drawn = old && old.present === present && old.max === max && old.width === width && old.canvas.deref();
    if (drawn) {
        drawn.setAttribute('aria-label', label);
        return drawn;
    }
    const canvas = el('canvas.strip', { role: 'img', 'aria-label': label });
    Object.assign(canvas.style, { width: width + 'px', height: height + 'px' });
    kept.set(values, { canvas: new WeakRef(canvas), present, max, width });
    if (!due.length) requestAnimationFrame(drawDue);
    due.push({ canvas, values, present, max, width, height });
    return canvas;
}

function drawStrip({ canvas, values, present, max, width, height }) {
    const ctx = size(canvas, width, height);
    const w = width / Math.max(1, values.length);
    cells(ctx, values, max, 0, 0, w, height);
    for (let i = 0; present && i < values.length;) {
        const ppm = present[i];
        let j = i + 1;
        while (j < values.length && present[j] === ppm) j++;
        if (ppm !== null && ppm < FULL) drawLoss(ctx, i * w, 0, (j - i) * w, height, ppm, false);
        i = j;
    }
}

if (typeof document === 'object') onScheme(() => (kept = new WeakMap()));

export function heat(parent, { label, onZoom, onBack, onHover, onSelect }) {
    const canvas = el('canvas', { role: 'img', 'aria-label': label });
    const box = el('div.plot', null, canvas);
    parent.append(box);
    let data = null;
    let cursor = null;
    let chosen = null;
    let brushed = [0, 0];
    const step = () => Number(data.series.step_ns) / 1e6;
    const range = () => [data.series.t0_ms, data.series.t0_ms + data.series.n * step()];
    const wide = () => box.clientWidth - LEFT;
    const timeAt = (x) => range()[0] + ((x - LEFT) / wide()) * (range()[1] - range()[0]);
    const X = (ms) => LEFT + ((ms - range()[0]) / (range()[1] - range()[0])) * wide();

    function draw() {
        if (!data) return;
        const { series, groups: rows, hosts = [] } = data;
        const t = theme();
        const high = rows.length * ROW;
        const max = rows.reduce((m, row) => row.values.reduce((n, v) => Math.max(n, v ?? 0), m), 0);
        const ctx = size(canvas, box.clientWidth, high + AXIS);
        const w = wide() / Math.max(1, series.n);
        ctx.font = '11px system-ui, sans-serif';
        ctx.textBaseline = 'middle';
        rows.forEach((row, i) => {
            ctx.globalAlpha = chosen !== null && chosen !== row.key ? 0.35 : 1;
            ctx.fillStyle = t.ink;
            ctx.save();
            ctx.beginPath();
            ctx.rect(0, i * ROW, LEFT - 8, ROW);
            ctx.clip();
            ctx.fillText(row.label, 4, i * ROW + ROW / 2);
            ctx.restore();
            cells(ctx, row.values, max, LEFT, i * ROW, w, ROW - 1);
        });
        ctx.globalAlpha = 1;
        const hole = holes(series, hosts);
        for (const run of lossRuns(series, hosts)) {
            const [from, to] = [
                Math.max(run.from, hole.before?.until ?? -Infinity),
                Math.min(run.to, hole.after?.from ?? Infinity),
            ];
            if (to > from) drawLoss(ctx, X(from), 0, X(to) - X(from), high, run.ppm, run.atMost);
        }
        for (const none of hole.within)
            drawNothing(ctx, X(none.from), 0, X(none.until) - X(none.from), high, none.text);
        if (hole.before) drawNothing(ctx, LEFT, 0, X(hole.before.until) - LEFT, high, hole.before.text);
        if (hole.after)
            drawNothing(ctx, X(hole.after.from), 0, X(range()[1]) - X(hole.after.from), high, hole.after.text);
        ctx.fillStyle = t.dim;
        ctx.textAlign = 'center';
        for (const m of ticks(...range(), Math.max(2, Math.floor(wide() / 84))))
            ctx.fillText(m.text, X(m.ms), high + AXIS / 2);
        if (brushed[1] > brushed[0]) {
            ctx.globalAlpha = 0.25;
            ctx.fillStyle = t.select;
            ctx.fillRect(brushed[0], 0, brushed[1] - brushed[0], high);
        }
        if (cursor !== null) {
            ctx.globalAlpha = 1;
            ctx.fillStyle = t.dim;
            ctx.fillRect(Math.round(X(cursor)), 0, 1, high);
        }
    }

    const still = pointer(canvas, {
        timeAt,
        range,
        onBack,
        onZoom,
        onHover: (ms) => onHover?.(ms),
        onClick: (event) =>
            onSelect?.(
                data.groups[Math.floor((event.clientY - canvas.getBoundingClientRect().top) / ROW)]?.key ?? null,
            ),
        brush: (a, b) => {
            brushed = [a, b];
            draw();
        },
    });
    const sizes = new ResizeObserver(draw);
    sizes.observe(box);
    const unscheme = onScheme(draw);
    return {
        draw: (next) => {
            data = next;
            draw();
        },
        hover: (ms) => {
            cursor = ms;
            draw();
        },
        select: (value) => {
            chosen = value;
            draw();
        },
        at: (ms) => (data && ms !== null ? bucketAt(data, ms) : null),
        close: () => {
            still();
            sizes.disconnect();
            unscheme();
            data = null;
        },
    };
}
