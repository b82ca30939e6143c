/* Plots over time: dygraphs for axes, scale and canvas; what is drawn on it, and what did not arrive, is ours. Values
 * and what arrived come from one answer and are kept in one object, so that a plot cannot pair them with another's.
 *
 *   const p = plot(parent, {height: 160, label, onZoom: (from, to), onWindow: (from, to), onBack, onHover: (ms |
 *       null), onSelect: (key |
 *       null)})
 *   p.draw({series, hosts, metric, groups: [{key, label, name, values, low, high}], stacked, rates, lines, cpus})
 *       groups as of groupsOf (rows.js): arrays of series.n, null where nothing is. stacked: areas, the first at the
 *       bottom; else lines, with a band where there is low and high. rates: values are sums of a bucket, shown per
 *       second. lines: more groups, drawn in ink over all, `dashed` or not. level: {value, text}, a dashed line across.
 *       polled: starts and ends that are shorter than a sample are not seen
 *   p.hover(ms | null)    the cursor, also of another plot       p.select(key | null)     others fade
 *   p.window(from, to)    at once, with what is there            p.close()
 *   p.at(ms) → {ms, step, ppm, hosts, asked, values: [{label, value}], total} | null
 *   ready                 a promise: dygraphs has loaded
 *   pointer(node, {timeAt, range, onZoom, onWindow, onBack, onHover, onClick, brush})     as on every time axis
 *       onWindow: while the hand moves; onZoom: when it rests
 *
 * Drag: zoom in. Shift and drag: pan. Wheel: zoom at the pointer (where the page itself scrolls, with Ctrl). Double
 * click: back. */
import { onScheme, ofName, REST, theme } from './colour.js';
import { axis, valueTicks } from './format.js';
import { drawLoss, drawNothing, drawPolled, holes, lossRuns, redone } from './hatch.js';
import { el } from './el.js';
import { ticks } from './time.js';

/* dygraphs sets texts of axes by markup; here it can bring in none. */
const escaped = (s) => String(s).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
globalThis.trustedTypes?.createPolicy('default', { createHTML: escaped });

const script = document.getElementById('dygraphs');
export const ready = globalThis.Dygraph
    ? Promise.resolve()
    : new Promise((resolve, reject) => {
          script.addEventListener('load', resolve);
          script.addEventListener('error', reject);
      });

const AXIS_WIDTH = 58;
const SPAN_MIN_MS = 2; /* what one can zoom to */
const open = new Set();

const REST_MS = 250;

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
}

/* What a bucket holds, for readouts. */
export function bucketAt({ series, groups, rates }, ms) {
    const step = Number(series.step_ns) / 1e6;
    const i = Math.floor((ms - series.t0_ms) / step);
    if (i < 0 || i >= series.n) return null;
    const k = rates ? 1000 / step : 1;
    const there = groups.filter((g) => g.values[i] !== null && g.values[i] !== undefined);
    const values = there.map((g) => ({ label: g.label, value: g.values[i] * k, rest: g.key === null }));
    return {
        ms: series.t0_ms + i * step,
        step,
        ppm: series.present[i],
        hosts: series.hosts_in?.[i],
        asked: series.hosts_asked,
        values,
        total: values.length ? values.reduce((sum, v) => sum + v.value, 0) : null,
    };
}

export function plot(parent, { height = 160, label = '', onZoom, onWindow, onBack, onHover, onSelect }) {
    const box = el('div.plot', { role: 'img', 'aria-label': label });
    box.style.height = height + 'px';
    parent.append(box);
    let graph = null;
    let data = null;
    let chosen = null;
    let cursor = null;
    let brushed = [0, 0];
    let shown = null;

    const step = () => Number(data.series.step_ns) / 1e6;
    const end = () => data.series.t0_ms + data.series.n * step();
    const range = () => shown || [data.series.t0_ms, end()];
    const scale = () => (data.rates ? 1000 / step() : 1);

    /* The running sums of what is stacked, bottom first, each with its gaps. */
    function stack(groups, n) {
        const sums = new Float64Array(n);
        for (const g of groups) {
            g.base = g.top = g.values;
            if (!data.stacked) continue;
            g.base = new Float64Array(sums);
            g.top = g.values.map((v, i) => {
                if (v === null) return null;
                sums[i] += v;
                return sums[i];
            });
        }
        return sums;
    }

    /* Columns for dygraphs: the most and the least of each bucket; it scales and we draw. */
    function extent() {
        const { series, groups, lines = [] } = data;
        const sums = stack(groups, series.n);
        const k = scale();
        const rows = [];
        for (let i = 0; i < series.n; i++) {
            let most = Math.max(data.stacked ? sums[i] : 0, 0);
            for (const g of [...(data.stacked ? [] : groups), ...lines]) {
                most = Math.max(most, g.high?.[i] ?? g.values[i] ?? 0);
            }
            rows.push([series.t0_ms + i * step(), most * k]);
        }
        rows.push([end(), rows.length ? rows[rows.length - 1][1] : 0]);
        return rows;
    }

    const lineOf = (g) => (g.key === null ? REST : ofName(g.name ?? g.key));
    const faded = (g) => chosen !== null && g.key !== chosen;

    const there = (v) => v !== null && v !== undefined;
    let seen = [0, 0]; /* the buckets in sight */

    /* One path for each run of buckets with values: nothing is joined across a gap. */
    function runs(values, visit) {
        for (let i = seen[0]; i < seen[1];) {
            if (!there(values[i])) {
                i++;
                continue;
            }
            let j = i;
            while (j < seen[1] && there(values[j])) j++;
            visit(i, j);
            i = j;
        }
    }

    function steps(ctx, values, i, j, X, Y, back) {
        if (!back) {
            for (let k = i; k < j; k++) {
                ctx.lineTo(X(k), Y(values[k]));
                ctx.lineTo(X(k + 1), Y(values[k]));
            }
        } else {
            for (let k = j - 1; k >= i; k--) {
                ctx.lineTo(X(k + 1), Y(values[k]));
                ctx.lineTo(X(k), Y(values[k]));
            }
        }
    }

    /* Buckets of a pixel or two as columns: quicker than one path with thousands of corners. */
    function columns(ctx, g, X, Y) {
        let x = Math.round(X(seen[0]));
        for (let i = seen[0]; i < seen[1]; i++) {
            const next = Math.round(X(i + 1));
            const top = g.top[i];
            if (there(top) && top > g.base[i]) {
                const y = Y(top);
                ctx.fillRect(x, y, next - x, Y(g.base[i]) - y);
            }
            x = next;
        }
    }

    function area(ctx, g, X, Y) {
        const colour = lineOf(g);
        ctx.globalAlpha = faded(g) ? 0.22 : 1;
        ctx.fillStyle = colour.fill;
        if (X(1) - X(0) < 3) {
            columns(ctx, g, X, Y);
            return;
        }
        runs(g.top, (i, j) => {
            ctx.beginPath();
            ctx.moveTo(X(i), Y(g.base[i]));
            steps(ctx, g.top, i, j, X, Y, false);
            steps(ctx, g.base, i, j, X, Y, true);
            ctx.closePath();
            ctx.fill();
        });
        ctx.globalAlpha = faded(g) ? 0.3 : 0.9;
        ctx.lineWidth = 1;
        ctx.strokeStyle = theme().ground;
        runs(g.top, (i, j) => {
            ctx.beginPath();
            steps(ctx, g.top, i, j, X, Y, false);
            ctx.stroke();
        });
    }

    function line(ctx, g, X, Y) {
        const colour = lineOf(g);
        if (g.low && g.high) {
            ctx.globalAlpha = 0.22;
            ctx.fillStyle = colour.fill;
            runs(g.high, (i, j) => {
                ctx.beginPath();
                ctx.moveTo(X(i), Y(g.low[i]));
                steps(ctx, g.high, i, j, X, Y, false);
                steps(ctx, g.low, i, j, X, Y, true);
                ctx.fill();
            });
        }
        ctx.globalAlpha = faded(g) ? 0.25 : 1;
        ctx.strokeStyle = g.ink ? theme().ink : colour.line;
        ctx.lineWidth = g.key === chosen ? 2.2 : 1.4;
        ctx.setLineDash(g.dashed ? [5, 4] : []);
        runs(g.values, (i, j) => {
            ctx.beginPath();
            steps(ctx, g.values, i, j, X, Y, false);
            ctx.stroke();
        });
        ctx.setLineDash([]);
    }

    function drawLevel(ctx, where, y, text) {
        const t = theme();
        ctx.strokeStyle = ctx.fillStyle = t.dim;
        ctx.lineWidth = 1;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(where.x, y);
        ctx.lineTo(where.x + where.w, y);
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.font = '11px system-ui, sans-serif';
        ctx.fillText(text, where.x + where.w - ctx.measureText(text).width - 4, y - where.y < 16 ? y + 12 : y - 4);
    }

    /* Called by dygraphs with its axes laid out: everything inside them. */
    function paint(ctx, where, g) {
        const { series, groups, lines = [], hosts = [], level, polled } = data;
        const k = scale();
        const first = g.toDomXCoord(series.t0_ms);
        const wide = (g.toDomXCoord(end()) - first) / Math.max(1, series.n);
        const X = (i) => first + i * wide;
        const zero = g.toDomYCoord(0);
        const unit = (g.toDomYCoord(1) - zero) * k;
        const Y = (v) => zero + v * unit;
        const bucket = (x) => Math.max(0, Math.min(series.n, (x - first) / wide));
        seen = [Math.floor(bucket(where.x)), Math.ceil(bucket(where.x + where.w))];
        ctx.save();
        ctx.beginPath();
        ctx.rect(where.x, where.y, where.w, where.h);
        ctx.clip();
        for (const one of groups) (data.stacked ? area : line)(ctx, one, X, Y);
        ctx.globalAlpha = 1;
        for (const one of lines) line(ctx, { ...one, ink: true }, X, Y);
        ctx.globalAlpha = 1;
        if (polled) drawPolled(ctx, where.x, where.y + where.h - 1, where.w);
        if (level) drawLevel(ctx, where, Y(level.value), level.text);
        const hole = holes(series, hosts);
        for (const run of lossRuns(series, hosts)) {
            const from = Math.max(run.from, hole.before?.until ?? -Infinity);
            const to = Math.min(run.to, hole.after?.from ?? Infinity);
            if (to > from)
                drawLoss(
                    ctx,
                    g.toDomXCoord(from),
                    where.y,
                    g.toDomXCoord(to) - g.toDomXCoord(from),
                    where.h,
                    run.ppm,
                    run.atMost,
                );
        }
        const nothing = (from, to, what) => {
            const [a, b] = [Math.max(where.x, g.toDomXCoord(from)), Math.min(where.x + where.w, g.toDomXCoord(to))];
            drawNothing(ctx, a, where.y, b - a, where.h, what);
        };
        for (const none of hole.within) nothing(none.from, none.until, none.text);
        if (hole.before) nothing(range()[0], hole.before.until, hole.before.text);
        if (hole.after) nothing(hole.after.from, range()[1], hole.after.text);
        ctx.restore();
    }

    /* The upper canvas: cursor and brush. */
    function over() {
        if (!graph) return;
        const ctx = graph.canvas_ctx_;
        const where = graph.getArea();
        const t = theme();
        ctx.clearRect(0, 0, graph.width_, graph.height_);
        if (brushed[1] > brushed[0]) {
            ctx.fillStyle = t.select;
            ctx.globalAlpha = 0.25;
            ctx.fillRect(brushed[0], where.y, brushed[1] - brushed[0], where.h);
            ctx.globalAlpha = 1;
        }
        if (cursor !== null && cursor >= range()[0] && cursor <= range()[1]) {
            const x = Math.round(graph.toDomXCoord(cursor)) + 0.5;
            ctx.strokeStyle = t.dim;
            ctx.beginPath();
            ctx.moveTo(x, where.y);
            ctx.lineTo(x, where.y + where.h);
            ctx.stroke();
        }
    }

    function groupAt(ms, y) {
        const i = Math.floor((ms - data.series.t0_ms) / step());
        const v = graph.toDataYCoord(y) / scale();
        if (data.stacked) return data.groups.find((g) => g.top[i] !== null && v <= g.top[i] && v >= g.base[i]);
        let best = null;
        for (const g of data.groups) {
            if (g.values[i] === null || g.values[i] === undefined) continue;
            const far = Math.abs(graph.toDomYCoord(g.values[i] * scale()) - y);
            if (far < 8 && (!best || far < best.far)) best = { g, far };
        }
        return best?.g;
    }

    function make(rows) {
        const t = theme();
        /* The legend of dygraphs sets an attribute that the page's policy refuses; the page has its own. */
        const { Axes, Grid } = globalThis.Dygraph.Plugins;
        globalThis.Dygraph.PLUGINS = [Grid, Axes];
        graph = new globalThis.Dygraph(box, rows, {
            labels: ['time', 'most'],
            plotter: (e) => paint(e.drawingContext, e.plotArea, e.dygraph),
            interactionModel: {},
            includeZero: true,
            xRangePad: 0,
            yRangePad: 2,
            highlightCircleSize: 0,
            drawHighlightPointCallback: () => {},
            gridLineColor: t.grid,
            axisLineColor: t.grid,
            axisLabelFontSize: 11,
            dateWindow: range(),
            animatedZooms: false,
            showLabelsOnHighlight: false,
            axes: {
                x: {
                    ticker: (a, b, px) =>
                        ticks(a, b, Math.max(2, Math.floor(px / 84))).map((m) => ({ v: m.ms, label: m.text })),
                    axisLabelWidth: 80,
                },
                y: {
                    ticker: (a, b, px) => {
                        const binary = /byte|working|pool/.test(data.metric);
                        return valueTicks(a, b, Math.max(2, Math.floor(px / 30)), binary).map((v) => ({
                            v,
                            label: axis(data.metric, v, data.rates),
                        }));
                    },
                    axisLabelWidth: AXIS_WIDTH,
                },
            },
        });
        box.querySelector('.dygraph-roller')?.remove(); /* an input that nobody can see, without a name */
        const canvas = graph.canvas_;
        pointer(canvas, {
            timeAt: (x) => graph.toDataXCoord(x),
            range,
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
                const r = canvas.getBoundingClientRect();
                onSelect?.(groupAt(graph.toDataXCoord(event.clientX - r.left), event.clientY - r.top)?.key ?? null);
            },
            brush: (a, b) => {
                brushed = [a, b];
                over();
            },
        });
    }

    const self = {
        node: box,
        draw(next) {
            data = next;
            shown = null;
            const rows = extent();
            if (!graph) make(rows);
            else graph.updateOptions({ file: rows, dateWindow: range() });
            over();
        },
        redraw() {
            if (graph) graph.updateOptions({ gridLineColor: theme().grid, axisLineColor: theme().grid });
            over();
        },
        hover(ms) {
            cursor = ms;
            over();
        },
        select(value) {
            chosen = value;
            if (graph) graph.renderGraph_();
            over();
        },
        window(from, to) {
            shown = [from, to];
            if (graph) graph.updateOptions({ dateWindow: shown });
            over();
        },
        at: (ms) => (data && ms !== null ? bucketAt(data, ms) : null),
        close() {
            open.delete(self);
            sizes.disconnect();
            graph?.destroy();
            graph = null;
        },
    };
    const sizes = new ResizeObserver(() => graph?.resize());
    sizes.observe(box);
    open.add(self);
    return self;
}

onScheme(() => {
    redone();
    for (const p of open) p.redraw();
});
